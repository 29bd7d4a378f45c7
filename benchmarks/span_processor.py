"""What a guest costs: on_start and on_end beside BatchSpanProcessor in the same run, import time, installed size.

Spans are an agent's: some thirty attributes, with messages of kilobytes. Each is started and ended in both processors,
which take turns at being first, while the judging thread judges.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from packaging.requirements import Requirement

import onpath
from onpath import OnPathSpanProcessor

RUNS, STEPS = 600, 10  # agent runs, and tool and model calls in each
BOUND_US = 50
IMPORTS = 9
POLICY = {
    "version": 1,
    "workflows": [
        {
            "name": "refund",
            "match": {},
            "adherence": {
                "expected_steps": [f"tool_{i}" for i in range(STEPS)],
                "required_steps": ["tool_1"],
                "prohibited_steps": ["override"],
                "extract_from": "tool_calls",
            },
        }
    ],
}

MESSAGE = {"role": "user", "parts": [{"type": "text", "content": "Refund order 4711 to the customer, please. " * 10}]}
TEXT = {
    "gen_ai.input.messages": json.dumps([MESSAGE] * 16),
    "gen_ai.output.messages": json.dumps([MESSAGE] * 4),
    "gen_ai.tool.definitions": json.dumps([{"name": f"tool_{i}", "description": "does " * 40} for i in range(20)]),
}
STRUCTURED = {"gen_ai.input.messages": [MESSAGE] * 16, "gen_ai.output.messages": [MESSAGE] * 4}
PLAIN: dict[str, Any] = {f"app.attribute.{i}": f"value {i}" for i in range(20)} | {
    "gen_ai.request.model": "gpt",
    "gen_ai.usage.input_tokens": 1200,
    "gen_ai.usage.output_tokens": 85,
}


class Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Timed(SpanProcessor):
    """Calls both processors and notes how long each takes."""

    def __init__(self, processors: dict[str, SpanProcessor]) -> None:
        self._orders = [list(processors.items()), list(reversed(processors.items()))]
        self._turn = 0
        self.taken: dict[tuple[str, str], list[int]] = {(n, h): [] for n in processors for h in ("on_start", "on_end")}

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        for name, processor in self._order():
            begun = time.perf_counter_ns()
            processor.on_start(span, parent_context)
            self.taken[name, "on_start"].append(time.perf_counter_ns() - begun)

    def on_end(self, span: ReadableSpan) -> None:
        for name, processor in self._order():
            begun = time.perf_counter_ns()
            processor.on_end(span)
            self.taken[name, "on_end"].append(time.perf_counter_ns() - begun)

    def _order(self) -> list[tuple[str, SpanProcessor]]:
        self._turn ^= 1
        return self._orders[self._turn]


def main() -> None:
    for title, content, pause in (
        ("messages as JSON text, 25 kB a span, an agent's pace", TEXT, 0.0005),
        ("messages as JSON text, as fast as it goes", TEXT, 0.0),
        ("messages as structured attributes, an agent's pace", STRUCTURED, 0.0005),
    ):
        _hooks(title, content, pause)
    _early_word()
    _imports()
    _size()


def _hooks(title: str, content: dict[str, Any], pause: float) -> None:
    judging = OnPathSpanProcessor(POLICY, memory_limit="1GiB")
    timed = Timed({"onpath": judging, "BatchSpanProcessor": BatchSpanProcessor(Nowhere())})
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(timed)
    tracer = provider.get_tracer("bench")
    for _ in range(RUNS):
        with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
            for i in range(STEPS):
                named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool_{i}"}
                with tracer.start_as_current_span("execute_tool", attributes={**PLAIN, **named, **content}):
                    if pause:
                        time.sleep(pause)
    judging.force_flush()
    print(f"\n{title}: {RUNS} runs of {STEPS + 1} spans, judged {judging.counts.judged.total()}, ", end="")
    print(f"dropped {judging.counts.spans_dropped.total()}")
    print(f"{'microseconds':22}{'hook':>10}{'p50':>9}{'p99':>9}{'max':>10}")
    for (name, hook), taken in timed.taken.items():
        cuts = statistics.quantiles([ns / 1000 for ns in taken], n=100)
        print(f"{name:22}{hook:>10}{cuts[49]:9.1f}{cuts[98]:9.1f}{max(taken) / 1000:10.1f}")
    worst = statistics.quantiles(timed.taken["onpath", "on_end"], n=100)[98] / 1000
    print(f"on_end p99 {'within' if worst <= BOUND_US else 'OVER'} {BOUND_US} us")
    judging.shutdown()


def _early_word() -> None:
    """From the start of a prohibited tool to the callback, in traces of growing length."""
    print(f"\n{'early word':22}{'steps':>8}{'p50 ms':>9}{'max ms':>9}")
    for steps in (5, 50, 500):
        waited = list(_words(steps))
        print(f"{'':22}{steps:8}{statistics.median(waited):9.1f}{max(waited):9.1f}")


def _words(steps: int) -> Iterator[float]:
    told: list[float] = []
    judging = OnPathSpanProcessor(POLICY, on_violation=lambda *_: told.append(time.perf_counter()))
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(judging)
    tracer = provider.get_tracer("bench")
    for _ in range(10):
        with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
            for i in range(steps):
                named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool_{i}"}
                with tracer.start_as_current_span("execute_tool", attributes=named):
                    time.sleep(0.0005)
            told.clear()
            begun = time.perf_counter()
            named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "override"}
            with tracer.start_as_current_span("execute_tool", attributes=named):
                while not told and time.perf_counter() < begun + 5:
                    time.sleep(0.0005)
            yield (told[0] - begun) * 1000 if told else float("inf")
    judging.shutdown()


def _imports() -> None:
    sdk = "import opentelemetry.sdk.trace"
    cases: dict[str, str] = {
        "the OpenTelemetry SDK": sdk,
        "and onpath": f"{sdk}; import onpath",
        "and its processor": f"{sdk}; from onpath import OnPathSpanProcessor",
        "and a policy loaded": f"{sdk}; from onpath import OnPathSpanProcessor as P; P({POLICY!r}, strict=True)",
    }
    print(f"\n{'import':24}{'ms':>8}{'more than the SDK':>20}  brings in")
    taken = {name: _median(lambda code=code: _import_ms(code)) for name, code in cases.items()}
    for name, code in cases.items():
        more = taken[name] - taken["the OpenTelemetry SDK"]
        heavy = [m for m in ("pydantic", "yaml", "re2", "grpc", "google.protobuf") if m in _modules(code)]
        print(f"{name:24}{taken[name]:8.0f}{more:20.0f}  {', '.join(heavy) or '-'}")


def _median(measure: Callable[[], float]) -> float:
    return statistics.median(measure() for _ in range(IMPORTS))


def _import_ms(code: str) -> float:
    timed = f"import time; t = time.perf_counter(); {code}; print((time.perf_counter() - t) * 1000)"
    return float(_python(timed))


def _modules(code: str) -> set[str]:
    return set(_python(f"{code}; import sys; print(*sys.modules)").split())


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def _size() -> None:
    own = sum(f.stat().st_size for f in Path(onpath.__file__).parent.rglob("*.py"))
    print(f"\n{'installed size':24}{'MB':>8}")
    print(f"{'onpath itself':24}{own / 1e6:8.1f}")
    total = 0.0
    for name in sorted(_needed("onpath") - {"onpath"}):
        files = distribution(name).files or []
        size = sum(p.stat().st_size for f in files if (p := Path(str(f.locate()))).exists() and p.suffix != ".pyc")
        total += size
        print(f"{name:24}{size / 1e6:8.1f}")
    print(f"{'all it brings in':24}{total / 1e6:8.1f}")


def _needed(name: str) -> set[str]:
    """A distribution and, without extras, all that it requires here."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        at = waiting.pop().lower()
        if at in found:
            continue
        found.add(at)
        for line in distribution(at).requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found
