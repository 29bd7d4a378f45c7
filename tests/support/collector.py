"""The real collector as a child process: started by its command, awaited by its ready line, stopped by SIGTERM."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.onpath import COMMAND
from tests.support.processes import Child
from tests.support.waiting import until

PATIENCE = 120  # seconds for a start, beside whatever else the machine does
READY = r"(?i)\bready\b"
PORTS = re.compile(r"(OTLP/gRPC|OTLP/HTTP|admin) on ([^,\s]+)")
ANY_PORTS = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")

Result = dict[str, Any]


class Collector:
    """`with Collector(policy, folder) as collector`: it listens at `endpoint` and writes results to `report_file`.

    Leaving stops it with SIGTERM and asserts exit code 0 and a last line that accounts for every trace and span;
    `results` may be read afterwards too. One that a test has killed leaves without a word.
    """

    def __init__(self, policy: Path, folder: Path, *options: str) -> None:
        self.report_file = folder / "reports.jsonl"
        self.killed = False
        self.command = [
            *COMMAND,
            "collector",
            *ANY_PORTS,
            *("--policy", str(policy), "--report-file", str(self.report_file), "--settle-delay", "1s", *options),
        ]

    def __enter__(self) -> Collector:
        self.process = Child(self.command)
        try:
            line = self.process.wait_for_line(READY, PATIENCE)
        except BaseException:
            self.process.stop()
            raise
        self.ports = dict(PORTS.findall(line.string))
        assert "OTLP/gRPC" in self.ports, f"the ready line names no gRPC port: {line.string}"
        self.endpoint = f"http://{self.ports['OTLP/gRPC']}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        code = self.process.stop()
        if error is None and not self.killed:
            assert code == 0, f"the collector ended with {code}:\n{self.process.output}"
            self._assert_all_accounted_for()

    def _assert_all_accounted_for(self) -> None:
        last = self.process.lines[-1]
        told = json.loads(last)
        for what, outcome, held in (("traces", "judged", "open"), ("spans", "forwarded", "queued")):
            begun = told["traces_started" if what == "traces" else "spans_received"]
            ended = told[f"{what}_{outcome}"] + sum(told[f"{what}_dropped"].values()) + told[f"{what}_{held}"]
            assert begun == ended, last

    def kill(self) -> None:
        """As the kernel does when it is out of memory."""
        self.killed = True
        self.process.stop(signal.SIGKILL)

    @property
    def ledger(self) -> dict[str, Any]:
        """The last line of one that has stopped."""
        found: dict[str, Any] = json.loads(self.process.lines[-1])
        return found

    @property
    def output(self) -> str:
        return self.process.output

    @property
    def results(self) -> list[Result]:
        """What the report file holds so far, whole lines only."""
        text = self.report_file.read_text(encoding="utf-8") if self.report_file.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def wait_for(self, wanted: Callable[[Result], bool], patience: float = 30) -> list[Result]:
        """The results that `wanted` holds for, once there is one. Raises AssertionError when time is up."""
        return until(
            lambda: [result for result in self.results if wanted(result)],
            lambda: f"a result; there are {self.results}, and the collector said:\n{self.output}",
            patience,
        )
