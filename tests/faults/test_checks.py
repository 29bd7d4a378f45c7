"""Checks that hang or raise among others: nothing that is passed on waits, and every trace has its verdict."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.checks import Given, HangsOnEach, RaisesOnEach
from tests.support.load import Load
from tests.support.otlp_sink import OtlpSink
from tests.support.service import Collecting, collecting

SECONDS = 10


async def under_load(collector: Collecting, sink: OtlpSink) -> tuple[Load, float]:
    """The load, and how many seconds after its last acknowledgement the downstream had everything."""
    load = Load(collector.address, threads=4, rate=60)
    await asyncio.to_thread(load.__enter__)
    await asyncio.sleep(SECONDS)
    await asyncio.to_thread(load.stop)
    stopped = time.monotonic()
    await collector.until(lambda: collector.ledger.spans_forwarded >= len(load.acknowledged), 60)
    lag = time.monotonic() - stopped
    await collector.until(lambda: collector.ledger.traces_judged == len(load.traces), 120)
    assert load.failures == []
    assert load.acknowledged <= {(span.trace_id, span.span_id) for span in sink.spans()}
    return load, lag


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_check_hangs_under_load(
    tmp_path: Path, sink: OtlpSink, workers: int, monkeypatch: pytest.MonkeyPatch, tell: Callable[..., None]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # workers find the check there
    options = {"evaluate": {"workers": workers, "timeout": "3s"}, "buffer": {"settle_delay": "300ms"}}
    forward = {"endpoint": f"grpc://{sink.address}"}
    source = Given(hangs=HangsOnEach(500))
    async with collecting(tmp_path, source, forward=forward, **options) as collector:
        load, lag = await under_load(collector, sink)
    found = Counter(result["verdict"] for result in collector.results)
    hung = {result["trace_id"] for result in collector.results if result["verdict"] == "unknown"}
    assert hung == {trace for trace in load.traces if int(trace, 16) % 500 == 0}
    assert found["pass"] == len(load.traces) - len(hung)
    tell(f"{len(load.acknowledged)} spans, all downstream {lag:.2f} s after the last; {dict(found)};", collector.ledger)


async def test_a_check_raises_under_load(tmp_path: Path, sink: OtlpSink, tell: Callable[..., None]) -> None:
    options = {"evaluate": {"workers": 0}, "buffer": {"settle_delay": "300ms"}}
    forward = {"endpoint": f"grpc://{sink.address}"}
    async with collecting(tmp_path, Given(raises=RaisesOnEach(7)), forward=forward, **options) as collector:
        load, lag = await under_load(collector, sink)
    found = Counter(result["verdict"] for result in collector.results)
    assert found["unknown"] == sum(int(trace, 16) % 7 == 0 for trace in load.traces)
    assert found["pass"] == len(load.traces) - found["unknown"]
    tell(f"{len(load.acknowledged)} spans, all downstream {lag:.2f} s after the last; {dict(found)};", collector.ledger)


async def test_agents_name_their_scope_like_ours(tmp_path: Path, sink: OtlpSink, tell: Callable[..., None]) -> None:
    """To escape judgement: they are judged like everyone, and counted."""
    forward = {"endpoint": f"grpc://{sink.address}"}
    source = Given(passes=RaisesOnEach(1 << 128))
    options = {"evaluate": {"workers": 0}, "buffer": {"settle_delay": "300ms"}}
    async with collecting(tmp_path, source, forward=forward, **options) as collector:
        load = Load(collector.address, threads=4, rate=60, scope="onpath")
        await asyncio.to_thread(load.__enter__)
        await asyncio.sleep(5)
        await asyncio.to_thread(load.stop)
        await collector.until(lambda: collector.ledger.traces_judged == len(load.traces), 60)
        await collector.until(lambda: collector.ledger.spans_forwarded >= len(load.acknowledged), 60)
        own, impersonated = collector.service.intake.own, collector.service.intake.impersonated
    assert (own, impersonated) == (0, len(load.acknowledged))
    assert {result["trace_id"] for result in collector.results} == load.traces
    assert load.acknowledged <= {(span.trace_id, span.span_id) for span in sink.spans()}
    tell(f"{impersonated} of {len(load.acknowledged)} spans counted as such; {len(load.traces)} traces judged;")
    tell(collector.ledger)
