"""SARIF 2.1.0: one result for each finding, at the recording that shows it; what is unknown is a notification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from onpath.cli.judged import EvaluationJson, Judged, ResultJson, what_failed
from onpath.cli.text import printable

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"low": "note", "material": "warning", "critical": "error"}
_RULES: Final = {
    "missing_step": "An expected step is missing",
    "moved_step": "An expected step is out of order",
    "extra_step": "A step is not expected",
    "required_missing": "A required step is missing",
    "prohibited_called": "A prohibited step was taken",
    "unexpected_step": "A step stands where another one is expected",
    "not_parallel": "Steps did not run at the same time",
    "value": "A value is not as expected",
    "unknown": "What was recorded does not settle a check",
}


def render(judged: Judged, version: str) -> bytes:
    results = [_as_result(judged, *found) for found in _findings(judged)]
    rules = list(dict.fromkeys(result["ruleId"] for result in results))
    for result in results:
        result["ruleIndex"] = rules.index(result["ruleId"])
    run = {
        "tool": {"driver": {"name": "onpath", "version": version, "rules": [_rule(rule) for rule in rules]}},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": list(_notifications(judged))}],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2).encode()


def _rule(rule: str) -> dict[str, Any]:
    return {"id": rule, "shortDescription": {"text": _RULES.get(rule, rule.replace("_", " ").capitalize())}}


def _findings(judged: Judged) -> Iterator[tuple[ResultJson, EvaluationJson, dict[str, Any]]]:
    """Every finding of what failed; a failed evaluation without any is one by itself, named by the evaluation."""
    for result, evaluation in judged.evaluations():
        if not judged.failed(evaluation["label"]):
            continue
        rule = "unknown" if evaluation["label"] == "unknown" else evaluation["name"]
        alone: dict[str, Any] = {
            "rule": rule,
            "severity": "material",
            "message": what_failed(evaluation),
            "step": None,
            "span_ids": [],
        }
        yield from ((result, evaluation, finding) for finding in evaluation["findings"] or [alone])


def _as_result(
    judged: Judged, result: ResultJson, evaluation: EvaluationJson, finding: dict[str, Any]
) -> dict[str, Any]:
    spans = finding["span_ids"]
    where = f"{result['workflow']}: {evaluation['name']}: {finding['message']}"
    return {
        "ruleId": printable(finding["rule"]),
        "level": _LEVELS[finding["severity"]],
        "kind": "fail",
        "message": {"text": _plain(where)},
        "locations": [_location(judged, result, finding["step"])],
        "partialFingerprints": {
            "onpath/v1": ":".join((evaluation["key"], finding["rule"], finding["step"] or "", *spans))
        },
        "properties": {
            "workflow": result["workflow"],
            "evaluation": evaluation["name"],
            "score": evaluation["score"],
            "trace_id": result["trace_id"],
            "span_ids": spans or [result["span_id"]],
        },
    }


def _plain(text: str) -> str:
    """For a message, in which `[text](target)` would be a link: names come from outside."""
    return printable(text).replace("](", "] (")


def _location(judged: Judged, result: ResultJson, step: str | None) -> dict[str, Any]:
    name = step or result["agent"] or result["workflow"]
    full = f"{result['trace_id']}/{result['span_id']}" + (f"/{step}" if step else "")
    logical = {"name": printable(name), "fullyQualifiedName": printable(full), "kind": "function"}
    location: dict[str, Any] = {"logicalLocations": [logical]}
    file = judged.file_of(result)
    if file:
        artifact = {"uri": _uri(file)}
        location["physicalLocation"] = {"artifactLocation": artifact, "region": {"startLine": 1}}
    return location


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _notifications(judged: Judged) -> Iterator[dict[str, Any]]:
    for result, evaluation in judged.evaluations():
        if evaluation["label"] == "unknown":
            said = f"{result['workflow']}: {evaluation['name']}: {what_failed(evaluation)}"
            yield {
                "level": "error" if "error_type" in evaluation else "warning",
                "message": {"text": _plain(said)},
                "locations": [_location(judged, result, None)],
            }
