"""Whether a test environment can be trusted, before anything is scored in it: the pre-flight of a plan.

Data flow: contract, probes -> legs -> (a harness calls the operations) -> answers -> checks -> verdict. onpath calls
nothing itself; `run_preflight` awaits a port of the harness's, one leg at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from onpath.policy.plan import compiled
from onpath.preflight.documents import observation, probes_of
from onpath.preflight.legs import plan_legs
from onpath.preflight.reduce import verdict
from onpath.validators.plan.calls import in_sequence
from onpath.validators.plan.model import Plan

Port: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]


async def run_preflight(
    contract: Plan | Mapping[str, Any], probes: object, port: Port, *, run_id: str | None = None
) -> dict[str, Any]:
    """The verdict of a pre-flight that asks `port(leg)` for each leg, in order and one at a time.

    `contract` is a document of either form or a compiled plan, `probes` as in a probes file. A leg has the fields that
    `onpath preflight --legs` prints; the port gives an observation (plan.md section 3) or None for no answer. An
    answer without a `leg` or a `span_id` gets the leg's; one without times is placed after the answers before it.
    Raises PlanFault.
    """
    plan = contract if isinstance(contract, Plan) else compiled(contract)
    parsed = probes_of(probes)
    calls = []
    for place, leg in enumerate(plan_legs(plan, parsed).legs):
        answer = await port(leg.as_json())
        if answer is not None:
            given = {"span_id": leg.id, "name": leg.operation.tool_name, "leg": leg.id, **answer}
            calls.append(replace(observation(given, f"legs[{leg.id}]"), position=place))
    return verdict(plan, parsed, in_sequence(calls), run_id)
