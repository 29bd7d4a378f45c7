"""Time to compile and to judge a plan of 16 steps over 200 tool calls."""

from __future__ import annotations

import statistics
import time
from typing import Any

from onpath.policy.plan import compiled
from onpath.steps.model import Scope, Step
from onpath.validators.base import Context
from onpath.validators.plan.validator import PlanValidator

STEPS = 16
CALLS = 200


def plan_document() -> dict[str, Any]:
    """Eight writes of a title each, and eight reads of the id that the write returned; four of them after it."""
    steps: list[dict[str, Any]] = []
    checks: list[dict[str, Any]] = []
    for i in range(STEPS // 2):
        steps.append({"step": f"w{i}", "tool": "save", "input": {"title": {"literal": f"title {i}"}}})
        read = {"step": f"r{i}", "tool": "load", "input": {"id": {"captured": f"/w{i}/output/id"}}}
        steps.append({**read, "after": f"w{i}"} if i < 4 else read)
        checks.append({"id": f"O-{i}", "equality": [f"/r{i}/output/title", f"/w{i}/input/title"]})
    checks.append(
        {"id": "O-list", "for-all": {"in": "/r0/output/rows", "check": {"regex": ["@/state", "open|closed"]}}}
    )
    return {"id": "bench", "steps": steps, "checks": checks}


def scope() -> Scope:
    """The 16 calls of the plan among others of the same tools."""
    steps = []
    for i in range(CALLS):
        index, writes = i // 2, i % 2 == 0
        wanted = index < STEPS // 2
        record = f"T-{index if wanted else index + 1000}"
        title = f"title {index if wanted else index + 1000}"
        rows = [{"state": "open"}] * 20
        sent: dict[str, Any] = {"title": title} if writes else {"id": record}
        given: dict[str, Any] = {"id": record, "ok": True} if writes else {"title": title, "rows": rows}
        name = "save" if writes else "load"
        times = {"start_ns": i * 1000, "end_ns": i * 1000 + 900}
        steps.append(Step(kind="tool", name=name, span_ids=(f"{i:016x}",), input=sent, output=given, **times))
    return Scope(trace_id="0" * 31 + "1", span_id="f" * 16, steps=tuple(steps))


def timed(action: Any, rounds: int) -> float:
    """Median time of one run, in milliseconds."""
    taken = []
    for _ in range(rounds):
        before = time.perf_counter()
        action()
        taken.append(time.perf_counter() - before)
    return statistics.median(taken) * 1000


def main() -> None:
    document, judged = plan_document(), scope()
    validator = PlanValidator(plan=compiled(document))
    (made,) = validator.evaluate(judged, Context())
    print(f"compile a plan of {STEPS} steps: {timed(lambda: compiled(document), 200):.2f} ms")
    print(
        f"judge it over {CALLS} tool calls: {timed(lambda: validator.evaluate(judged, Context()), 200):.2f} ms"
        f" (label {made.label}, score {made.score})"
    )


if __name__ == "__main__":
    main()
