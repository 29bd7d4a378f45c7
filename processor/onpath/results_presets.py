"""Attributes by which backends that read scores from spans know an evaluation span for one (results.md section 3).

Data flow: values of an evaluation span -> `preset_attributes` -> beside its other attributes. None are there
unless asked for: what one backend reads is noise to the others.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, TypeAlias

Preset: TypeAlias = Literal["logfire", "braintrust"]

_SCORE: Final = "gen_ai.evaluation.score.value"
_LABEL: Final = "gen_ai.evaluation.score.label"
_EXPLANATION: Final = "gen_ai.evaluation.explanation"


def preset_attributes(
    presets: Collection[Preset], name: str, judged: Mapping[str, Any], scores: Mapping[str, float]
) -> dict[str, Any]:
    """What the presets add to the span of a workflow's evaluation.

    `name` is the workflow's; `judged` are the `gen_ai.evaluation.*` attributes of the span; `scores` has those of the
    single evaluations, from 0 to 1.
    """
    found: dict[str, Any] = {}
    if "logfire" in presets:
        found |= _logfire(name, judged)
    if "braintrust" in presets:
        found |= _braintrust(scores)
    return found


def _logfire(name: str, judged: Mapping[str, Any]) -> dict[str, Any]:
    """As `logfire.experimental.annotations.record_feedback` marks feedback on the parent: a number is a score, a text
    is a label."""
    value = judged.get(_SCORE, judged.get(_LABEL))
    if value is None:
        return {}
    found = {
        "logfire.span_type": "annotation",
        "logfire.msg": f"feedback: {name} = {value!r}",
        "logfire.feedback.name": name,
        name: value,
    }
    if explanation := judged.get(_EXPLANATION):
        found["logfire.feedback.comment"] = explanation
    return found


def _braintrust(scores: Mapping[str, float]) -> dict[str, Any]:
    """As Braintrust's SDKs write a scorer's span over OpenTelemetry."""
    return {
        "braintrust.span_attributes": json.dumps({"type": "score"}),
        "braintrust.scores": json.dumps(dict(scores), ensure_ascii=False),
    }
