"""How cost grows: a span against open traces, a step against the steps of a trace, a trace against workflows.

Each should be close to flat. Measured in this process, from bytes to bytes, as the collector and its workers do it.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterable

from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, TracesData

from benchmarks._load import Span, fill
from onpath.evaluate import evaluate
from onpath.model import Trace
from onpath.policy.load import load_data
from onpath.policy.model import Policy
from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.judging import Job, Setup, judge
from onpath_collector.otlp import decode, split

OPEN = (100, 10_000, 100_000)
STEPS = (50, 500, 5_000)
WORKFLOWS = (1, 10, 200)
TOOLS = ("lookup_user", "check_balance", "process_payment", "send_receipt")


def main() -> None:
    _table("open traces", "us a span, taken apart and into the buffer", ((n, open_traces(n)) for n in OPEN))
    _table("steps in a trace", "us a step, judged by adherence, seq! and parallel!", ((n, steps(n)) for n in STEPS))
    _table("steps in a trace", "ms a trace, the checks alone", ((n, checks(n)) for n in STEPS))
    _table("workflows", "us a trace of ten spans that one of them is about", ((n, workflows(n)) for n in WORKFLOWS))


def _table(name: str, unit: str, rows: Iterable[tuple[int, float]]) -> None:
    print(f"{unit}:")
    first = 0.0
    for number, cost in rows:
        first = first or cost
        print(f"  {number:>8,} {name:<18}{cost:>9.2f}  x {cost / first:.2f}", flush=True)


def best(work: Callable[[], object], rounds: int) -> float:
    """Seconds of CPU, of the best round."""
    found = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


# ------------------------------------------------------------------ open traces


def open_traces(count: int) -> float:
    """Microseconds a span, for spans of traces at random while so many are open."""
    buffer = TraceBuffer(BufferSettings(memory_limit=None))
    chance = random.Random(count)
    ids = [chance.randbytes(16) for _ in range(count)]
    for first in range(0, count, 100):
        for chunk in split(_request(ids[first : first + 100], chance)).chunks:
            buffer.push(0.0, chunk)
    requests = [_request([chance.choice(ids) for _ in range(100)], chance) for _ in range(100)]

    def take() -> None:
        for number, request in enumerate(requests):
            for chunk in split(request).chunks:
                buffer.push(0.001 * number, chunk)
            buffer.tick(0.001 * number)

    return best(take, 1) / (100 * len(requests)) * 1e6


def _request(ids: Iterable[bytes], chance: random.Random) -> bytes:
    """One span for each trace id, below a parent that has not come."""
    group = ResourceSpans()
    spans = group.scope_spans.add().spans
    for trace_id in ids:
        span = spans.add(trace_id=trace_id, span_id=chance.randbytes(8), parent_span_id=b"not come")
        fill(span, "execute_tool look", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"})
    return TracesData(resource_spans=[group]).SerializeToString()


# ------------------------------------------------------------------ steps


def steps(count: int) -> float:
    setup = Setup(_flow_policy(), {"service.name": "onpath"})
    job = Job([_run(count)], "root_ended", judged_at_ns=1)
    judge(job, setup)
    repeats = max(1, 2_000 // count)
    return best(lambda: [judge(job, setup) for _ in range(repeats)], 3) / repeats / count * 1e6


def checks(count: int) -> float:
    """Milliseconds: all of `evaluate` less what it takes with a policy whose checks look at nothing."""
    trace = Trace(*decode([_run(count)]), release_reason="root_ended")
    full, bare = _flow_policy(), load_data({"version": 1, "workflows": [_workflow("none", **{"seq!": ["..."]})]})
    repeats = max(1, 2_000 // count)
    took = [best(lambda p=p: [evaluate(trace, p) for _ in range(repeats)], 3) for p in (full, bare)]  # type: ignore[misc]
    return (took[0] - took[1]) / repeats * 1e3


def _flow_policy() -> Policy:
    adherence = {
        "extract_from": "tool_calls",
        "expected_steps": list(TOOLS),
        "required_steps": ["check_balance"],
        "prohibited_steps": ["delete_records"],
    }
    order = ["...", "check_balance", "...", "process_payment", "..."]
    together = ["...", {"parallel!": ["check_balance", "lookup_user"]}, "..."]
    checks = [{"name": "order", "seq!": order}, {"name": "together", "seq!": together}]
    return load_data({"version": 1, "workflows": [_workflow("flow", adherence=adherence, checks=checks)]})


def _workflow(name: str, service: str | None = None, **checks: object) -> dict[str, object]:
    return {"name": name, "match": {} if service is None else {"service": service}, **checks}


def _run(count: int, service: str = "scale") -> bytes:
    """An agent with so many steps, a model call and a tool call in turn; every fifth two tools overlap."""
    chance = random.Random(count)
    group = ResourceSpans()
    group.resource.attributes.add(key="service.name").value.string_value = service
    spans = group.scope_spans.add().spans
    trace_id, root = chance.randbytes(16), chance.randbytes(8)
    agent = spans.add(trace_id=trace_id, span_id=root, end_time_unix_nano=(count + 1) * 1_000)
    fill(agent, "invoke_agent a", {"gen_ai.operation.name": "invoke_agent"})
    for number in range(count):
        start = number * 1_000
        span = spans.add(trace_id=trace_id, span_id=chance.randbytes(8), parent_span_id=root)
        span.start_time_unix_nano = start
        span.end_time_unix_nano = start + (1_500 if number % 5 == 0 else 900)
        _fill_step(span, number)
    return TracesData(resource_spans=[group]).SerializeToString()


def _fill_step(span: Span, number: int) -> None:
    if number % 2:
        tool = TOOLS[number // 2 % len(TOOLS)]
        found = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        fill(span, f"execute_tool {tool}", {**found, "gen_ai.tool.call.arguments": '{"user_id": "u_1001"}'})
    else:
        fill(span, "chat m", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})


# ------------------------------------------------------------------ workflows


def workflows(count: int) -> float:
    """Of so many workflows, each about a service of its own, the last is the one."""
    made = [_workflow(f"w{n}", f"service-{n}-*", **{"seq!": ["...", "check_balance", "..."]}) for n in range(count)]
    setup = Setup(load_data({"version": 1, "workflows": made}), {"service.name": "onpath"})
    job = Job([_run(9, f"service-{count - 1}-x")], "root_ended", judged_at_ns=1)
    assert judge(job, setup).verdicts
    return best(lambda: [judge(job, setup) for _ in range(200)], 5) / 200 * 1e6


if __name__ == "__main__":
    main()
