"""How fast a hostile trace is recognised and judged: shapes of twenty thousand spans, of which each new one may touch
all that came before.

`python -m benchmarks.steps` prints CPU milliseconds for 10,000 and 20,000 spans: twice the spans should take about
twice the time.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any, Final

from onpath.evaluate import evaluate
from onpath.model import Span, Trace
from onpath.policy.load import load_data

COUNT: Final = 20_000
POLICY: Final = load_data({"nested": "flatten", "match": {"agent": "a1"}, "seq!": ["..."]})


def spans(count: int, attributes: Callable[[int], dict[str, Any]], *, nested: bool) -> list[Span]:
    """The first one the agent; each of the others below the one before it, or all below the agent, inside its time."""
    return [
        Span(
            trace_id="a" * 32,
            span_id=f"{n:016x}",
            parent_span_id=None if n == 1 else f"{n - 1 if nested else 1:016x}",
            name="x",
            start_ns=n,
            end_ns=10 * COUNT - n,
            attributes=attributes(n) if n > 1 else agent(n),
        )
        for n in range(1, count + 1)
    ]


def agent(n: int) -> dict[str, Any]:
    return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"a{n}"}


def tool(n: int) -> dict[str, Any]:
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"t{n}"}


def record(n: int) -> dict[str, Any]:
    """One call, whichever span records it; each has an attribute of its own."""
    return {**tool(0), "gen_ai.tool.call.id": "c", f"own.{n}": n}


def main() -> None:
    shapes = {
        "calls one by one": (tool, False),
        "records of one call beside each other": (record, False),
        "records of one call below each other": (record, True),
        "agents below each other, laid open": (agent, True),
    }
    print(f"{'':40}{COUNT // 2:>10,}{COUNT:>10,}")
    for what, (attributes, nested) in shapes.items():
        times = [_milliseconds(spans(count, attributes, nested=nested)) for count in (COUNT // 2, COUNT)]
        print(f"{what:40}{times[0]:>7,.0f} ms{times[1]:>7,.0f} ms")


def _milliseconds(made: list[Span]) -> float:
    begun = process_time()
    evaluate(Trace(made), POLICY)
    return (process_time() - begun) * 1000


if __name__ == "__main__":
    main()
