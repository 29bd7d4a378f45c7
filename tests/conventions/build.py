"""Small hand-made traces: spans by what matters in a test, everything else filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onpath.model import Event, LogRecord, Span, Trace
from onpath.steps import steps_of
from onpath.steps.model import Scope, Step

TRACE = "a" * 32
MS = 1_000_000


def span(
    name: str,
    attributes: Mapping[str, Any] | None = None,
    *,
    at: tuple[float, float | None] = (0, 1),
    under: Span | None = None,
    id: int | None = None,
    scope: str = "",
    status: tuple[int, str] = (0, ""),
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    kind: int = 1,
    parent_id: str | None = None,
) -> Span:
    """`at` is start and end in milliseconds; ids count up unless one is given."""
    number = next(_IDS) if id is None else id
    start, end = at
    return Span(
        trace_id=TRACE,
        span_id=f"{number:016x}",
        name=name,
        start_ns=int(start * MS),
        end_ns=None if end is None else int(end * MS),
        parent_span_id=under.span_id if under is not None else parent_id,
        attributes=dict(attributes or {}),
        status_code=status[0],
        status_message=status[1],
        events=tuple(Event(n, int(start * MS), a) for n, a in events),
        scope_name=scope,
        kind=kind,
    )


def _counter() -> Any:
    number = 0x1000
    while True:
        number += 1
        yield number


_IDS = _counter()


def log(of: Span, name: str, body: Any = None, attributes: Mapping[str, Any] | None = None) -> LogRecord:
    return LogRecord(of.trace_id, of.span_id, of.start_ns, name, body, attributes or {})


def scopes(*spans: Span, logs: Sequence[LogRecord] = (), **how: Any) -> tuple[Scope, ...]:
    return steps_of(Trace(spans, logs), **how)


def run_scope(*spans: Span, logs: Sequence[LogRecord] = (), **how: Any) -> Scope:
    (run,) = [s for s in scopes(*spans, logs=logs, **how) if s.run]
    return run


def steps(*spans: Span, logs: Sequence[LogRecord] = ()) -> tuple[Step, ...]:
    return run_scope(*spans, logs=logs).steps


def only(*spans: Span, logs: Sequence[LogRecord] = ()) -> Step:
    (step,) = steps(*spans, logs=logs)
    return step


def shown(found: Sequence[Step]) -> list[str]:
    """Kinds and names, the way tests read them: `tool lookup_user`."""
    return ["llm" if s.kind == "llm" else f"{s.kind} {s.name}" for s in found]
