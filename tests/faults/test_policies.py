"""Policy files that change under load, to good and to bad ones: what is in force judges, nothing is left out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.durable import POLICY, Lives, assert_nothing_lost
from tests.support.load import Load
from tests.support.otlp_sink import OtlpSink
from tests.support.waiting import until

OTHER = POLICY.replace("seq!: [lookup_user, check_balance, send_receipt]", "seq!: [lookup_user]")


def test_policies_change_under_load(tmp_path: Path, sink: OtlpSink, tell: Callable[..., None]) -> None:
    lives = Lives(tmp_path, sink.address, "--settle-delay", "300ms")
    with lives.start() as collector, Load(lives.address, threads=4, rate=80) as load:
        for text in (OTHER, "not a policy", POLICY, POLICY[:60], OTHER, "", POLICY, OTHER):
            lives.policy.write_text(text, encoding="utf-8")
            os.kill(collector.process.pid, signal.SIGHUP)
            time.sleep(1.5)
        lives.policy.unlink()
        os.kill(collector.process.pid, signal.SIGHUP)
        time.sleep(1)
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace", 60)
    assert {result["verdict"] for result in lives.results} == {"pass", "fail"}
    assert len({result["policy_fingerprint"] for result in lives.results}) == 2
    assert load.failures == []
    assert_nothing_lost(lives, load.acknowledged, sink)
    tell(f"{collector.output.count('policy reloaded')} reloads,", end_of(collector.output), collector.ledger)


def end_of(output: str) -> str:
    return f"{output.count('the policy was not reloaded')} refused;"
