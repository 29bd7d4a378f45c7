"""Reads recorded telemetry from files: OTLP/JSON lines, one JSON document, protobuf through a plug-in; gz of each.

Data flow: bytes -> (gunzip) -> reader by content -> Recording -> `traces_of` -> Trace values, one a trace or session.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from onpath.model import LogRecord, Span, Trace
from onpath.otlp_json import OtlpJsonError, logs_of, spans_of

STDIN: Final = "-"
_KNOWN: Final = ("resourceSpans", "resourceLogs", "resourceMetrics", "resourceProfiles")
_CONTROL: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
_POLICY_LINE: Final = re.compile(
    rb"""^[\s-]*["']?(workflows|adherence|expected_steps|checks|interactionPlan|seq!|parallel!|plan!)["']?\s*:""", re.M
)
_POLICY: Final = "; it looks like a policy, which `onpath validate` reads and `onpath check` takes as --policy"


class RecordingError(ValueError):
    """A recording that can't be read; the message names the file, the place and what was expected."""


@dataclass(slots=True)
class Recording:
    """What recordings hold of interest, in the order read."""

    spans: list[Span] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)

    def extend(self, other: Recording) -> None:
        self.spans.extend(other.spans)
        self.logs.extend(other.logs)


def read_files(paths: Iterable[str | Path]) -> Recording:
    """All files together, as recordings of one run; `-` is standard input. Raises RecordingError and OSError."""
    recording = Recording()
    for path in paths:
        name = "standard input" if str(path) == STDIN else str(path)
        data = sys.stdin.buffer.read() if str(path) == STDIN else Path(path).read_bytes()
        recording.extend(read_bytes(data, name))
    return recording


def read_bytes(data: bytes, name: str = "recording") -> Recording:
    """One file's content, whatever its format. Raises RecordingError."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise RecordingError(f"{name}: damaged gzip: {error}") from None
    start = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start in (b"{", b"[") or not data.strip():
        return _read_json(data, name)
    if _is_text(data):
        hint = _POLICY if _POLICY_LINE.search(data) else ""
        raise RecordingError(f"{name}: neither OTLP/JSON nor OTLP protobuf, but some other text{hint}")
    return _read_protobuf(data, name)


def _is_text(data: bytes) -> bool:
    """Ids and lengths in a protobuf message make other bytes than those of a text sooner or later."""
    try:
        return _CONTROL.search(data.decode()) is None
    except UnicodeDecodeError:
        return False


def traces_of(recording: Recording, group_by: str | None = None) -> list[Trace]:
    """One Trace for each trace id, in order of the earliest span; with `group_by`, one for each value of it.

    The session of a trace is read from any of its spans (in their order), else from its resource; traces without one
    stay by themselves. Log records go with the trace they name; those of traces not recorded are left out.
    """
    spans: dict[str, list[Span]] = {}
    for span in recording.spans:
        spans.setdefault(span.trace_id, []).append(span)
    logs: dict[str, list[LogRecord]] = {}
    for record in recording.logs:
        logs.setdefault(record.trace_id, []).append(record)
    groups: dict[tuple[str, str], list[str]] = {}
    for trace_id, members in spans.items():
        session = session_value(members, group_by) if group_by else None
        groups.setdefault(("trace", trace_id) if session is None else ("session", session), []).append(trace_id)
    traces = [
        Trace(
            (s for t in ids for s in spans[t]),
            (r for t in ids for r in logs.get(t, ())),
            session=key if kind == "session" else None,
        )
        for (kind, key), ids in groups.items()
    ]
    return sorted(traces, key=lambda t: (t.spans[0].order, t.trace_id))


def session_value(spans: Sequence[Span], attribute: str) -> str | None:
    """The value of a session attribute on the earliest span that has it, else on a resource."""
    ordered = sorted(spans, key=lambda s: s.order)
    for value in (
        *(s.attributes.get(attribute) for s in ordered),
        *(s.resource.attributes.get(attribute) for s in ordered),
    ):
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return None


def _read_json(data: bytes, name: str) -> Recording:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordingError(f"{name}: not UTF-8 text at byte {error.start}") from None
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return _document(_parse(text, name), name)
    recording = Recording()
    for number, line in enumerate(lines, 1):
        if line.strip():
            place = f"{name}:{number}"
            recording.extend(_document(_parse(line, place), place))
    return recording


def _parse(text: str, place: str) -> Any:
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except ValueError as error:
        raise RecordingError(f"{place}: not JSON: {error}") from None
    except RecursionError:
        raise RecordingError(f"{place}: JSON nested too deep") from None


def _document(document: Any, place: str) -> Recording:
    recording = Recording()
    for part in document if isinstance(document, list) else [document]:
        if not isinstance(part, dict):
            raise RecordingError(f"{place}: expected an OTLP/JSON object, got {type(part).__name__}")
        if part and not any(key in part for key in _KNOWN):
            keys = ", ".join(list(part)[:3])
            hint = _POLICY if any(_POLICY_LINE.match(f"{key}:".encode()) for key in part) else ""
            raise RecordingError(
                f"{place}: expected OTLP/JSON with resourceSpans or resourceLogs, got an object with {keys}{hint}"
            )
        try:
            recording.spans.extend(spans_of(part))
            recording.logs.extend(logs_of(part))
        except OtlpJsonError as error:
            raise RecordingError(f"{place}: {error}") from None
    return recording


def _read_protobuf(data: bytes, name: str) -> Recording:
    try:
        (reader,) = (point.load() for point in entry_points(group="onpath.readers", name="protobuf"))
    except (ModuleNotFoundError, ValueError):  # the entry point is always there, what it needs comes with the extra
        needs = "reading protobuf recordings needs `pip install 'onpath[collector]'`"
        raise RecordingError(f"{name}: not JSON; {needs}") from None
    recording: Recording = reader(data, name)
    return recording
