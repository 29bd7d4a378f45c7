"""How much the processor may hold and for how long, and what it sends: by code, by `ONPATH_*`, by a configuration file.

Names and meanings are the collector's where both have one (buffer limits); the defaults are those of a guest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, Literal, TypedDict

from onpath.units import byte_count, seconds

SPAN_MODES: Final = ("off", "clamped", "realtime", "linked")
PREFIX: Final = "ONPATH_"


class Options(TypedDict, total=False):
    """`Settings` as keywords; durations and sizes also as text with a unit."""

    queue_size: int | str
    queue_bytes: int | str
    when_full: str
    max_age: float | str
    span_limit: int | str
    trace_bytes_limit: int | str
    memory_limit: int | str
    late_window: float | str
    late_bytes: int | str
    settled_memory: int | str
    settle_delay: float | str
    orphan_delay: float | str
    idle_timeout: float | str
    exit_timeout: float | str
    spans: str
    events: bool | str
    metrics: bool | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations in seconds, sizes in bytes."""

    queue_size: int = 20_000  # starts and ends of spans that wait for the judging thread
    queue_bytes: int = 32 << 20
    when_full: Literal["drop", "block"] = "drop"
    max_age: float = 1800.0
    span_limit: int = 20_000
    trace_bytes_limit: int = 32 << 20
    memory_limit: int = 64 << 20
    late_window: float = 600.0
    late_bytes: int = 16 << 20
    settled_memory: int = 20_000
    settle_delay: float = 2.0  # this and the next two: of the exporter, which sees no starts
    orphan_delay: float = 10.0
    idle_timeout: float = 120.0
    exit_timeout: float = 5.0  # how long the end of the process may wait for verdicts
    spans: Literal["off", "clamped", "realtime", "linked"] = "off"
    events: bool = True
    metrics: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """Raises TypeError for an unknown name and ValueError for a wrong value, with all that is wrong."""
        settings, problems = cls.lenient(options)
        unknown = [p for p in problems if p.startswith("unknown")]
        if problems:
            raise (TypeError if unknown else ValueError)("; ".join(problems))
        return settings

    @classmethod
    def lenient(cls, options: Mapping[str, Any], base: Settings | None = None) -> tuple[Settings, list[str]]:
        """What is right is taken, for the rest stands `base`, else the defaults; and what is wrong."""
        taken: dict[str, Any] = {}
        problems: list[str] = []
        for name, value in options.items():
            read = _READERS.get(name)
            if read is None:
                near = get_close_matches(name, _READERS, 1)
                problems.append(f"unknown setting {name}" + (f"; did you mean {near[0]}?" if near else ""))
                continue
            try:
                taken[name] = read(value)
            except ValueError as error:
                problems.append(f"{name}: {error}")
        return replace(base or cls(), **taken), problems


def from_environment(environment: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """The settings that stand in `ONPATH_*` variables, and what is wrong with some, each with its variable's name."""
    found = {name: environment[PREFIX + name.upper()] for name in _READERS if environment.get(PREFIX + name.upper())}
    settings, problems = Settings.lenient(found)
    named = [problem.partition(":") for problem in problems]
    return settings, [f"{PREFIX}{name.upper()}:{said}" for name, _, said in named]


def _seconds(value: Any) -> float:
    if isinstance(value, str):
        return seconds(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError("expected a number of seconds, or text such as 10m")
    return float(value)


def _bytes(value: Any) -> int:
    if isinstance(value, str):
        return byte_count(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("expected a number of bytes, or text such as 64MiB")
    return value


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("expected a whole number from 1 on")
    return value


def _flag(value: Any) -> bool:
    words = {"true": True, "1": True, "on": True, "yes": True, "false": False, "0": False, "off": False, "no": False}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value is False and "off" in words:  # what YAML makes of `off`
            return "off"
        if value not in words:
            raise ValueError(f"expected {', '.join(words[:-1])} or {words[-1]}")
        return str(value)

    return read


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "queue_size": _count,
    "queue_bytes": _bytes,
    "when_full": _one_of("drop", "block"),
    "max_age": _seconds,
    "span_limit": _count,
    "trace_bytes_limit": _bytes,
    "memory_limit": _bytes,
    "late_window": _seconds,
    "late_bytes": _bytes,
    "settled_memory": _count,
    "settle_delay": _seconds,
    "orphan_delay": _seconds,
    "idle_timeout": _seconds,
    "exit_timeout": _seconds,
    "spans": _one_of(*SPAN_MODES),
    "events": _flag,
    "metrics": _flag,
}
