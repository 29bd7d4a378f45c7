"""`onpath check` over ten thousand recorded traces of ten spans: traces a second and peak memory, by jobs and format.

Recordings are OTLP/JSON lines: a request a trace, and requests of 512 spans, cut wherever they are full, so that some
traces go on in the next line. The command runs in a process of its own, from its start to its end.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TRACES, SPANS, BATCH = 10_000, 10, 512
TOOLS = ("lookup_user", "check_balance", "process_payment", "send_receipt")
ROOT = Path(__file__).parent.parent
POLICY = ROOT / "deploy" / "policies" / "refund.yaml"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole, cut, one = (Path(folder, name) for name in ("traces.jsonl", "requests.jsonl", "document.json"))
        _write(whole, traces(TRACES))
        _write(cut, _cut(traces(TRACES), BATCH))
        _write(one, _cut(traces(TRACES), TRACES * SPANS))
        print(f"{TRACES:,} traces of {SPANS} spans, {whole.stat().st_size / 1e6:.0f} MB")
        print(f"{'recording':34}{'format':>10}{'jobs':>6}{'traces/s':>10}{'CPU s':>8}{'peak MiB':>10}")
        for name, path in (("a request a trace", whole), (f"requests of {BATCH} spans", cut), ("one request", one)):
            for jobs in (1, os.cpu_count() or 1):
                _row(name, path, "json", jobs)
        for chosen in ("table", "junit", "sarif", "markdown"):
            _row("a request a trace", whole, chosen, os.cpu_count() or 1)


def _row(name: str, path: Path, chosen: str, jobs: int) -> None:
    took, cpu, peak = _run([str(path), "--policy", str(POLICY), "--format", chosen, "--jobs", str(jobs)])
    print(f"{name:34}{chosen:>10}{jobs:>6}{TRACES / took:10.0f}{cpu:8.1f}{peak:10.0f}", flush=True)


def _run(arguments: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of CPU and the most MiB that the command and its workers had at a time."""
    before = os.times()
    start = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen([sys.executable, "-m", "onpath.cli", "check", *arguments], stdout=nowhere)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, _memory(process.pid))
            time.sleep(0.05)
    took = time.perf_counter() - start
    after = os.times()
    assert process.returncode in (0, 1), process.returncode
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return took, cpu, peak


def _memory(pid: int) -> float:
    total = 0.0
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for member in (str(pid), *children):
            found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{member}/status").read_text())
            total += int(found[1]) / 1024 if found else 0
    except OSError:  # it has ended meanwhile
        return total
    return total


# ------------------------------------------------------------------ recordings


def traces(count: int) -> Iterator[list[dict[str, Any]]]:
    """Agent runs as lists of OTLP/JSON spans: model and tool calls in turn under invoke_agent; one in twenty strays."""
    chance = random.Random(1)
    for number in range(count):
        yield _trace(chance, 1_700_000_000_000_000_000 + number * 20_000_000)


def _trace(chance: random.Random, start: int) -> list[dict[str, Any]]:
    trace_id, root = chance.randbytes(16).hex(), chance.randbytes(8).hex()
    strays = chance.randrange(20) == 0
    made = []
    for i in range(SPANS):
        last = i == SPANS - 1
        tool = "delete_records" if strays and i == 5 else TOOLS[i // 2 % 4]
        made.append(
            {
                "traceId": trace_id,
                "spanId": root if last else chance.randbytes(8).hex(),
                **({} if last else {"parentSpanId": root}),
                "name": "invoke_agent refund" if last else f"execute_tool {tool}" if i % 2 else "chat gpt-4o",
                "kind": 1,
                "startTimeUnixNano": str(start if last else start + i * 1_000_000),
                "endTimeUnixNano": str(start + (SPANS * 1_000_000 if last else i * 1_000_000 + 900_000)),
                "attributes": _attributes(_said(last, i, tool)),
                "status": {},
                "flags": 257,
            }
        )
    return made


def _said(last: bool, i: int, tool: str) -> dict[str, str | int]:
    if last:
        return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund"}
    if i % 2:
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": f"call_{i}",
            "gen_ai.tool.call.arguments": '{"user_id": "u_1001"}',
            "gen_ai.tool.call.result": '{"ok": true}',
        }
    message = [{"role": "user", "parts": [{"type": "text", "content": "Refund order 4711, please."}]}]
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.input.messages": json.dumps(message),
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 18,
    }


def _attributes(values: dict[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]


def _cut(found: Iterable[list[dict[str, Any]]], size: int) -> Iterator[list[dict[str, Any]]]:
    waiting: list[dict[str, Any]] = []
    for trace in found:
        waiting += trace
        while len(waiting) >= size:
            yield waiting[:size]
            waiting = waiting[size:]
    if waiting:
        yield waiting


def _write(path: Path, requests: Iterable[list[dict[str, Any]]]) -> None:
    resource = {"attributes": _attributes({"service.name": "refund-agent", "telemetry.sdk.language": "python"})}
    with path.open("w") as file:
        for spans in requests:
            group = {"resource": resource, "scopeSpans": [{"scope": {"name": "bench"}, "spans": spans}]}
            file.write(json.dumps({"resourceSpans": [group]}) + "\n")


if __name__ == "__main__":
    main()
