"""What the agents need around them: a model server, the collector under test, and a downstream behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.agents.support import programs
from tests.agents.support.openai_stub import OpenAIStub
from tests.agents.support.venvs import Unavailable
from tests.support.collector import Collector, Result
from tests.support.onpath import steps_of_runs
from tests.support.otlp_sink import OtlpSink

POLICY = Path(__file__).resolve().parent / "policy.yaml"

ResultOf: TypeAlias = Callable[[programs.Run], Result]
StepsOf: TypeAlias = Callable[[programs.Run], dict[str, Any]]


@pytest.fixture(scope="session")
def openai() -> Iterator[str]:
    with OpenAIStub() as url:
        yield url


@pytest.fixture(scope="session")
def downstream() -> Iterator[OtlpSink]:
    with OtlpSink() as sink:
        yield sink


@pytest.fixture(scope="session")
def collector(downstream: OtlpSink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    folder = tmp_path_factory.mktemp("collector")
    with Collector(POLICY, folder, "--forward", f"grpc://{downstream.address}") as running:
        yield running


@pytest.fixture(scope="session")
def runs_of(collector: Collector, openai: str) -> Callable[[str], dict[str, programs.Run]]:
    """The runs of a framework by scenario, made when first asked for; skips where its environment can't be had."""
    made: dict[str, dict[str, programs.Run] | str] = {}

    def runs(framework: str) -> dict[str, programs.Run]:
        if framework not in made:
            try:
                made[framework] = programs.run_all(framework, collector.endpoint, openai)
            except Unavailable as reason:
                made[framework] = str(reason)
        found = made[framework]
        if isinstance(found, str):
            pytest.skip(f"{framework}: {found}")
        return found

    return runs


@pytest.fixture(scope="session")
def result_of(collector: Collector) -> ResultOf:
    """The one result of a run."""

    def result(run: programs.Run) -> Result:
        found = collector.wait_for(lambda result: result["service"] == run.service)
        assert len(found) == 1, f"{run.service} has {len(found)} results"
        return found[0]

    return result


@pytest.fixture(scope="session")
def steps_of(downstream: OtlpSink, result_of: ResultOf, tmp_path_factory: pytest.TempPathFactory) -> StepsOf:
    """What `onpath steps` reads of a run from all that went downstream, results too."""
    seen: dict[str, dict[str, Any]] = {}
    file = tmp_path_factory.mktemp("downstream") / "traces.pb"

    def steps(run: programs.Run) -> dict[str, Any]:
        trace_id = result_of(run)["trace_id"]
        if trace_id not in seen:
            file.write_bytes(b"".join(downstream.requests("trace")))  # messages one after another are one, merged
            seen.update(steps_of_runs([file]))
        return seen[trace_id]

    return steps
