"""What a soak is made of: senders that never give up, what was said of every run, and one life of the collector."""

from __future__ import annotations

import heapq
import json
import math
import random
import re
import signal
import threading
import time
import urllib.request
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import grpc
from prometheus_client.parser import text_string_to_metric_families

from tests.support.collector import PORTS, READY, Collector
from tests.support.durable import Lives
from tests.support.load import Sender
from tests.support.numbered import ALL, SPANS, Tally, encoded, indices, number_of
from tests.support.processes import Child

RUNS = 10  # in a request
LATE_PLACE = 1
LATE = (0.5, 5.0)  # seconds
DUPLICATES = 0.03  # of requests, sent again within the same time
PATIENCE = 60.0  # seconds, at the end
BEHIND = 5.0  # seconds of load that is made up for after a restart

Metrics = dict[str, float]


class Sending:
    """`rate` spans a second by `threads` connections. One run of each request has a span that comes late."""

    def __init__(self, address: str, rate: float, threads: int = 4) -> None:
        self.acknowledged = Tally()
        self.attempted = Tally()
        self.refused: Counter[str] = Counter()
        self.duplicates = 0
        self.late: set[int] = set()
        self.requests = 0
        self._address = address
        self._pause = threads * RUNS * SPANS / rate
        self._lock = threading.Lock()
        self._next = 0
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(threads)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """All that was begun is sent to its end, if that can be."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, seed: int) -> None:
        draw, sender = random.Random(seed), Sender(self._address)
        held: list[tuple[float, bytes, list[int]]] = []
        due = time.monotonic()
        while not self._stopping.is_set():
            self._send(sender, *self._made(draw, held))
            while held and held[0][0] <= time.monotonic():
                self._send(sender, *heapq.heappop(held)[1:])
            due = max(due + self._pause, time.monotonic() - BEHIND)
            time.sleep(max(0.0, due - time.monotonic()))
        while held:
            self._send(sender, *heapq.heappop(held)[1:])
        sender.close()

    def _made(self, draw: random.Random, held: list[tuple[float, bytes, list[int]]]) -> tuple[bytes, list[int]]:
        """A request, and for later a late span of it and perhaps all of it again."""
        with self._lock:
            first = self._next
            self._next += RUNS
            self.late.add(first)
        places = [place for place in ALL if place != LATE_PLACE]
        runs = {first: places} | {number: list(ALL) for number in range(first + 1, first + RUNS)}
        body = b"".join(encoded(number, of) for number, of in runs.items())
        spans = [index for number, of in runs.items() for index in indices(number, of)]
        late = (encoded(first, [LATE_PLACE]), indices(first, [LATE_PLACE]))
        heapq.heappush(held, (time.monotonic() + draw.uniform(*LATE), *late))
        if draw.random() < DUPLICATES:
            heapq.heappush(held, (time.monotonic() + draw.uniform(*LATE), body, spans))
            self.duplicates += 1
        return body, spans

    def _send(self, sender: Sender, body: bytes, spans: Sequence[int]) -> None:
        patience = math.inf
        while time.monotonic() < patience:
            if self._stopping.is_set() and patience == math.inf:
                patience = time.monotonic() + PATIENCE
            code = sender.send(body)
            with self._lock:
                self.attempted.add(spans)
                if code is grpc.StatusCode.OK:
                    self.requests += 1
                    self.acknowledged.add(spans)
                    return
                self.refused[code.name] += 1
            time.sleep(0.05)


class Said:
    """Every report, by run and revision: said again it must be in the same words. Only a checksum is kept."""

    def __init__(self) -> None:
        self._words: dict[tuple[int, int], int] = {}
        self._last: dict[int, tuple[int, str, str]] = {}
        self.again = 0
        self.otherwise: list[str] = []
        self._file: Path | None = None
        self._at = 0

    def follow(self, path: Path) -> None:
        """From now on its lines are read; the file before is done with."""
        self.read()
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        self._file, self._at = path, 0

    def read(self) -> None:
        if self._file is None or not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._at += whole
        for line in data[:whole].splitlines():
            self._add(json.loads(line))

    def _add(self, report: dict[str, str]) -> None:
        number, revision = number_of(report["trace_id"]), int(report["revision"])
        words = {k: v for k, v in report.items() if k not in ("judged_at", "coverage")}
        told = zlib.crc32(json.dumps(words, sort_keys=True).encode())
        if (number, revision) in self._words:
            self.again += 1
            if self._words[number, revision] != told:
                self.otherwise.append(f"revision {revision} of {report['trace_id']}")
        self._words[number, revision] = told
        if revision >= self._last.get(number, (0,))[0]:
            self._last[number] = (revision, report["verdict"], report["release_reason"])

    @property
    def runs(self) -> set[int]:
        return set(self._last)

    @property
    def revised(self) -> int:
        return sum(revision > 1 for revision, _, _ in self._last.values())

    @property
    def verdicts(self) -> Counter[str]:
        """The last of each run."""
        return Counter(verdict for _, verdict, _ in self._last.values())

    def failed(self) -> set[int]:
        return {number for number, (_, verdict, _) in self._last.items() if verdict == "fail"}


class Life:
    """The collector from a start to an end. Its own counts must add up whenever they are read."""

    def __init__(self, lives: Lives, number: int, said: Said) -> None:
        reports = lives.folder / f"reports-{number}.jsonl"
        command = Collector(lives.policy, lives.folder, *lives.options, "--report-file", str(reports)).command
        self.child = Child(command, keeps=lambda line: '"message": "verdict"' not in line)
        self._ports = dict(PORTS.findall(self.child.wait_for_line(READY, 120).string))
        said.follow(reports)
        back = re.search(r"([0-9]+) requests .* are back from the journal, ([0-9]+) of", self.child.output)
        self.brought_back, self.unsent = (int(back[1]), int(back[2])) if back else (0, 0)

    def metrics(self) -> Metrics:
        """Raises AssertionError when they do not add up."""
        with urllib.request.urlopen(f"http://{self._ports['admin']}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found: Metrics = Counter()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    found[sample.name.removeprefix("onpath_")] += sample.value
        for what, ended, held in (("traces", "judged", "open"), ("spans", "forwarded", "queued")):
            begun = found["traces_started_total" if what == "traces" else "spans_received_total"]
            total = found[f"{what}_{ended}_total"] + found[f"{what}_dropped_total"] + found[f"{what}_{held}"]
            assert begun == total, f"{what}: {begun} began, {total} are accounted for"
        return found

    def rss(self) -> float:
        """MiB of the process and its workers."""
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text().split()
        sizes = [Path(f"/proc/{pid}/statm").read_text().split()[1] for pid in (self.child.pid, *children)]
        return sum(map(int, sizes)) * 4096 / (1 << 20)

    def kill(self) -> None:
        self.child.stop(signal.SIGKILL)

    def stop(self) -> dict[str, object]:
        """Its last line. Raises AssertionError when it does not end well."""
        code = self.child.stop(patience=60)
        assert code == 0, f"it ended with {code}:\n{self.child.output}"
        found: dict[str, object] = json.loads(self.child.lines[-1])
        return found
