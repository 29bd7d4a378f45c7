"""Spans and traces as frozen values: what an instrumentation recorded, before onpath reads anything into it.

Readers (`otlp_json`, the collector's protobuf reader, the span processor) make `Span` and `LogRecord` values; `Trace`
puts the spans of one trace, or of one session over several traces, in order and into a tree. Times are nanoseconds
since the Unix epoch, ids are lower-case hex. An attribute value is what OTLP's AnyValue holds: text, bool, int, float,
bytes, None, a list, or a dict with text keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Any, Final, TypeAlias

AttributeValue: TypeAlias = Any
Attributes: TypeAlias = Mapping[str, AttributeValue]

STATUS_UNSET: Final = 0
STATUS_OK: Final = 1
STATUS_ERROR: Final = 2

FLAG_REMOTE_KNOWN: Final = 0x100  # OTLP span flags: whether the parent is remote is known ...
FLAG_REMOTE: Final = 0x200  # ... and it is


class NotCaptured(Enum):
    """The value was not recorded: different from null and from empty."""

    NOT_CAPTURED = "not captured"

    def __repr__(self) -> str:
        return "NOT_CAPTURED"

    def __bool__(self) -> bool:
        return False


NOT_CAPTURED: Final = NotCaptured.NOT_CAPTURED


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """The entity that produced telemetry; `service` is its `service.name`."""

    attributes: Attributes = field(default_factory=dict)

    @property
    def service(self) -> str | None:
        name = self.attributes.get("service.name")
        return name if isinstance(name, str) else None


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    name: str
    time_ns: int
    attributes: Attributes


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    trace_id: str
    span_id: str
    attributes: Attributes


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """One span as recorded. Spans compare by identity; `key` tells two records of one span."""

    trace_id: str
    span_id: str
    name: str
    start_ns: int
    end_ns: int | None  # None: still open (only the in-process processor sees such spans)
    parent_span_id: str | None = None
    attributes: Attributes = field(default_factory=dict)
    resource: Resource = field(default_factory=Resource)
    kind: int = 0
    status_code: int = STATUS_UNSET
    status_message: str = ""
    events: Sequence[Event] = ()
    links: Sequence[Link] = ()
    scope_name: str = ""
    scope_version: str = ""
    flags: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return (self.trace_id, self.span_id)

    @property
    def parent_key(self) -> tuple[str, str] | None:
        return (self.trace_id, self.parent_span_id) if self.parent_span_id else None

    @property
    def has_remote_parent(self) -> bool:
        remote = FLAG_REMOTE_KNOWN | FLAG_REMOTE
        return self.parent_span_id is not None and self.flags & remote == remote

    @property
    def order(self) -> tuple[int, float, str]:
        """Sort key: start, end (an open span after every ended one), span id."""
        return (self.start_ns, float("inf") if self.end_ns is None else self.end_ns, self.span_id)


@dataclass(frozen=True, slots=True, eq=False)
class LogRecord:
    """A log record that names a span: some instrumentations put message content there."""

    trace_id: str
    span_id: str
    time_ns: int
    event_name: str
    body: AttributeValue
    attributes: Attributes
    resource: Resource = field(default_factory=Resource)
    scope_name: str = ""


class Trace:
    """The spans of one trace or session, in order, as a forest.

    `roots` holds every span without a parent in the trace, in order. `orphans` are those of them whose parent is named
    but was not seen; a remote parent that stands in for a missing root is none (collector.md section 2). In a loop of
    spans that are their own ancestors the earliest one becomes a root, so the forest always is one. Of two records with
    the same trace and span id, one is kept: the one that ends later, else the greater by content, so that the order of
    arrival never matters.

    `starts_seen`: only who watches spans from inside their process knows. True: every span that has started is here,
    so what is missing can only come later. False: spans are known to be gone, so the trace is never complete.
    """

    __slots__ = ("_children", "_parents", "_resources", "_services", "complete", "duplicates", "logs", "orphans",
                 "release_reason", "roots", "session", "spans", "starts_seen")  # fmt: skip

    def __init__(
        self,
        spans: Iterable[Span],
        logs: Iterable[LogRecord] = (),
        *,
        session: str | None = None,
        release_reason: str | None = None,
        starts_seen: bool | None = None,
    ) -> None:
        """`release_reason` is the buffer's; None (offline) is `root_ended` when nothing is missing, else `idle`."""
        known: dict[tuple[str, str], Span] = {}
        count = 0
        for span in spans:
            count += 1
            key = (span.trace_id, span.span_id)
            held = known.get(key)
            known[key] = span if held is None else _preferred(held, span)
        self.duplicates = count - len(known)
        self.spans: tuple[Span, ...] = tuple(sorted(known.values(), key=_order))
        self.logs: tuple[LogRecord, ...] = tuple(
            sorted(logs, key=lambda r: (r.time_ns, r.span_id, r.event_name, repr(r.body)))
        )
        self.session = session
        self._link(known)
        self.orphans: tuple[Span, ...] = self._find_orphans(known)
        if release_reason is None:
            release_reason = "root_ended" if self.roots and not self.orphans else "idle"
        self.release_reason = release_reason
        self.starts_seen = starts_seen
        ended = release_reason in ("root_ended", "marked")
        self.complete = ended and not self.orphans and starts_seen is not False

    def _link(self, known: Mapping[tuple[str, str], Span]) -> None:
        parents: dict[Span, Span] = {}
        for span in self.spans:
            parent = known.get(span.parent_key) if span.parent_key else None
            if parent is not None:
                parents[span] = parent
        settled: set[Span] = set()
        for span in self.spans:  # in order, so the earliest span of a loop is the one that becomes a root
            above = parents.get(span)
            if above is None or above in settled:
                settled.add(span)
                continue
            path: list[Span] = []
            on_path: set[Span] = set()
            at: Span | None = span
            while at is not None and at not in settled and at not in on_path:
                path.append(at)
                on_path.add(at)
                at = parents.get(at)
            if at is not None and at in on_path:
                loop = path[path.index(at) :]
                del parents[min(loop, key=_order)]
            settled.update(path)
        children: dict[Span, list[Span]] = {}
        for span in self.spans:
            above = parents.get(span)
            if above is not None:
                children.setdefault(above, []).append(span)
        self._parents = parents
        self._children = children
        self._resources: tuple[Resource, ...] | None = None
        self._services: tuple[str, ...] | None = None
        self.roots: tuple[Span, ...] = tuple([s for s in self.spans if s not in parents])

    def _find_orphans(self, known: Mapping[tuple[str, str], Span]) -> tuple[Span, ...]:
        rooted = {s.trace_id for s in self.roots if not s.parent_span_id}
        return tuple(
            s
            for s in self.roots
            if s.parent_key is not None
            and s.parent_key not in known
            and not (s.has_remote_parent and s.trace_id not in rooted)
        )

    @property
    def trace_id(self) -> str:
        """That of the earliest span; empty for a trace without spans."""
        return self.spans[0].trace_id if self.spans else ""

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Those of the spans, each once."""
        if self._resources is None:
            self._resources = tuple(dict.fromkeys([span.resource for span in self.spans]))
        return self._resources

    @property
    def services(self) -> tuple[str, ...]:
        """Names of the services that took part, one for each resource that has one."""
        if self._services is None:
            named = [resource.service for resource in self.resources]
            self._services = tuple([name for name in named if name is not None])
        return self._services

    @property
    def has_root(self) -> bool:
        """Whether a local root was seen: a span without parent, or one whose parent is remote."""
        return any(not s.parent_span_id or s.has_remote_parent for s in self.roots)

    @property
    def missing_parent(self) -> bool:
        """Whether steps may be missing anywhere, not only after the last one seen (flow.md section 11)."""
        return bool(self.orphans) or not (self.complete or self.starts_seen)

    def parent(self, span: Span) -> Span | None:
        return self._parents.get(span)

    def children(self, span: Span) -> Sequence[Span]:
        """In order of start, end, span id."""
        return self._children.get(span, ())


def _order(span: Span) -> tuple[int, float, str, str]:
    return (span.start_ns, inf if span.end_ns is None else span.end_ns, span.span_id, span.trace_id)


def _preferred(a: Span, b: Span) -> Span:
    """The one of two records of a span to keep, whatever order they came in."""
    return max(a, b, key=_content)


def _content(span: Span) -> tuple[Any, ...]:
    end = -1 if span.end_ns is None else span.end_ns
    named = (span.name, span.start_ns, span.parent_span_id or "", span.flags, span.kind, span.scope_name)
    attributes = repr(sorted(span.attributes.items(), key=lambda item: item[0]))
    return (end, span.status_code, len(span.events), *named, attributes)
