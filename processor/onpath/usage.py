"""Usage metrics: one canonical spelling each, and totals over models (flow.md section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SPELLINGS: Final = (
    ("input_tokens", "prompt_tokens", "input_text_tokens"),
    ("output_tokens", "completion_tokens", "output_text_tokens"),
    (
        "cache_read_input_tokens",
        "cache_read.input_tokens",
        "cached_tokens",
        "input_cached_tokens",
        "prompt_tokens_details.cached_tokens",
    ),
    ("cache_creation_input_tokens", "cache_creation.input_tokens"),
    (
        "reasoning_tokens",
        "reasoning.output_tokens",
        "output_reasoning_tokens",
        "completion_tokens_details.reasoning_tokens",
    ),
)
_CANONICAL: Final = {spelling: row[0] for row in _SPELLINGS for spelling in row}


def canonical(metric: str) -> str:
    """The one spelling of a metric; one without other spellings is its own."""
    return _CANONICAL.get(metric, metric)


def totals(usage: Mapping[str, int | float]) -> dict[str, int | float]:
    """Metrics by canonical name, summed over models; keys are METRIC or MODEL:METRIC, divided at the last colon."""
    found: dict[str, int | float] = {}
    for key, number in usage.items():
        metric = canonical(key.rpartition(":")[2])
        found[metric] = found.get(metric, 0) + number
    return found
