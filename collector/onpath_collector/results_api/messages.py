"""Stored reports as messages of the results API: the one mapping between its JSON and its protobuf."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from onpath_collector.reports import Filter, StoredReport
from onpath_collector.v1 import results_pb2 as pb
from onpath_collector.v1.results_service_pb2 import Filter as FilterMessage

_VERDICTS: Final = {"pass": pb.VERDICT_PASS, "fail": pb.VERDICT_FAIL, "unknown": pb.VERDICT_UNKNOWN}
_WORDS: Final = {number: word for word, number in _VERDICTS.items()}


def report_message(report: StoredReport) -> pb.Report:
    results = [_result(result) for result in report.results]
    return pb.Report(trace_id=report.trace_id, session=_text(report.session), revision=report.revision, results=results)


def filter_of(message: FilterMessage) -> Filter:
    """Raises ValueError for a verdict or a time that there is none of."""
    if message.verdict and message.verdict not in _WORDS:
        raise ValueError(f"there is no verdict {message.verdict}")
    since: Timestamp = message.since
    return Filter(
        workflow=message.workflow if message.HasField("workflow") else None,
        verdict=_WORDS.get(message.verdict),
        service=message.service if message.HasField("service") else None,
        since_ms=-(-since.ToNanoseconds() // 10**6) if message.HasField("since") else None,
    )


def _result(found: dict[str, Any]) -> pb.Result:
    judged_at = Timestamp()
    judged_at.FromDatetime(datetime.fromisoformat(found["judged_at"]))
    coverage = found["coverage"]
    return pb.Result(
        trace_id=found["trace_id"],
        span_id=found["span_id"],
        session=_text(found["session"]),
        service=_text(found["service"]),
        agent=_text(found["agent"]),
        workflow=_plain(found["workflow"]),
        verdict=_VERDICTS[found["verdict"]],
        complete=found["complete"],
        release_reason=found["release_reason"],
        revision=found["revision"],
        supersedes=found["supersedes"],
        policy_fingerprint=found["policy_fingerprint"],
        version=found["version"],
        judged_at=judged_at,
        evaluations=[_evaluation(evaluation) for evaluation in found["evaluations"]],
        coverage=pb.Coverage(**{**coverage, "content": _word("CONTENT", coverage["content"])}),
    )


def _evaluation(found: dict[str, Any]) -> pb.Evaluation:
    return pb.Evaluation(
        key=found["key"],
        id=found["id"],
        name=_plain(found["name"]),
        score=found["score"],
        label=_VERDICTS[found["label"]],
        explanation=_plain(found["explanation"]),
        findings=[_finding(finding) for finding in found["findings"]],
        alignment=[_row(row) for row in found["alignment"]],
        reason=_text(found.get("reason")),
        order_undetermined=found.get("order_undetermined", False),
        error_type=_text(found.get("error_type")),
    )


def _finding(found: dict[str, Any]) -> pb.Finding:
    return pb.Finding(
        rule=found["rule"],
        severity=_word("SEVERITY", found["severity"]),
        message=_plain(found["message"]),
        step=_text(found["step"]),
        span_ids=found["span_ids"],
    )


def _row(found: dict[str, Any]) -> pb.AlignmentRow:
    return pb.AlignmentRow(
        move=_word("MOVE", found["move"]),
        expected=_text(found["expected"]),
        seen=_text(found["seen"]),
        span_ids=found["span_ids"],
    )


def _word(kind: str, word: str) -> Any:
    """An enum's number by the word that JSON has for it."""
    return getattr(pb, f"{kind}_{word.upper()}")


def _plain(text: str) -> str:
    """What JSON can hold and UTF-8 can't is replaced."""
    return text.encode("utf-8", "replace").decode()


def _text(text: str | None) -> str | None:
    return None if text is None else _plain(text)
