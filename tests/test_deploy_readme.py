"""The configurations that deploy/README.md shows are ones that the collector takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onpath_collector.config import load_settings
from onpath_collector.outlets import endpoints, sinks
from tests.conftest import ROOT

TEXT = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    (title, block)
    for title, block in re.findall(r"^## (.+?)\n.*?^```yaml\n(.*?)^```", TEXT, re.M | re.S)
    if not title.startswith("Prometheus")  # what stands there is Prometheus's own configuration
]
CREDENTIALS = sorted(set(re.findall(r"\b(?:[A-Z]+_)+(?:KEY|TOKEN|SECRET|BASIC)\b", TEXT)))


@pytest.mark.parametrize(("backend", "block"), BLOCKS, ids=[backend for backend, _ in BLOCKS])
def test_it_loads(backend: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CREDENTIALS:
        monkeypatch.setenv(name, "secret")
    path = tmp_path / "onpath.yaml"
    path.write_text(block + "policy: policy.yaml\n", encoding="utf-8")
    settings = load_settings(path, {})
    made = sinks(settings.results)
    assert made or settings.results.presets, backend
    assert list(endpoints(settings)) or backend == "Anything else"


def test_every_backend_has_one() -> None:
    assert len(BLOCKS) == 8
