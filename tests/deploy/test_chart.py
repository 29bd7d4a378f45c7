"""The chart's values and their schema, without Helm; what Helm makes of them is in test_tools.py."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from onpath_collector.config import Settings
from tests.conftest import ROOT

CHART = ROOT / "deploy" / "helm" / "onpath"
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
CASES = sorted((CHART / "ci").glob("*.yaml"))


def problems(values: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft7Validator(SCHEMA).iter_errors(values)]


def test_defaults_and_cases_fit_the_schema() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert problems(DEFAULTS) == []
    assert len(CASES) >= 4
    for case in CASES:
        assert problems(yaml.safe_load(case.read_text(encoding="utf-8"))) == [], case.name


def test_every_value_has_a_default_and_a_place_in_the_schema() -> None:
    assert set(SCHEMA["properties"]) - {"global"} == set(DEFAULTS)


def parts(schema: dict[str, Any], values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of the mappings whose keys the schema knows."""
    if "properties" in schema and schema.get("type") == "object":
        yield path
        for name, below in schema["properties"].items():
            if isinstance(values.get(name), dict):
                yield from parts(below, values[name], (*path, name))


@pytest.mark.parametrize("path", list(parts(SCHEMA, DEFAULTS)), ids="/".join)
def test_a_slip_of_the_pen_is_refused(path: tuple[str, ...]) -> None:
    values = json.loads(json.dumps(DEFAULTS))
    at = values
    for name in path:
        at = at[name]
    at["no_such_value"] = 1
    assert any("no_such_value" in problem for problem in problems(values))


@pytest.mark.parametrize(
    "values",
    [
        {"mode": "daemonset"},
        {"replicas": "three"},
        {"replicas": 0},
        {"image": {"digest": "sha256:abc"}},
        {"terminationGracePeriodSeconds": "30s"},
        {"admin": {"tokenSecret": "Not_A_Name"}},
        {"agent": {"containers": [{"image": "agent"}]}},
        {"data": {"sizeLimit": "4GiB"}},
        {"config": {"bufer": {}}},
        {"config": "receivers: {}"},
    ],
    ids=json.dumps,
)
def test_what_cannot_be_is_refused(values: dict[str, Any]) -> None:
    assert problems(values)


def test_the_schema_knows_the_settings_of_the_collector() -> None:
    assert set(SCHEMA["properties"]["config"]["properties"]) == set(Settings.model_fields)


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["appVersion"] == project["version"]
