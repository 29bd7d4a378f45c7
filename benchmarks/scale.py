"""How cost grows: a span against open traces, a step against the steps of a trace, a trace against workflows.

Each should be close to flat. Measured in this process, from bytes to bytes, as the collector and its workers do it.
`--publish` also draws deploy/pictures/scale.svg.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, TracesData

from benchmarks._load import Span, fill
from benchmarks._peers import ROOT
from onpath.evaluate import evaluate
from onpath.model import Trace
from onpath.policy.load import load_data
from onpath.policy.model import Policy
from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.judging import Job, Setup, judge
from onpath_collector.otlp import decode, split

PICTURE = ROOT / "deploy" / "pictures" / "scale.svg"
OPEN = (100, 10_000, 100_000)
SPANS = 10_000  # that come to open traces, in each case
STEPS = (50, 500, 5_000)
WORKFLOWS = (1, 10, 200)
TOOLS = ("lookup_user", "check_balance", "process_payment", "send_receipt")


def main(publish: bool = False) -> None:
    curves = [
        Curve("open traces", "us a span, taken apart and into the buffer", OPEN, open_traces),
        Curve("steps in a trace", "us a step, judged by adherence, seq! and parallel!", STEPS, steps),
        Curve("workflows", "us a trace of ten spans that one of them is about", WORKFLOWS, workflows),
    ]
    for curve in curves:
        curve.measure()
    Curve("steps in a trace", "ms a trace, the checks alone", STEPS, checks).measure()
    if publish:
        draw(curves, PICTURE)
        print(f"written: {PICTURE.relative_to(ROOT)}")


@dataclass
class Curve:
    """What `cost` says for each of `sizes`."""

    grows: str
    unit: str
    sizes: Sequence[int]
    cost: Callable[[int], float]
    found: list[float] = field(default_factory=list)

    def measure(self) -> None:
        print(f"{self.unit}:")
        for size in self.sizes:
            self.found.append(self.cost(size))
            print(
                f"  {size:>8,} {self.grows:<18}{self.found[-1]:>9.2f}  x {self.found[-1] / self.found[0]:.2f}",
                flush=True,
            )


def draw(curves: Sequence[Curve], path: Path) -> None:
    """One curve beside the other, each from zero: what is flat costs the same however much there is."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "onpath", "font.size": 9})
    from matplotlib import pyplot

    figure, places = pyplot.subplots(1, len(curves), figsize=(11, 3.2), layout="constrained")
    for axes, curve in zip(places, curves, strict=True):
        axes.plot(curve.sizes, curve.found, marker="o", color="#1f6feb")
        for size, found in zip(curve.sizes, curve.found, strict=True):
            axes.annotate(f"{found:.3g}", (size, found), xytext=(0, 6), textcoords="offset points", ha="center")
        axes.set_xscale("log")
        axes.set_xticks(curve.sizes, [f"{size:,}" for size in curve.sizes])
        axes.minorticks_off()
        axes.margins(x=0.15)
        axes.set_ylim(0, 1.35 * max(curve.found))
        axes.set_xlabel(curve.grows)
        axes.set_title(curve.unit.replace(", ", ",\n"), fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


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
    """Microseconds a span, for a second span of each of as many open traces, or of 10,000 of them, in no order.

    Few open traces are tried in many buffers, so that in each case as many spans come to traces with one span.
    """
    chance = random.Random(count)
    asked = min(count, SPANS)
    found = [_second_spans(count, asked, chance) for _ in range(3 * SPANS // asked)]
    rounds = SPANS // asked
    return min(sum(found[at : at + rounds]) for at in range(0, len(found), rounds)) / SPANS * 1e6


def _second_spans(count: int, asked: int, chance: random.Random) -> float:
    """Seconds for `asked` spans while `count` traces are open."""
    buffer = TraceBuffer(BufferSettings(memory_limit=None))
    ids = [chance.randbytes(16) for _ in range(count)]
    for first in range(0, count, 100):
        for chunk in split(_request(ids[first : first + 100], chance)).chunks:
            buffer.push(0.0, chunk)
    chosen = chance.sample(ids, asked)
    requests = [_request(chosen[first : first + 100], chance) for first in range(0, asked, 100)]
    gc.collect()
    start = time.process_time()
    for number, request in enumerate(requests):
        for chunk in split(request).chunks:
            buffer.push(0.001 * number, chunk)
        buffer.tick(0.001 * number)
    return time.process_time() - start


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
