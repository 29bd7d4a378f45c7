"""The compiled selector against exhaustive search, on plans and records that Hypothesis makes.

ONPATH_PAIRS=20000 tries so many pairs; the plain run tries a few hundred.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from onpath.policy.plan import PlanFault, compiled
from onpath.preflight.documents import observation
from onpath.validators.plan.calls import in_sequence
from onpath.validators.plan.model import Plan
from onpath.validators.plan.select import Selection
from onpath.validators.plan.verdict import judge
from tests.plan.documents import plans, records
from tests.plan.search import Choice, search

PAIRS = int(os.environ.get("ONPATH_PAIRS", "400"))
SETTINGS = settings(
    max_examples=PAIRS, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


def plan_or_none(raw: dict[str, Any]) -> Plan | None:
    try:
        return compiled(raw)
    except PlanFault:
        return None


def chosen(selection: Selection) -> Choice:
    return Choice(
        selection.result,
        tuple(call.span_id for call in selection.candidates),
        selection.call.span_id if selection.call else None,
        selection.reason,
    )


@SETTINGS
@given(plans(), records())
def test_selection_is_what_search_finds(raw: dict[str, Any], record: list[dict[str, Any]]) -> None:
    plan = plan_or_none(raw)
    assume(plan is not None)
    assert plan is not None
    found = search(raw, record)
    assert len(found) == 1, "the rules leave exactly one assignment"
    result = judge(plan, in_sequence(observation(call) for call in record))
    assert {name: chosen(step.selection) for name, step in result.steps.items()} == found[0]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(plans(), records(), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_arrival_never_matters(
    raw: dict[str, Any], record: list[dict[str, Any]], random: Any, complete: bool
) -> None:
    plan = plan_or_none(raw)
    assume(plan is not None)
    assert plan is not None
    shuffled = list(record)
    random.shuffle(shuffled)
    first, second = (
        judge(plan, in_sequence(observation(call) for call in calls), complete=complete) for calls in (record, shuffled)
    )
    assert first.as_json() == second.as_json()
