"""Reads recorded telemetry from files: OTLP/JSON lines, one JSON document, protobuf through a plug-in; gz of each.

Data flow: bytes -> (gunzip) -> reader by content -> Recording -> `traces_of` -> Trace values, one a trace or session.
Who reads more than fits into memory takes JSON lines a stretch at a time: `are_lines`, `read_lines`.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, BinaryIO, Final

from onpath.model import LogRecord, Span, Trace
from onpath.otlp_json import OtlpJsonError, logs_of, spans_of

STDIN: Final = "-"
GZIP: Final = b"\x1f\x8b"
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"  # the byte order mark counts as such
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
    if data[:2] == GZIP:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise RecordingError(f"{name}: damaged gzip: {error}") from None
    if not data.strip() or are_lines(io.BytesIO(data)):
        return read_lines(data, name)
    if is_json(data):
        return _document(_parse(_decoded(data, name), name), name)
    if _is_text(data):
        hint = _POLICY if _POLICY_LINE.search(data) else ""
        raise RecordingError(f"{name}: neither OTLP/JSON nor OTLP protobuf, but some other text{hint}")
    return _read_protobuf(data, name)


def is_json(data: bytes) -> bool:
    """Whether a file's content begins as a JSON document, or is empty."""
    start = data[:4096].lstrip(_BLANK)[:1]
    return start in (b"{", b"[") or not data.strip()


def are_lines(file: BinaryIO) -> bool:
    """Whether a file from its place on holds a JSON document a line, as its first line that is not blank says."""
    first = next((line for line in file if line.strip(_BLANK)), b"")
    if first.lstrip(_BLANK)[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(first.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return True


def read_lines(data: bytes, name: str, first: int = 1) -> Recording:
    """A JSON document a line; `first` is the number of the first line in its file. Raises RecordingError."""
    recording = Recording()
    for number, line in enumerate(data.split(b"\n"), first):  # not splitlines: text may hold what looks like line ends
        if line.strip():
            place = f"{name}:{number}"
            recording.extend(_document(_parse(_decoded(line, place), place), place))
    return recording


def _decoded(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordingError(f"{place}: not UTF-8 text at byte {error.start}") from None


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
