"""Presets: what Logfire and Braintrust read scores from, on the evaluation span."""

from __future__ import annotations

import json

from onpath import results
from onpath.results_presets import Preset
from tests.test_semantic_conventions import report


def attributes(*presets: Preset) -> dict[str, object]:
    (result,) = report().results
    return results.Leaving(report(), result).span("clamped", presets).attributes


def test_without_presets_nothing_is_added() -> None:
    assert not [name for name in attributes() if name.startswith(("logfire", "braintrust"))]


def test_logfire_reads_feedback_on_the_parent() -> None:
    found = attributes("logfire")
    assert {name: value for name, value in found.items() if name.startswith("logfire") or name == "refund"} == {
        "logfire.span_type": "annotation",
        "logfire.msg": "feedback: refund = 0.5",
        "logfire.feedback.name": "refund",
        "refund": 0.5,
        "logfire.feedback.comment": "half",
    }


def test_braintrust_reads_the_scores_of_a_scorer() -> None:
    found = attributes("braintrust", "logfire")
    assert json.loads(str(found["braintrust.scores"])) == {"seq": 0.5}  # what has no score has none there
    assert json.loads(str(found["braintrust.span_attributes"])) == {"type": "score"}
    assert "logfire.feedback.name" in found
