"""Adherence: 10,000 steps against 100 expected, and 1 MB of each output format and of hostile text; bound 1 s each.

Seconds are of CPU: what else runs on the machine does not count.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

from onpath.policy.adherence import load_adherence
from onpath.policy.problems import Problems
from onpath.steps.model import Scope, Step
from onpath.validators.base import Context

SIZE = 1_000_000
STEPS = 10_000
EXPECTED = [f"STEP_{i}" for i in range(98)] + ["A B", "ab"]
BOUND_S = 1.0
PIECES = (
    "[", "]", "[]", "[],", "{", '"', '["', '[\\"', '["a",', "`", "```\n", "```\n[\n```\n", "~~~ md\n", "#", "# ",
    "# a\n", "*", "* ", "*_", "**a", "_", "- - - \n", "    - a\n", ">", "> ", "step ", "step 1", "step 1: ", "ab\n",
    "AB ", "[ab] ", " ", "\n", "\t", "\r\n", "a", "A_", "word ", "\u2705", "- \u2705.", "\u00df", "e\u0301", "\\",
    "\uff1a", "\u2028", "\ud800", "NaN,", "1,",
)  # fmt: skip


def main() -> None:
    rows = [*_of_steps(), *_of_outputs()]
    print(f"{'case':34}{'seconds':>9}{'extracted':>11}  strict")
    for name, seconds, extracted, strict in sorted(rows, key=lambda r: -r[1])[:20]:
        print(f"{name:34}{seconds:9.3f}{extracted:11}  {'yes' if strict else ''}")
    over = sum(seconds > BOUND_S for _, seconds, _, _ in rows)
    print(f"{len(rows)} cases, the 20 slowest shown; over {BOUND_S:g} s: {over}")


def _judge(scope: Scope, strict: bool, **config: Any) -> tuple[float, int]:
    check = load_adherence(
        {"expected_steps": EXPECTED, "prohibited_steps": ["zz"], "strict_order": strict, **config}, Problems()
    )
    assert check is not None
    start = process_time()
    made = check.evaluate(scope, Context())
    return process_time() - start, len(made[0].data["extracted"])


def _of_steps() -> Iterator[tuple[str, float, int, bool]]:
    for name, names, times in (
        ("10,000 steps, one after another", EXPECTED, lambda i: (10 * i, 10 * i + 5)),
        ("10,000 steps, all at once", EXPECTED, lambda i: (i, 10 * STEPS)),
        ("10,000 steps, in pairs", EXPECTED, lambda i: (i // 2 * 100 + i % 2, i // 2 * 100 + 50)),
        ("10,000 steps, by six", EXPECTED, lambda i: (i // 6 * 100 + i % 6, i // 6 * 100 + 50)),
        ("10,000 steps, by six, few names", EXPECTED[-3:], lambda i: (i // 6 * 100 + i % 6, i // 6 * 100 + 50)),
        ("10,000 steps, none expected", ["x", "y", "zz"], lambda i: (10 * i, 10 * i + 5)),
    ):
        for strict in (False, True):
            scope = _scope(names, times)
            yield name, *_judge(scope, strict, extract_from="tool_calls"), strict


def _scope(names: list[str], times: Callable[[int], tuple[int, int]]) -> Scope:
    chosen = random.Random(1)
    steps = []
    for i in range(STEPS):
        start, end = times(i)
        name = chosen.choice(names)
        steps.append(Step(kind="tool", name=name, input={"n": i}, start_ns=start, end_ns=end, span_ids=(f"{i:016x}",)))
    return Scope(trace_id="1" * 32, span_id="1" * 16, steps=tuple(steps))


def _of_outputs() -> Iterator[tuple[str, float, int, bool]]:
    for name, text in contents():
        for strict in (False, True):
            scope = Scope(trace_id="1" * 32, span_id="1" * 16, output=text)
            yield name, *_judge(scope, strict), strict


def contents() -> Iterator[tuple[str, str]]:
    """Texts of 1 MB: the five formats with names of all kinds, and what might take a reader long."""
    names = random.Random(3)

    def text(separator: str, item: Callable[[str], str], before: str = "", after: str = "") -> str:
        parts, size = [], 0
        while size < SIZE:
            parts.append(item(f"{names.randrange(10**6):x}"))
            size += len(parts[-1]) + len(separator)
        return before + separator.join(parts) + after

    yield "json strings", text(",", lambda n: f'"{n}"', "[", "]")
    yield "json objects", text(",", lambda n: f'{{"step": "{n}"}}', "[", "]")
    yield "json lists", text(",", lambda n: f'["{n}"]', "[", "]")
    yield "json, one name", json.dumps(["ab"] * (SIZE // 6))
    yield "json in prose", text(",", lambda n: f'"{n}"', "x " + "[" * 99, "]" * 99)
    yield "json in prose, a name inside", text(",", lambda n: f'"{n}"', "x " + "[" * 99 + '"ab",', "]" * 99)
    yield "json in prose, open", text(",", lambda n: f'"{n}"', "x " + "[" * 99, "[" * 50)
    yield "headers", text("\n", lambda n: f"## {n}", "## ab\n")
    yield "headers, labelled", text("\n", lambda n: f"## Step 3: {n}")
    yield "labelled", text("\n", lambda n: f"Step 7: {n} done")
    yield "labelled in one line", text(" ", lambda n: f"Step 7: {n}")
    yield "labelled by numbers", text("\n", lambda n: f"1) {n}")
    yield "caps", text(" ", lambda n: f"S_{n.upper()}")
    yield "lines", text("\n", lambda n: f"- {n}")
    yield "lines, numbered, bold", text("\n", lambda n: f"7. **{n}** - done")
    yield "lines, plain", text("\n", lambda n: n, "ab\n")
    for piece in PIECES:
        yield f"{piece!r} repeated", (piece * (SIZE // len(piece) + 1))[:SIZE]
