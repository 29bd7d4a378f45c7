"""Workers: what a job costs, and what a bad one does to the others."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from onpath.policy.model import Check, Match, Policy, Workflow
from onpath.report import Evaluation, Verdict
from onpath.steps.model import Scope
from onpath.validators.base import Context, Validator
from onpath_collector.judging import Job, Setup
from onpath_collector.workers import JobFailed, JobTimeout, Judge, Pool, Threaded
from tests.conftest import ROOT


@dataclass(frozen=True)
class Passes:
    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        return (Evaluation(name="passes", label=Verdict.PASS),)


@dataclass(frozen=True)
class HangsOn:
    """Hangs on the trace with this service, judges others."""

    agent: str

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        while scope.resource.service == self.agent:
            time.sleep(0.01)
        return (Evaluation(name="hangs", label=Verdict.PASS),)


@dataclass(frozen=True)
class Dies:
    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class Raises:
    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        raise ZeroDivisionError("a fault of the check")


@pytest.fixture(autouse=True)
def checks_of_this_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import what is installed; these checks are not."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def setup(*validators: Validator) -> Setup:
    checks = tuple(Check(key=f"c{i}", validator=v) for i, v in enumerate(validators))
    policy = Policy(workflows=(Workflow(name="w", match=Match(), checks=checks),), fingerprint="f" * 32)
    return Setup(policy, {"service.name": "onpath", "service.instance.id": "test"})


def job(service: str = "agent", number: int = 1, unknown: str | None = None) -> Job:
    data = TracesData()
    group = data.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    span = group.scope_spans.add().spans.add(trace_id=number.to_bytes(16), span_id=number.to_bytes(8), name="run")
    span.start_time_unix_nano, span.end_time_unix_nano = 1_000, 2_000
    return Job([data.SerializeToString()], "root_ended", judged_at_ns=1, unknown=unknown)


@pytest.fixture
async def judges() -> AsyncIterator[list[Judge]]:
    made: list[Judge] = []
    yield made
    for judge in made:
        await judge.close()


async def test_a_process_judges_as_this_one_does(judges: list[Judge]) -> None:
    judges += [Pool(setup(Passes()), 30, 1), Threaded(setup(Passes()), 30)]
    by_process, by_thread = [await j.run(job()) for j in judges]
    assert by_process == by_thread
    assert [v.verdict for v in by_process.verdicts] == ["pass"]
    assert by_process.spans
    assert by_process.logs


async def test_answers_belong_to_their_jobs(judges: list[Judge]) -> None:
    pool = Pool(setup(Passes()), 30, 2)
    judges.append(pool)
    outcomes = await asyncio.gather(*(pool.run(job(number=n)) for n in range(1, 60)))
    assert [int(o.trace_id, 16) for o in outcomes] == list(range(1, 60))


async def test_a_hanging_check_costs_its_worker_and_no_other_job(judges: list[Judge]) -> None:
    pool = Pool(setup(HangsOn("bad")), 3.0, 1)
    judges.append(pool)
    await pool.run(job())
    hung = asyncio.create_task(pool.run(job("bad", 2)))
    await asyncio.sleep(0)
    behind = [asyncio.create_task(pool.run(job("good", n))) for n in (3, 4)]
    with pytest.raises(JobTimeout):
        await hung
    assert [int((await b).trace_id, 16) for b in behind] == [3, 4]
    assert pool.killed == 1
    silenced = await pool.run(job("bad", 2, unknown="evaluation_timeout"))
    assert [v.verdict for v in silenced.verdicts] == ["unknown"]


async def test_a_thread_over_its_time_is_abandoned(judges: list[Judge]) -> None:
    # The abandoned thread must end before the interpreter does, so this check hangs for a while only.
    judge = Threaded(setup(SleepsOnce()), 0.2)
    judges.append(judge)
    with pytest.raises(JobTimeout):
        await judge.run(job())
    assert (await judge.run(job(unknown="evaluation_timeout"))).verdicts[0].verdict == "unknown"


@dataclass(frozen=True)
class SleepsOnce:
    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        time.sleep(1.0)
        return ()


async def test_a_worker_that_dies_fails_its_job_alone(judges: list[Judge]) -> None:
    pool = Pool(setup(Dies()), 30, 1)
    judges.append(pool)
    with pytest.raises(JobFailed, match="ended with -9"):
        await pool.run(job())
    assert (await pool.run(job(unknown="evaluation_failed"))).verdicts[0].verdict == "unknown"


async def test_a_check_that_raises_leaves_the_others_alone(judges: list[Judge]) -> None:
    pool = Pool(setup(Raises(), Passes()), 30, 1)
    judges.append(pool)
    outcome = await pool.run(job())
    assert [v.verdict for v in outcome.verdicts] == ["unknown"]
    assert len(outcome.broken) == 1
    assert "ZeroDivisionError" in outcome.broken[0]


async def test_bytes_that_are_no_spans_fail_their_job_alone(judges: list[Judge]) -> None:
    pool = Pool(setup(Passes()), 30, 1)
    judges.append(pool)
    with pytest.raises(JobFailed, match="DecodeError"):
        await pool.run(Job([b"\xff\xff"], "root_ended", judged_at_ns=1))
    assert (await pool.run(job())).verdicts


async def test_a_new_setup_holds_for_the_jobs_after_it(judges: list[Judge]) -> None:
    pool = Pool(setup(Passes()), 30, 1)
    judges.append(pool)
    await pool.run(job())
    await pool.set_up(setup(Raises()))
    assert (await pool.run(job())).broken


@dataclass(frozen=True)
class SlowToLoad:
    """Takes a while where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[], Passes], tuple[()]]:
        return _loaded_slowly, ()

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        return ()


def _loaded_slowly() -> Passes:
    time.sleep(2.5)
    return Passes()


async def test_loading_a_policy_is_not_a_jobs_time(judges: list[Judge]) -> None:
    pool = Pool(setup(SlowToLoad()), 1.5, 1)
    judges.append(pool)
    assert (await pool.run(job())).verdicts[0].verdict == "pass"
    await pool.set_up(setup(SlowToLoad(), Passes()))
    assert len((await pool.run(job())).verdicts) == 1
    assert pool.killed == 0


async def test_closing_is_safe_unused_and_twice() -> None:
    pool = Pool(setup(Passes()), 30, 1)
    await pool.close()
    await pool.run(job())
    await pool.close()
    await pool.close()


async def test_a_worker_imports_nothing_that_lies_where_it_was_started(
    judges: list[Judge], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit(5)")
    (tmp_path / "onpath").mkdir()
    monkeypatch.chdir(tmp_path)
    pool = Pool(setup(Passes()), 30, 1)
    judges.append(pool)
    assert (await pool.run(job())).verdicts[0].verdict == "pass"


async def test_a_worker_that_cannot_start_fails_its_job_and_is_not_tried_at_once_again(
    judges: list[Judge], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit(5)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pool = Pool(setup(Passes()), 30, 1)
    judges.append(pool)
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(JobFailed, match="ended with 5"):
            await pool.run(job())
    assert time.monotonic() - began >= 1.0
