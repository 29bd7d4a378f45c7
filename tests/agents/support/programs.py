"""Runs an agent program in its own environment and reads its ledger."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.agents.programs import refund
from tests.agents.support.venvs import python_of

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
FRAMEWORKS = ("pydantic_ai", "langgraph", "openai_agents", "strands", "traceloop", "distro")
PATIENCE = 120  # seconds for one program: the first start of an environment compiles what it imports
AT_ONCE = 2  # programs running side by side
EVERY_SIGNAL = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp"}


@dataclass(frozen=True)
class Run:
    """One program's run: what it said and, from inside its tools, what it did."""

    service: str
    scenario: str
    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ledger(self) -> list[dict[str, Any]]:
        calls = json.loads(self.stdout.splitlines()[-1])
        return sorted(calls, key=lambda call: call["start_ns"])

    @property
    def model_calls(self) -> int:
        return len(refund.SCRIPTS[self.scenario]) + 1

    def __str__(self) -> str:
        return f"{self.service} ended with {self.code} after {self.seconds:.1f} s\n{self.stdout}\n{self.stderr}"


def run(
    framework: str,
    scenario: str,
    endpoint: str,
    openai: str,
    *,
    task: str = "refund",
    label: str = "",
    resource: str = "",
) -> Run:
    """Workflows tell tasks apart by the service's name; `resource` are further attributes, as OTEL_RESOURCE_ATTRIBUTES
    has them. Raises venvs.Unavailable when there is no environment.
    """
    python = python_of(framework)
    service = f"{task}-{framework}-{scenario}{label}"
    command = [str(python), str(PROGRAMS / f"refund_{framework}.py"), scenario]
    if framework == "distro":
        command.insert(0, str(python.parent / "opentelemetry-instrument"))
    started = time.monotonic()
    env = {**_environment(endpoint, service, openai), "OTEL_RESOURCE_ATTRIBUTES": resource}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return Run(service, scenario, done.returncode, done.stdout, done.stderr, time.monotonic() - started)


def run_all(
    framework: str,
    endpoint: str,
    openai: str,
    scenarios: Iterable[str] = tuple(refund.SCENARIOS),
    *,
    task: str = "refund",
) -> dict[str, Run]:
    """Every scenario, as many at a time as there are cores to count on. Raises venvs.Unavailable."""
    python_of(framework)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {name: pool.submit(run, framework, name, endpoint, openai, task=task) for name in scenarios}
        return {name: future.result() for name, future in futures.items()}


def _environment(endpoint: str, service: str, openai: str) -> Mapping[str, str]:
    """The least that a program needs: settings of whoever runs the tests must not reach it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        **EVERY_SIGNAL,
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_SERVICE_NAME": service,
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_AND_EVENT",
        "OPENAI_BASE_URL": openai,
        "OPENAI_API_KEY": "unused",
        "TRACELOOP_METRICS_ENABLED": "false",
        "NO_PROXY": "127.0.0.1",
    }
