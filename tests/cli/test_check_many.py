"""`onpath check` over many recordings: in batches and processes, and what may happen to them, all says the same."""

from __future__ import annotations

import gzip
import json
import os
import pty
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from onpath.cli.judged.results import Results
from onpath.cli.judging import Setup
from onpath.cli.recorded import BATCH, Plan, Source
from onpath.cli.running import judge_plan
from onpath.evaluate import evaluate
from onpath.policy.load import load_data, load_policy
from onpath.policy.model import Policy
from onpath.recordings import RecordingError, read_files, traces_of
from onpath.results import result_json
from tests.conftest import FIXTURES, ROOT, SHARED
from tests.support.waiting import until

POLICY = ROOT / "deploy" / "policies" / "refund.yaml"
TOOLS = ["lookup_user", "check_balance", "process_payment", "send_receipt", "delete_records"]
NOW = 1_700_000_000_000_000_000

Spans = list[dict[str, Any]]


def spans(traces: int) -> Iterator[Spans]:
    """Runs of an agent, with tools at random."""
    chance = random.Random(traces)
    for number in range(1, traces + 1):
        run: Spans = [_span(number, 1, None, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot"})]
        for at in range(2, chance.randrange(3, 8)):
            called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": chance.choice(TOOLS)}
            run.append(_span(number, at, 1, called))
        yield run


def _span(trace: int, span: int, parent: int | None, attributes: dict[str, str]) -> dict[str, Any]:
    start = NOW + (trace * 7919 % 1000) * 10**6 + span * 10**3  # traces don't start in the order of their ids
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{trace * 100 + span:016x}",
        **({"parentSpanId": f"{trace * 100 + parent:016x}"} if parent else {}),
        "name": "span",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + (10**6 if parent is None else 500)),
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
    }


def line(found: Spans) -> str:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "refund-agent"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": found}]}]})


def lines(found: Spans, size: int) -> str:
    return "\n".join(line(found[at : at + size]) for at in range(0, len(found), size)) + "\n"


@dataclass
class Told:
    results: list[dict[str, Any]]
    files: dict[str, str]
    unmatched: dict[str, int]
    traces: int


def in_batches(files: Sequence[Path], policy: Policy, size: int, jobs: int = 1, group_by: str | None = None) -> Told:
    with ExitStack() as copies, Results() as results:
        plan = Plan([Source(str(file), copies) for file in files], size)
        judged = judge_plan(plan, Setup(policy, NOW, group_by), results, jobs=jobs)
        assert sum(judged.verdicts.values()) == len(results)
        return Told(list(results), dict(judged.files), dict(judged.unmatched), judged.traces)


def at_once(files: Sequence[Path], policy: Policy, group_by: str | None = None) -> list[dict[str, Any]]:
    reports = [evaluate(trace, policy) for trace in traces_of(read_files(files), group_by)]
    return [json.loads(json.dumps(result_json(r, result, NOW))) for r in reports for result in r.results]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy([POLICY])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run a line; runs cut over lines; all mixed; one document; compressed; events beside; the same once more."""
    folder = tmp_path_factory.mktemp("recordings")
    runs = list(spans(60))
    mixed = [span for run in runs[30:40] for span in run]
    random.Random(1).shuffle(mixed)
    event = {"timeUnixNano": str(NOW), "eventName": "gen_ai.choice", "body": {"stringValue": "text"}}
    logs = [{**event, "traceId": f"{n:032X}", "spanId": f"{n * 100 + 1:016x}"} for n in range(1, 61, 3)]
    written = {
        "whole.jsonl": "".join(line(run) + "\n" for run in runs[:15]),
        "cut.jsonl": lines([span for run in runs[15:30] for span in run], 7),
        "mixed.jsonl": lines(mixed, 3),
        "document.json": json.dumps(json.loads(line([span for run in runs[40:50] for span in run])), indent=2),
        "some.logs.jsonl": "\n\n".join(
            json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [log]}]}]}) for log in logs
        ),
        "again.jsonl": "".join(line(run) + "\n" for run in runs[10:20]),
    }
    for name, text in written.items():
        (folder / name).write_text(text)
    packed = folder / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(lines([span for run in runs[50:] for span in run], 9).encode()))
    return [*(folder / name for name in written), packed]


@pytest.mark.parametrize("size", [1, 2_000, 20_000, BATCH])
def test_batches_of_any_size_say_what_all_at_once_does(files: list[Path], policy: Policy, size: int) -> None:
    told = in_batches(files, policy, size)
    assert told.results == at_once(files, policy)
    assert len(told.results) == told.traces == 60
    assert told.unmatched == {"service": 60}
    first = {span.trace_id: str(file) for file in reversed(files) for span in read_files([file]).spans}
    assert told.files == first


def test_processes_say_what_one_does(files: list[Path], policy: Policy) -> None:
    assert in_batches(files, policy, 3_000, jobs=3) == in_batches(files, policy, 3_000)


@pytest.mark.parametrize("indent", [None, 2], ids=["on one line", "on many"])
def test_one_large_document_is_judged_by_all(indent: int | None, tmp_path: Path, policy: Policy) -> None:
    padding = {"key": "app.text", "value": {"stringValue": "x" * 30_000}}
    runs = [[{**span, "attributes": [*span["attributes"], padding]} for span in run] for run in spans(60)]
    document, beside = tmp_path / "document.json", tmp_path / "beside.jsonl"
    document.write_text(json.dumps(json.loads(line([span for run in runs for span in run[:-1]])), indent=indent))
    assert document.stat().st_size > 4 * BATCH
    beside.write_text("".join(line(run[-1:]) + "\n" for run in runs[:5]))
    for files in ([document], [beside, document]):
        assert in_batches(files, policy, BATCH, jobs=2).results == at_once(files, policy)


def test_sessions_are_judged_as_one(files: list[Path], policy: Policy) -> None:
    told = in_batches(files, policy, 1_000, jobs=2, group_by="service.name")
    assert told.results == at_once(files, policy, "service.name")
    assert told.traces == 1


def test_an_id_that_does_not_look_like_one_is_found_too(tmp_path: Path, policy: Policy) -> None:
    """JSON may write any letter as an escape: then nothing is seen of a trace before it has been read."""
    run = next(spans(1))
    path = tmp_path / "escaped.jsonl"
    path.write_text(lines(run, 1).replace("traceId", "trace\\u0049d"))
    assert in_batches([path], policy, 1).results == at_once([path], policy)
    assert in_batches([path], policy, 1).traces == 1


def test_recordings_of_frameworks(policy: Policy) -> None:
    found = [p for folder in (FIXTURES / "traces", SHARED / "traces") for p in sorted(folder.rglob("*.jsonl"))]
    if len(found) < 20:
        pytest.skip("no recordings")
    rules = load_data(
        {"version": 1, "workflows": [{"name": "any", "match": {}, "seq!": ["...", "check_balance", "..."]}]}
    )
    told = in_batches(found, rules, 100_000)
    assert told.results == at_once(found, rules)


def test_damage_in_a_late_batch_is_told_with_its_line(tmp_path: Path, policy: Policy) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("\n" + "".join(line(run) + "\n" for run in spans(20)) + '{"resourceSpans": 5}\n')
    for jobs in (1, 2):
        with pytest.raises(RecordingError, match=rf"{path}:22: resourceSpans: expected a list, got a number"):
            in_batches([path], policy, 1_000, jobs=jobs)


# ------------------------------------------------------------------ the command as a process


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "onpath.cli", "check", "--policy", str(POLICY), *arguments]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of several batches."""
    path = tmp_path_factory.mktemp("big") / "runs.jsonl"
    padding = {"key": "app.text", "value": {"stringValue": "x" * 20_000}}
    runs = [[{**span, "attributes": [*span["attributes"], padding]} for span in run] for run in spans(80)]
    path.write_text("".join(line(run) + "\n" for run in runs))
    assert path.stat().st_size > 4 * BATCH
    return str(path)


def test_a_pipe_is_read_as_a_file_is(big: str) -> None:
    with open(big, "rb") as file:
        piped = subprocess.run(command("--format", "junit", "-"), stdin=file, capture_output=True, check=False)
    named = subprocess.run(
        ["bash", "-c", f'"$@" <(cat {big})', "-", *command("--format", "junit")], capture_output=True
    )
    assert (piped.returncode, named.returncode) == (1, 1)
    assert piped.stdout.count(b"<testcase") == named.stdout.count(b"<testcase") == 80 * 4


def test_nothing_is_told_of_progress_where_there_is_no_terminal(big: str) -> None:
    done = subprocess.run(command("--format", "json", "--jobs", "2", big), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert len(done.stdout.splitlines()) == 80


def test_a_bar_on_a_terminal(big: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command("--format", "json", big), stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    said = b""

    def read() -> None:
        nonlocal said
        try:
            while found := os.read(ours, 1000):
                said += found
        except OSError:  # the other end has been closed
            return

    reader = threading.Thread(target=read)
    reader.start()
    out, _ = process.communicate()
    reader.join()
    os.close(ours)
    assert len(out.splitlines()) == 80
    assert b"judging" in said
    assert b"100 %" in said


def test_who_reads_may_go_away(big: str) -> None:
    process = subprocess.Popen(command("--format", "json", big), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 1  # the verdict is what it is
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def judging(big: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run that has begun its processes."""
    process = subprocess.Popen(
        command("--jobs", "2", "--format", "json", *[big] * 40),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until(lambda: len(children(process.pid)) >= 2, lambda: "no processes have been started")
    yield process
    assert process.stderr is not None
    process.stderr.close()


def test_an_interrupt_ends_it_at_once(judging: subprocess.Popen[bytes]) -> None:
    os.killpg(judging.pid, signal.SIGINT)
    assert judging.wait(30) == 130
    assert judging.stderr is not None
    assert judging.stderr.read() == b"onpath: interrupted\n"


def test_a_process_that_is_killed_is_told(judging: subprocess.Popen[bytes]) -> None:
    def judge() -> int | None:
        found = [c for c in children(judging.pid) if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
        return found[0] if found else None

    found = until(judge, lambda: "no process that judges")
    assert found is not None
    os.kill(found, signal.SIGKILL)
    assert judging.wait(60) == 2
    assert judging.stderr is not None
    assert b"a process that judged has ended unexpectedly" in judging.stderr.read()


def test_no_process_is_left_when_the_command_is_killed(judging: subprocess.Popen[bytes]) -> None:
    left = children(judging.pid)
    judging.kill()
    judging.wait(30)

    def gone() -> bool:
        return all(not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in _status(pid) for pid in left)

    until(gone, lambda: f"the end of {left}")


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "\nState:\tZ"
