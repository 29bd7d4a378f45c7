"""What is kept of a trace: its results as JSON objects, with the times of its steps for the status page."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from onpath_collector.judging import Outcome

Object = dict[str, Any]


class BadToken(ValueError):
    """A page token that was not given out for this filter."""


class Made(NamedTuple):
    """What a store keeps of an Outcome. `number` counts them, `others` are the other traces of a session."""

    number: int
    trace_id: str
    others: Sequence[str]
    root: str | None
    revision: int
    lines: Sequence[str]
    timelines: Sequence[str]
    unmatched: Mapping[str, int]

    def is_of(self, trace_id: str) -> bool:
        return trace_id == self.trace_id or trace_id in self.others

    @property
    def traces(self) -> Sequence[str]:
        return (self.trace_id, *self.others)

    @property
    def size(self) -> int:
        """Characters."""
        return sum([len(text) for texts in (self.lines, self.timelines) for text in texts])

    @staticmethod
    def of(outcome: Outcome, number: int = 0) -> Made:
        return Made(
            number,
            outcome.trace_id,
            outcome.others,
            outcome.root,
            outcome.revision,
            outcome.lines,
            outcome.timelines,
            outcome.unmatched,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """All results of a trace, or of a session under the trace id of its earliest span.

    `results` are as results.md section 1 shows them; `timelines` stand beside them (see judging.timeline).
    `unmatched` says, with counts, why workflows gave no result.
    """

    trace_id: str
    session: str | None
    revision: int
    results: Sequence[Object]
    timelines: Sequence[Object] = ()
    unmatched: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(outcome: Made) -> StoredReport:
        results = [json.loads(line) for line in outcome.lines]
        return StoredReport(
            trace_id=outcome.trace_id,
            session=session_of(results),
            revision=outcome.revision,
            results=results,
            timelines=[json.loads(line) for line in outcome.timelines],
            unmatched=outcome.unmatched,
        )

    @property
    def verdict(self) -> str | None:
        """The worst of the results; None without any."""
        found = {result["verdict"] for result in self.results}
        return next((verdict for verdict in ("fail", "unknown", "pass") if verdict in found), None)

    def json(self) -> Object:
        """As the results API gives it over HTTP."""
        return {
            "trace_id": self.trace_id,
            "session": self.session,
            "revision": self.revision,
            "results": list(self.results),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which reports: those with a result for which all that is set holds. `since_ms`: since the Unix epoch.

    With nothing set all are taken, those without results only if not `judged`.
    """

    workflow: str | None = None
    verdict: str | None = None
    service: str | None = None
    since_ms: int | None = None
    judged: bool = False

    @property
    def all(self) -> bool:
        return self == Filter(judged=self.judged)

    def takes(self, report: StoredReport) -> bool:
        return (self.all and not self.judged) or any(self._holds(result) for result in report.results)

    def _holds(self, result: Object) -> bool:
        return (
            self.workflow in (None, result["workflow"])
            and self.verdict in (None, result["verdict"])
            and self.service in (None, result["service"])
            and (self.since_ms is None or judged_ms(result) >= self.since_ms)
        )

    def token(self, before: int) -> str:
        """Where the page after the report of that number begins."""
        text = json.dumps([before, self._digest()])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def place(self, token: str) -> int | None:
        """The number in a token; None for the first page. Raises BadToken."""
        if not token:
            return None
        try:
            before, digest = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        except (binascii.Error, ValueError, TypeError):
            raise BadToken("this is no page token") from None
        if digest != self._digest() or type(before) is not int or not 0 <= before < 1 << 63:
            raise BadToken("this page token was given out for another filter")
        return before

    def _digest(self) -> str:
        return hashlib.sha256(repr(self).encode("utf-8", "replace")).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Page:
    """Some reports, newest first, and the token of the next page; empty for the last."""

    reports: Sequence[StoredReport]
    next_token: str = ""


def session_of(results: Sequence[Object]) -> str | None:
    session: str | None = results[0]["session"] if results else None
    return session


def judged_ms(result: Object) -> int:
    """When, in milliseconds since the Unix epoch."""
    return round(datetime.fromisoformat(result["judged_at"]).timestamp() * 1000)
