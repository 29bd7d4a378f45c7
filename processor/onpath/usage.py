"""Token counts and other metrics of model calls: one spelling for each, one number for each model (flow.md section 9).

A recorded key is METRIC, or MODEL:METRIC divided at the last colon. Data flow: recorded usage -> by model and metric,
the first known spelling taken -> summed over the models that a rule asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Final, TypeAlias

Number: TypeAlias = int | float

TOTAL: Final = "total_tokens"
LONG_CONTEXT: Final = "_long_context"  # a separate part of a metric, added to it

SPELLINGS: Final[tuple[tuple[str, ...], ...]] = (
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
_GROUP: Final = {spelling: group for group in SPELLINGS for spelling in group}
_SNAPSHOT: Final = re.compile(r"-([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})")


def canonical(metric: str) -> str:
    """The one spelling of a metric; a metric without others, and a long-context part, keep their own."""
    base = metric.removesuffix(LONG_CONTEXT)
    return _GROUP.get(base, (base,))[0] + metric[len(base) :]


def totals(usage: Mapping[str, Any]) -> dict[str, Number]:
    """Every metric under its canonical name, summed over models; `total_tokens` also where it follows from its halves.

    Values that are no numbers >= 0 are not there.
    """
    models = _by_model(usage)
    metrics = dict.fromkeys(canonical(metric.removesuffix(LONG_CONTEXT)) for _, metric in map(_divided, usage))
    found: dict[str, Number] = {}
    for metric in (*metrics, TOTAL):
        number = _sum(metric, models.values())
        if number is not None:
            found[metric] = number
    return found


def amount(usage: Mapping[str, Any], rule: str) -> Number | None:
    """What a rule's METRIC or MODEL:METRIC adds up to; None if nothing of it was recorded.

    METRIC adds up all models, MODEL:METRIC that model and its dated snapshots.
    """
    model, metric = _divided(rule)
    models = _by_model(usage)
    if model is None:
        return _sum(metric, models.values())
    return _sum(metric, (metrics for name, metrics in models.items() if name is not None and _is_model(name, model)))


def _divided(key: str) -> tuple[str | None, str]:
    model, colon, metric = key.rpartition(":")
    return (model if colon else None), metric


def _by_model(usage: Mapping[str, Any]) -> dict[str | None, dict[str, Number]]:
    models: dict[str | None, dict[str, Number]] = {}
    for key, value in usage.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
            model, metric = _divided(key)
            models.setdefault(model, {})[metric] = value
    return models


def _is_model(recorded: str, asked: str) -> bool:
    """Whether a recorded id is the model asked for, or that with a date behind it."""
    if recorded == asked:
        return True
    snapshot = _SNAPSHOT.fullmatch(recorded, len(asked)) if recorded.startswith(asked) else None
    if snapshot is None:
        return False
    try:
        date(int(snapshot[1]), int(snapshot[3]), int(snapshot[4]))
    except ValueError:
        return False
    return True


def _sum(metric: str, models: Iterable[Mapping[str, Number]]) -> Number | None:
    numbers = [number for metrics in models if (number := _of_model(metric, metrics)) is not None]
    return sum(numbers) if numbers else None


def _of_model(metric: str, metrics: Mapping[str, Number]) -> Number | None:
    found = _recorded(metric, metrics)
    if found is not None or canonical(metric) != TOTAL:
        return found
    halves = (_recorded("input_tokens", metrics), _recorded("output_tokens", metrics))
    return None if halves[0] is None or halves[1] is None else halves[0] + halves[1]


def _recorded(metric: str, metrics: Mapping[str, Number]) -> Number | None:
    """The first spelling recorded, and the first one of the long-context part, added; that part alone if asked for."""
    base = metric.removesuffix(LONG_CONTEXT)
    spellings = _GROUP.get(base, (base,))
    suffixes = (LONG_CONTEXT,) if base != metric else ("", LONG_CONTEXT)
    parts = [
        next((metrics[name + suffix] for name in spellings if name + suffix in metrics), None) for suffix in suffixes
    ]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
