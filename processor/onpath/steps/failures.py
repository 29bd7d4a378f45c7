"""Whether a step failed, and with what: status, error type, exception events and each family's own channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from onpath.conventions.table import FAILS_BARE
from onpath.model import STATUS_ERROR, STATUS_OK, Event, Span
from onpath.steps.facts import Facts
from onpath.steps.model import StepError, StepStatus

# Exceptions by which a framework stops before a call, to ask a person or somebody else.
_WAITING: Final = frozenset(
    {"GraphInterrupt", "NodeInterrupt", "ApprovalRequired", "CallDeferred", "ToolInterruptError", "InterruptException"}
)
_CANCELLED: Final = "CancelledError"


def status_of(
    facts: Facts, smeared: frozenset[str] = frozenset(), *, is_tool: bool = False
) -> tuple[StepStatus, StepError | None]:
    """Status and error of a step; `smeared` holds status messages that an earlier failure left on later spans.

    A tool call's result may say by itself that the call failed.
    """
    own = facts.get("outcome")
    if isinstance(own, tuple) and own[0] == "cancelled":
        return "cancelled", None
    error = _error(facts, own, smeared, is_tool)
    if error is not None:
        return ("awaiting_approval", None) if _short_type(error.type) in _WAITING else ("error", error)
    if isinstance(own, tuple):
        return "ok", None
    for span in facts.spans:
        if span.status_code == STATUS_OK:
            return "ok", None
    return "unset", None


def _error(facts: Facts, own: Any, smeared: frozenset[str], is_tool: bool) -> StepError | None:
    exception = None if facts.quiet else exception_of(facts.spans)
    declared = facts.attributes.get("error.type")  # some write a code, a number
    kind = str(declared) if declared else exception[0] if exception else None
    message = exception[1] if exception else None
    failed = exception is not None or kind is not None
    if not failed and not facts.attributes:
        failed = any(map(_is_bare, facts.spans))
    for span in facts.spans:
        if span.status_code == STATUS_ERROR and not _is_smeared(span, facts, failed, smeared):
            failed = True
            message = span.status_message or message
    if isinstance(own, tuple) and own[0] == "error":
        failed = True
        kind, message = kind or own[1], message or own[2]
    if is_tool and facts.result.failed:
        failed = True
        content = facts.result.content
        message = message or (content if isinstance(content, str) else None)
    return StepError(kind, message) if failed else None


def _is_bare(span: Span) -> bool:
    """Whether a finished tool span lacks all that its instrumentation writes when a call went well."""
    if span.attributes or span.end_ns is None or span.scope_name not in FAILS_BARE:
        return False
    return span.name.startswith(FAILS_BARE[span.scope_name])


def _is_smeared(span: Span, facts: Facts, failed: bool, smeared: frozenset[str]) -> bool:
    if failed or span.status_message not in smeared:
        return False
    return facts.holds("result") or facts.holds("output_messages")


def genuine_failure(facts: Facts) -> str | None:
    """The status message of a call that failed beyond doubt: an exception with it, or no result."""
    for span in facts.spans:
        if span.status_code != STATUS_ERROR or not span.status_message:
            continue
        if exception_of([span]) is not None or not facts.holds("result"):
            return span.status_message
    return None


def exception_of(spans: Sequence[Span]) -> tuple[str | None, str | None] | None:
    """Type and message of the last exception event; a cancellation on a span that says OK is none."""
    found: Event | None = None
    for span in spans:
        for event in span.events:
            if event.name != "exception":
                continue
            kind = event.attributes.get("exception.type")
            if span.status_code != STATUS_ERROR and isinstance(kind, str) and _short_type(kind) == _CANCELLED:
                continue
            found = event
    if found is None:
        return None
    kind, message = (found.attributes.get(f"exception.{part}") for part in ("type", "message"))
    return (kind if isinstance(kind, str) else None, message if isinstance(message, str) else None)


def _short_type(kind: str | None) -> str:
    return kind.rsplit(".", 1)[-1] if kind else ""
