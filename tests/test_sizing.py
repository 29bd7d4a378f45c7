"""What deploy/sizing.md shows and names is there, and the collector takes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from onpath_collector.config import load_settings
from tests.conftest import ROOT

PAGE = ROOT / "deploy" / "sizing.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.M | re.S)
LINKS = re.findall(r"\]\(([^)#]+)[^)]*\)", TEXT)
OTELCOL = sorted((ROOT / "deploy" / "otelcol").glob("*.yaml"))


@pytest.mark.parametrize("block", BLOCKS)
def test_its_settings_load(block: str, tmp_path: Path) -> None:
    assert block.startswith("# onpath.yaml\n")
    path = tmp_path / "onpath.yaml"
    path.write_text(block, encoding="utf-8")
    settings = load_settings(path, {})
    assert settings.gateway.members is not None
    assert settings.buffer.settle_delay > settings.gateway.interval


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_its_links_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()


@pytest.mark.parametrize("path", OTELCOL, ids=[path.name for path in OTELCOL])
def test_the_collectors_configurations_are_mappings(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)
