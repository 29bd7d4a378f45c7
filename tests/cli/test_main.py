"""The one command: what it says of a command that there isn't."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from onpath.cli import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["chek"], "No such command 'chek'. Did you mean 'check'?"),
        (["frobnicate"], "No such command 'frobnicate'.\n"),
        (["--polcy"], "No such option '--polcy'"),
        (["check", "--polcy", "p.yaml"], "Did you mean '--policy'?"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, told in done.output) == (64, True), done.output
