"""Why checks are unknown, counted by few words: all that the product itself says are known, a model's text is not."""

from __future__ import annotations

from typing import get_args

import pytest

from onpath.flow.verdicts import INCOMPLETE
from onpath.report import Coverage, Evaluation, Question, Report, Result, Verdict
from onpath.validators.adherence import extraction
from onpath.values.outcome import Unseen
from onpath.values.tree import NO_JUDGE
from onpath_collector.doubts import JUDGE, OTHER, unknown_checks, word_of

OWN = [*get_args(extraction.Reason), *(each.value for each in Unseen), INCOMPLETE, NO_JUDGE, "incomplete"]
OWN += ["step-unknown", "step-blocked", "check-blocked"]  # what decides that a plan is unknown
OWN += ["evaluation_timeout", "evaluation_failed", "earlier_spans_gone"]


def unknown(reason: str | None) -> Evaluation:
    return Evaluation(name="seq", label=Verdict.UNKNOWN, reason=reason)


@pytest.mark.parametrize("reason", OWN)
def test_what_the_product_says_has_a_word(reason: str) -> None:
    word = word_of(unknown(reason))
    assert word != OTHER
    assert word.replace("_", "").isalpha()


@pytest.mark.parametrize("reason", [None, "", "the model said: lookup_user 4711 is odd"])
def test_what_comes_from_outside_has_not(reason: str | None) -> None:
    assert word_of(unknown(reason)) == OTHER


def test_open_questions_are_for_a_judge() -> None:
    question = Question(id="1", kind="prompt", value=1, criterion="c")
    assert word_of(Evaluation(name="seq", label=Verdict.UNKNOWN, reason="x", questions=(question,))) == JUDGE


def test_unknown_checks_are_counted_once() -> None:
    evaluations = (unknown("no_times"), unknown("no_times"), Evaluation(name="plan", label=Verdict.PASS))
    results = tuple(
        Result(
            trace_id="1",
            span_id=span_id,
            session=None,
            service=None,
            agent=None,
            workflow="refund",
            verdict=Verdict.UNKNOWN,
            severity="material",
            end_ns=1,
            evaluations=evaluations,
            coverage=Coverage(root=True, orphans=0, content="full", spans=1, steps=1),
        )
        for span_id in ("a", "b")
    )
    report = Report(
        trace_id="1",
        session=None,
        service=None,
        complete=True,
        release_reason="root_ended",
        policy_fingerprint="f",
        results=results,
    )
    assert unknown_checks(report) == {("refund", "no_times"): 4}
    assert unknown_checks(report, {("refund", "a")}) == {("refund", "no_times"): 2}
