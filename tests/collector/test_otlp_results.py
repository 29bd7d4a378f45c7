"""Results over OTLP: three signals, each off where the backend has no such service; metrics with exemplars."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from onpath.results import SCOPE_NAME, version
from onpath.results_metrics import SCORE, SCORE_BOUNDARIES, Instruments, Measure, Measured
from onpath_collector.downstream import Delivered, Failed, Outcome
from onpath_collector.exporters.otlp import NO_SERVICE, OtlpResults
from onpath_collector.exporters.otlp_metrics import ResultMetrics
from onpath_collector.forward import Forwarder, ForwardSettings
from onpath_collector.judging import Outcome as Judged

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"


class Kept:
    """A sender that keeps what it is given."""

    def __init__(self, answer: Outcome | None = None) -> None:
        self.bodies: list[bytes] = []
        self._answer = answer or Delivered()

    async def send(self, request: bytes) -> Outcome:
        self.bodies.append(request)
        return self._answer

    async def close(self) -> None: ...


def forwarder(sender: Kept) -> Forwarder:
    return Forwarder(ForwardSettings(quiet=NO_SERVICE), sender)


def measured(*measures: Measure) -> Measured:
    return Measured(measures, TRACE_ID, SPAN_ID)


MEASURES: tuple[Measure, ...] = (
    ("onpath.verdicts", 1, ("refund", "fail")),
    ("onpath.evaluations", 1, ("refund", "seq", "fail")),
    ("onpath.evaluation.score", 0.5, ("refund", "seq")),
    ("onpath.findings", 1, ("refund", "missing_step", "check")),
)
JUDGED = Judged(TRACE_ID, 1, "", spans=b"\x0a\x00", logs=b"\x0a\x00", evaluations=1, measured=(measured(*MEASURES),))


def read(*bodies: bytes) -> dict[str, Metric]:
    request = ExportMetricsServiceRequest.FromString(b"".join(bodies))
    return {
        metric.name: metric
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


async def when(there: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not there():  # noqa: ASYNC110 - what is looked at has no event
            await asyncio.sleep(0.01)


def test_metrics_are_cumulative_and_their_exemplars_name_the_judged_span() -> None:
    metrics = ResultMetrics({"service.name": "onpath", "service.instance.id": "i-1"})
    assert metrics.collect() == (b"", 0)
    metrics.record([measured(*MEASURES)])
    metrics.collect()
    metrics.record([measured(*MEASURES)])
    body, count = metrics.collect()
    (later,) = read(metrics.collect()[0])["onpath.verdicts"].sum.data_points
    assert (later.as_int, list(later.exemplars)) == (2, [])
    found = read(body)
    assert (set(found), count) == (
        {"onpath.verdicts", "onpath.evaluations", "onpath.evaluation.score", "onpath.findings"},
        4,
    )
    (verdicts,) = found["onpath.verdicts"].sum.data_points
    assert verdicts.as_int == 2
    assert (
        found["onpath.verdicts"].sum.aggregation_temporality
        == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    (score,) = found["onpath.evaluation.score"].histogram.data_points
    assert tuple(score.explicit_bounds) == SCORE_BOUNDARIES
    for exemplar in (verdicts.exemplars[0], score.exemplars[0]):
        assert (exemplar.trace_id.hex(), exemplar.span_id.hex()) == (TRACE_ID, SPAN_ID)
    resource = ExportMetricsServiceRequest.FromString(body).resource_metrics[0].resource
    assert {a.key: a.value.string_value for a in resource.attributes}["service.instance.id"] == "i-1"


async def test_a_large_result_takes_no_others_with_it() -> None:
    sender = Kept()
    results = OtlpResults({"logs": forwarder(sender)})
    results.start()
    small, large = (replace(JUDGED, spans=b"", logs=b"\x0a" * size) for size in (10, 5 << 20))
    for each in (small, small, large, small):
        results.export(each)
    await results.close(asyncio.get_running_loop().time() + 10)
    assert [len(body) for body in sender.bodies] == [20, 5 << 20, 10]


def test_sums_are_what_the_sdks_instruments_count() -> None:
    scores = [0, 0.1, 0.55, 1 / 3, 0.99, 1.0, 1.0]
    more: list[Measure] = [(SCORE, value, ("refund", name)) for value in scores for name in ("seq", "plan")]
    found = [measured(*MEASURES), *map(measured, more), measured(*MEASURES), measured(*more * 5)]
    metrics = ResultMetrics({"service.name": "onpath"}, lambda: 5)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], Resource({"service.name": "onpath"}), shutdown_on_exit=False)
    metrics.record(found)
    Instruments(provider.get_meter(SCOPE_NAME, version())).record([point for one in found for point in one.points])
    ours = ExportMetricsServiceRequest.FromString(metrics.collect()[0])
    theirs = encode_metrics(reader.get_metrics_data())
    provider.shutdown()
    for message in (ours, theirs):
        for metric in message.resource_metrics[0].scope_metrics[0].metrics:
            for data in (*metric.sum.data_points, *metric.histogram.data_points):
                data.start_time_unix_nano = data.time_unix_nano = 0
                del data.exemplars[:]  # the SDK draws them by lot
    assert ours == theirs


async def test_metrics_leave_every_so_often_and_at_the_end() -> None:
    sender = Kept()
    results = OtlpResults({"metrics": forwarder(sender)}, ResultMetrics({}), 0.02)
    results.start()
    results.export(JUDGED)
    await when(lambda: len(sender.bodies) >= 2)
    results.export(replace(JUDGED, measured=(measured(*MEASURES, ("onpath.revised", 1, ("refund", "fail", "pass"))),)))
    await results.close(asyncio.get_running_loop().time() + 10)
    assert "onpath.revised" in read(sender.bodies[-1])
    sent = len(sender.bodies)
    await asyncio.sleep(0.05)
    assert len(sender.bodies) == sent


@pytest.mark.parametrize("reason", sorted(NO_SERVICE))
async def test_a_signal_without_a_service_is_off_with_one_line(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    senders = {"traces": Kept(), "logs": Kept(Failed(reason)), "metrics": Kept(Failed(reason))}
    results = OtlpResults(
        {
            "traces": forwarder(senders["traces"]),
            "logs": forwarder(senders["logs"]),
            "metrics": forwarder(senders["metrics"]),
        },
        ResultMetrics({}),
        0.02,
    )
    results.start()
    for _ in range(3):
        results.export(JUDGED)
        await when(lambda: all(sender.bodies for sender in senders.values()))
        await asyncio.sleep(0.25)  # longer than results are gathered
    await results.close(asyncio.get_running_loop().time() + 10)
    sent = {signal: len(sender.bodies) for signal, sender in senders.items()}
    assert (sent["traces"], sent["logs"]) == (3, 1)
    assert sent["metrics"] <= 2  # the next one may be on its way when the first is refused
    told = sorted(record.getMessage() for record in caplog.records)
    assert told == [
        f"results: the backend takes no OTLP {signal}; they are no longer sent there" for signal in ("logs", "metrics")
    ]
    assert results.dropped["logs"] == {"switched_off": 2}


async def test_another_refusal_is_told_and_does_not_switch_off(caplog: pytest.LogCaptureFixture) -> None:
    sender = Kept(Failed("http_400", "no"))
    results = OtlpResults({"logs": forwarder(sender)})
    results.start()
    for _ in range(2):
        results.export(JUDGED)
        await asyncio.sleep(0.25)
    await results.close(asyncio.get_running_loop().time() + 10)
    assert len(sender.bodies) == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_signal_that_is_not_wanted_is_not_sent_and_a_journal_hears_of_the_others() -> None:
    sender = Kept()
    results = OtlpResults({"traces": forwarder(sender)})
    called: list[str] = []
    results.when_sent(lambda: called.append("nothing yet"))
    results.start()
    results.export(JUDGED)
    results.when_sent(lambda: called.append("sent"))
    assert called == ["nothing yet"]
    await results.close(asyncio.get_running_loop().time() + 10)
    assert called == ["nothing yet", "sent"]
    assert len(sender.bodies) == 1
