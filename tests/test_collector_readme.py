"""The settings that collector/README.md shows: all that there are, with the defaults that they have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from onpath_collector.config import load_settings
from tests.conftest import ROOT

TEXT = (ROOT / "collector" / "README.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("\n## Settings\n")[2].partition("\n## ")[0]
BLOCK = re.findall(r"^```yaml\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)[0]
SHOWN = BLOCK.replace("{the same}", "{}").replace("{the same, ", "{")
EXAMPLES = {("forward", "endpoint"), ("policy",)}  # not what holds where nothing is set

# What one needs only where it can't be told from the endpoint, or as for all signals.
UNSAID = {("forward", "protocol"), ("forward", "tls"), ("results", "protocol")}


def leaves(tree: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(tree, dict) or not tree:
        return {path: tree}
    return {leaf: value for key, inner in tree.items() for leaf, value in leaves(inner, (*path, key)).items()}


def test_its_values_are_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "onpath.yaml"
    path.write_text(SHOWN, encoding="utf-8")
    shown, default = (leaves(load_settings(each, {}).model_dump(mode="json")) for each in (path, None))
    assert {leaf for leaf in default if shown.get(leaf) != default[leaf]} == EXAMPLES


def test_every_setting_is_shown() -> None:
    shown = yaml.safe_load(SHOWN)
    settings = load_settings(None, {}).model_dump(mode="json")
    assert set(shown) == set(settings)
    assert inner(settings) - inner(shown) == UNSAID


def inner(parts: dict[str, Any]) -> set[tuple[str, str]]:
    return {(part, key) for part, values in parts.items() if isinstance(values, dict) for key in values}
