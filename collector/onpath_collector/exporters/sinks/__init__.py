"""Scores where people already look: each result becomes a score in a dashboard that has an API of its own.

Outcome -> SinkExporter (queue, retries, counts) -> Sink.send -> requests of one backend

`open_sinks` makes them of the settings; credentials come from the environment, never from a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from onpath_collector.config import SinkType
from onpath_collector.exporters.sinks.base import Http, Problem, Sink, Target
from onpath_collector.exporters.sinks.datadog import Datadog
from onpath_collector.exporters.sinks.delivery import SinkExporter
from onpath_collector.exporters.sinks.langfuse import Langfuse
from onpath_collector.exporters.sinks.langsmith import LangSmith
from onpath_collector.exporters.sinks.mlflow import MLflow
from onpath_collector.exporters.sinks.phoenix import Phoenix
from onpath_collector.exporters.sinks.webhook import Webhook

__all__ = ["SinkExporter", "SinkSettings", "open_sinks"]

_MAKERS: Final[Mapping[SinkType, Callable[[Target], Sink]]] = {
    "phoenix": Phoenix,
    "mlflow": MLflow,
    "langfuse": Langfuse,
    "langsmith": LangSmith,
    "datadog": Datadog,
    "webhook": Webhook,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """`url` None: the backend's own environment variable says where it is, or its cloud is meant. Seconds."""

    type: SinkType
    url: str | None = None
    timeout: float = 5.0


def open_sinks(settings: Sequence[SinkSettings], environment: Mapping[str, str]) -> list[SinkExporter]:
    """Nothing is sent yet. Raises ValueError that names every sink without a place or credentials, a line each."""
    problems: list[str] = []
    made: list[SinkExporter] = []
    types = Counter(each.type for each in settings)
    for position, each in enumerate(settings):
        try:
            sink = _MAKERS[each.type](Target(each.url, environment))
        except Problem as problem:
            problems.append(f"results.sinks[{position}] ({each.type}): {problem}")
        else:
            label = each.type + (f"/{position}" if types[each.type] > 1 else "")
            made.append(SinkExporter(label, sink, Http(sink.url, sink.headers, each.timeout)))
    if problems:
        raise ValueError("\n".join(problems))
    return made
