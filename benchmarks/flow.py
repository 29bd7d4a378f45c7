"""How fast `seq!` and `parallel!` are judged: long runs, hostile patterns, and a run of ordinary length.

`python -m benchmarks.flow` prints a table: CPU milliseconds of one evaluation, the least of several, beside the bar.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

from onpath.policy.flow import load_flow
from onpath.policy.problems import Problems
from onpath.report import Verdict
from onpath.steps.model import Scope, Step
from onpath.validators.base import Context, Validator

MS = 1_000_000


@dataclass(frozen=True)
class Case:
    what: str
    entry: dict[str, Any]
    steps: Callable[[], tuple[Step, ...]]
    bar_ms: float | None
    verdict: Verdict
    complete: bool = True


def run_of(names: list[str], *, length: int = 5, gap: int = 10, output: Any = None) -> tuple[Step, ...]:
    """One step after another, in milliseconds."""
    return tuple(
        Step(
            kind="llm" if name == "llm" else "tool",
            name=name,
            input={"n": at, "city": "Rome"},
            output=output,
            start_ns=at * gap * MS,
            end_ns=(at * gap + length) * MS,
            span_ids=(f"{at:016x}",),
        )
        for at, name in enumerate(names)
    )


def long_run(*, parallel: bool) -> tuple[Step, ...]:
    chance = random.Random(4)
    names = [chance.choice(["llm", "search", "fetch", "log", "p", "q"]) for _ in range(4990)]
    steps = run_of([*names, "llm", "p", "q", "send", "llm"])
    if parallel:
        return steps
    return run_of([*names, "llm", "p", "q", "llm", "llm"])


NESTED = ["...", "llm", "...", {"parallel!": ["p", "q"]}, "...", "send", "...", "llm"]
CLOSE = {"parallel!": {"tolerance": 1000, "spans": ["p", "q"]}}
VALUES = {"search": {"input": {"n": {"eq!": 4980}}, "output": {"contains!": "x"}}}


def overlapping(count: int) -> tuple[Step, ...]:
    return tuple(
        Step(kind="tool", name="x", output=at, start_ns=at, end_ns=10**9 + at, span_ids=(str(at),))
        for at in range(count)
    )


def hostile() -> list[Any]:
    chance = random.Random(5)
    items: list[Any] = []
    for at in range(120):
        least = chance.randrange(0, 6)
        item: dict[str, Any] = {"min": least, "max": least + chance.randrange(20, 400)}
        if at % 3 == 0:
            item["contains_all"] = ["search", "fetch"]
            item["max"] += 2
        if at % 3 == 1:
            item["not_contains"] = ["never"]
        items.append({"any!": item})
    return [*items, "absent"]


def ordinary() -> tuple[Step, ...]:
    names = [
        "llm",
        *(["search", "llm"] * 21),
        "fetch_user",
        "fetch_orders",
        "fetch_more",
        "llm",
        "verify",
        "llm",
        "send",
    ]
    steps = list(run_of(names))
    for at in (43, 44, 45):
        steps[at] = run_of(names, length=60)[at]
    return tuple(steps)


ORDINARY = {
    "seq!": [
        "llm",
        "...",
        {"parallel!": ["fetch_user", {"fetch_orders": {"input": {"city": {"eq!": "Rome"}}}}, "fetch_more"]},
        "...",
        "verify",
        {"any!": {"contains": ["llm"], "max": 3}},
        "send",
    ]
}
TOGETHER = {"parallel!": ["fetch_user", "fetch_orders", "fetch_more"]}
SHUFFLED = [{"x": {"output": {"gte!": bound}}} for bound in range(200)]

CASES = [
    Case("5,000 steps, four `...` and a nested parallel!", {"seq!": [*NESTED[:3], CLOSE, *NESTED[4:]]},
         lambda: long_run(parallel=True), 250, Verdict.PASS),
    Case("the same, not matching", {"seq!": NESTED}, lambda: long_run(parallel=False), 250, Verdict.FAIL),
    Case("the same, with values", {"seq!": ["...", VALUES, *NESTED]}, lambda: long_run(parallel=True), 250,
         Verdict.FAIL),
    Case("the same, released early with a missing parent", {"seq!": NESTED}, lambda: long_run(parallel=False), 250,
         Verdict.UNKNOWN, complete=False),
    Case("2,000 steps, 120 overlapping any! with bounds", {"seq!": hostile()},
         lambda: run_of(["search", "fetch", "log", "llm"] * 500), 1000, Verdict.FAIL),
    Case("5,000 steps, an any! that never finds its names",
         {"seq!": ["...", {"any!": {"contains_all": ["search", "never"]}}, "..."]},
         lambda: long_run(parallel=True), 1000, Verdict.FAIL),
    Case("200 overlapping calls of one tool in a block", {"seq!": [{"parallel!": ["x"] * 200}]},
         lambda: overlapping(200), 1000, Verdict.PASS),
    Case("the same, with values that leave one assignment", {"seq!": [{"parallel!": SHUFFLED[::-1]}]},
         lambda: overlapping(200), 1000, Verdict.PASS),
    Case("the same at the top, with too few steps", {"parallel!": ["x"] * 201}, lambda: overlapping(200), 1000,
         Verdict.FAIL),
    Case("5,000 overlapping calls at the top, 20 wanted, apart", {"parallel!": ["x"] * 20 + ["y"]},
         lambda: (*overlapping(5000), *run_of(["y"] * 400, gap=100)[200:]), 1000, Verdict.FAIL),
    Case("50 steps, seq!", ORDINARY, ordinary, None, Verdict.PASS),
    Case("50 steps, parallel!", TOGETHER, ordinary, None, Verdict.PASS),
    Case("50 steps, seq! and parallel!", {**ORDINARY, **TOGETHER}, ordinary, 0.5, Verdict.PASS),
]  # fmt: skip


def main() -> int:
    """0 if every case meets its bar."""
    met = True
    print(f"{'case':58} {'verdict':8} {'CPU ms':>9} {'bar':>6}")
    for case in CASES:
        took, verdict = measure(case)
        assert verdict is case.verdict, f"{case.what}: {verdict}"
        good = case.bar_ms is None or took <= case.bar_ms
        met = met and good
        bar = "" if case.bar_ms is None else f"{case.bar_ms:g}"
        print(f"{case.what:58} {verdict:8} {took:9.3f} {bar:>6}{'' if good else '  missed'}")
    return 0 if met else 1


def measure(case: Case) -> tuple[float, Verdict]:
    """The least CPU milliseconds of one evaluation, and its verdict. Patterns are compiled before the clock starts."""
    problems = Problems()
    validators = [check.validator for check in load_flow(case.entry, problems)]
    assert not problems.errors, problems.errors
    steps = tuple(sorted(case.steps(), key=lambda step: (step.start_ns or 0, step.end_ns or 0, step.span_ids)))
    scope = Scope(trace_id="t", span_id="s", run=True, steps=steps)
    context = Context(complete=case.complete, missing_parent=not case.complete)
    repeats = 200 if len(steps) < 100 else 3
    best = float("inf")
    for _ in range(3):
        begun = process_time()
        for _ in range(repeats):
            verdict = _verdict(validators, scope, context)
        best = min(best, (process_time() - begun) / repeats)
    return best * 1000, verdict


def _verdict(validators: list[Validator], scope: Scope, context: Context) -> Verdict:
    return Verdict.of([e.label for validator in validators for e in validator.evaluate(scope, context)])


if __name__ == "__main__":
    raise SystemExit(main())
