"""A collector with a journal on one port through all its lives, and what must hold of them together."""

from __future__ import annotations

import json
import socket
from collections import defaultdict
from pathlib import Path

from tests.support.collector import Collector, Result
from tests.support.load import SpanKey
from tests.support.otlp_sink import OtlpSink

POLICY = """
version: 1
workflows:
  - name: refund
    adherence: {expected_steps: [lookup_user, check_balance, send_receipt], extract_from: tool_calls}
    seq!: [lookup_user, check_balance, send_receipt]
"""


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class Lives:
    """`with lives.start() as collector`, as often as need be. `journal` is its folder, `address` its gRPC port."""

    def __init__(self, folder: Path, downstream: str, *options: str, journal: Path | None = None) -> None:
        self.folder = folder
        self.address = free_address()
        self.journal = journal or folder / "journal"
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY, encoding="utf-8")
        self.options = (
            "--grpc",
            self.address,
            "--forward",
            f"grpc://{downstream}",
            "--journal",
            str(self.journal),
            *options,
        )
        self.reports = folder / "reports.jsonl"

    def start(self, *options: str) -> Collector:
        return Collector(self.policy, self.folder, *self.options, *options)

    @property
    def results(self) -> list[Result]:
        text = self.reports.read_text(encoding="utf-8") if self.reports.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    @property
    def judged(self) -> set[str]:
        return {result["trace_id"] for result in self.results}


def assert_nothing_lost(lives: Lives, acknowledged: set[SpanKey], sink: OtlpSink) -> None:
    """No acknowledged span is missing downstream, no trace without a verdict."""
    there = {(span.trace_id, span.span_id) for span in sink.spans()}
    missing = acknowledged - there
    assert not missing, f"{len(missing)} of {len(acknowledged)} acknowledged spans are not downstream"
    unjudged = {trace_id.hex() for trace_id, _ in acknowledged} - lives.judged
    assert not unjudged, f"{len(unjudged)} traces have no verdict"


def assert_said_once(results: list[Result]) -> None:
    """What was said again was said under the same ids, and with the same words.

    Only how many duplicates came may differ: they are not kept.
    """
    said: dict[tuple[str, int], list[Result]] = defaultdict(list)
    for result in results:
        said[result["trace_id"], result["revision"]].append(result)
    for (trace_id, revision), again in said.items():
        words = [{k: v for k, v in result.items() if k not in ("judged_at", "coverage")} for result in again]
        told = {key for word in words for key in word if word[key] != words[0][key]}
        how = [{key: word[key] for key in told} for word in words]
        assert not told, f"revision {revision} of {trace_id} was said {len(again)} times, in other words: {how}"
