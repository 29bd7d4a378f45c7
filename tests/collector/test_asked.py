"""`onpath health` and `onpath wait` where nothing can be asked: each says what is wrong, and with what."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from onpath.cli import main

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["health", "--admin", "here"], 64, "'here' is not HOST:PORT"),
        (["health", "--admin", "13133"], 64, "'13133' is not HOST:PORT"),
        (["health", "--admin", "127.0.0.1:99999"], 64, "is not HOST:PORT"),
        (["health", "--admin", "[::1]:1"], 1, "no answer from [::1]:1: "),
        (["health", "--config", "nowhere.yaml"], 1, "nowhere.yaml: No such file"),
        (["wait", "zz"], 64, "'zz' is not 32 hex digits"),
        (["wait", TRACE, "--admin", "127.0.0.1:1"], 2, "no answer from 127.0.0.1:1: Connection refused"),
        (["wait", TRACE, "--token-file", "nowhere"], 2, "nowhere: No such file"),
        (["wait", TRACE, "--ca", "nowhere.pem"], 2, "No such file"),
    ],
)
def test_what_is_wrong(
    arguments: list[str], code: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, told in done.output) == (code, True), done.output
