"""The OpenTelemetry Collector, really built and run, in front of three gateways: deploy/otelcol.

Each run comes to one gateway, whole; when a gateway is killed and another one comes, under load, nothing is lost, and a
run that this has cut in two is unknown, never judged by a half. Sessions come to one gateway by their own key.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.collector import Result
from tests.support.gateways import Gateway, Sender, free_port
from tests.support.otelcol import DEPLOY, Balancer, Names, program
from tests.support.otlp_sink import OtlpSink
from tests.support.waiting import until

pytestmark = pytest.mark.peers

HOSTS = ("127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4")
REASONS = {"earlier_spans_gone", "incomplete", "incomplete_trace"}
LAG = 9  # seconds: the Collector looks every 2 s at a file of names that it has read up to 5 s ago


class Fleet:
    """Three gateways behind the Collector, under one name."""

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        lag: int,
        *over: Path,
        buffer: str = "",
        fixed: bool = False,
    ) -> None:
        collector = program()
        self.names = Names(folder)
        self.port = free_port(HOSTS)
        settings = f"gateway: {{members: {Names.NAME}, interval: 500ms, lag: {lag}s}}\nbuffer: {{{buffer}}}\n"
        self.gateways = [
            Gateway(folder / f"gateway-{n}", self.names, stack.enter_context(OtlpSink()), settings) for n in range(3)
        ]
        self.running = [
            stack.enter_context(gateway.start(host, self.port))
            for gateway, host in zip(self.gateways, HOSTS, strict=False)
        ]
        self.names.point_to(HOSTS[:3])
        for gateway in self.running:
            gateway.process.wait_for_line("and are 3")
        hosts = HOSTS[:3] if fixed else ()
        self.balancer = stack.enter_context(Balancer(collector, self.names, self.port, *over, hosts=hosts))
        until(lambda: self.balancer.counted("otelcol_loadbalancer_num_backends") == 3, lambda: "three backends")

    def results(self) -> list[Result]:
        return [result for gateway in self.gateways for result in gateway.results]

    def wait_for_verdicts(self, traces: set[str]) -> None:
        def unjudged() -> set[str]:
            return traces - {trace for gateway in self.gateways for trace in gateway.lives.judged}

        until(lambda: not unjudged(), lambda: f"verdicts of {len(unjudged())} of {len(traces)} traces", 90)

    def assert_nothing_lost(self, sender: Sender) -> None:
        assert self.balancer.counted("otelcol_exporter_send_failed_spans_total") == 0
        assert self.balancer.counted("otelcol_exporter_enqueue_failed_spans_total") == 0
        there = {(bytes.fromhex(t), span) for g in self.gateways for t, spans in g.spans().items() for span in spans}
        assert not sender.acknowledged - there, f"{len(sender.acknowledged - there)} spans are not downstream"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def assert_never_wrong(results: list[Result], sender: Sender) -> None:
    """Also no revision of a verdict was."""
    for result in results:
        right = "fail" if result["trace_id"] in sender.skips else "pass"
        assert result["verdict"] in (right, "unknown"), f"{right} is right: {result}"


@pytest.mark.parametrize(
    "names",
    [
        ("gateway",),
        ("gateway", "sessions"),
        ("gateway", "static"),
        ("forward",),
        ("forward", "tail_sampling"),
        ("forward", "groupbytrace"),
    ],
    ids="+".join,
)
def test_a_configuration_is_valid(names: tuple[str, ...]) -> None:
    gateways = "[a:4317, b:4317]" if "static" in names else "a"
    env = {**os.environ, "ONPATH_GATEWAYS": gateways, "DOWNSTREAM": "127.0.0.1:4317"}
    command = [str(program()), "validate", *(f"--config={DEPLOY / name}.yaml" for name in names)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_every_trace_is_judged_once_and_whole(tmp_path: Path, stack: ExitStack) -> None:
    fleet = Fleet(tmp_path, stack, lag=0)
    with Sender(fleet.balancer.address, rate=60) as sender:
        time.sleep(10)
    fleet.balancer.wait_until_sent()
    fleet.wait_for_verdicts(set(sender.began))
    fleet.assert_nothing_lost(sender)
    assert_never_wrong(fleet.results(), sender)
    assert Counter(r["trace_id"] for r in fleet.results()) == Counter(list(sender.began)), "each has one result"
    assert {r["verdict"] for r in fleet.results()} == {"pass", "fail"}, "none is unknown"
    places = [gateway.spans() for gateway in fleet.gateways]
    assert all(places), "each gateway has some"
    assert sum(map(len, places)) == len(sender.began), "none is in two places"
    print(f"{len(sender.began)} traces, by gateway: {[len(place) for place in places]}")


def test_one_gateway_is_killed_and_one_is_added_under_load(tmp_path: Path, stack: ExitStack) -> None:
    fleet = Fleet(tmp_path, stack, lag=LAG)
    time.sleep(LAG)
    with Sender(fleet.balancer.address, rate=40) as sender:
        time.sleep(5)
        fleet.running[1].kill()
        time.sleep(2)  # until somebody notices
        fleet.names.point_to([HOSTS[0], HOSTS[2]])
        time.sleep(8)
        fleet.running[1] = stack.enter_context(fleet.gateways[1].start(HOSTS[3], fleet.port))  # on the same journal
        added_at = time.time()
        fleet.names.point_to([HOSTS[0], HOSTS[2], HOSTS[3]])
        time.sleep(LAG + 8)
    fleet.balancer.wait_until_sent()
    fleet.wait_for_verdicts(set(sender.began))
    fleet.assert_nothing_lost(sender)
    assert_never_wrong(fleet.results(), sender)
    settled = [trace for trace, at in sender.began.items() if at > added_at + LAG + 4]
    assert settled
    assert {r["verdict"] for r in fleet.results() if r["trace_id"] in settled} == {"pass", "fail"}, "none is unknown"
    split = split_traces(fleet, sender)
    assert split, "some trace was cut"
    for result in fleet.results():
        if result["trace_id"] in split:
            assert result["verdict"] == "unknown", f"it was cut in two: {result}"
            assert {e["reason"] for e in result["evaluations"]} <= {
                "earlier_spans_gone",
                "incomplete",
                "incomplete_trace",
            }
    stop_and_count(fleet, sender, len(split))


def test_of_a_fixed_list_one_is_killed_and_comes_back(tmp_path: Path, stack: ExitStack) -> None:
    """What is its own waits for it: no run is cut between two gateways."""
    fleet = Fleet(tmp_path, stack, LAG, DEPLOY / "static.yaml", fixed=True)
    time.sleep(LAG + 1)
    with Sender(fleet.balancer.address, rate=40) as sender:
        time.sleep(5)
        fleet.running[1].kill()
        time.sleep(3)
        fleet.running[1] = stack.enter_context(fleet.gateways[1].start(HOSTS[1], fleet.port))
        time.sleep(LAG + 8)
    fleet.balancer.wait_until_sent()
    fleet.wait_for_verdicts(set(sender.began))
    fleet.assert_nothing_lost(sender)
    assert_never_wrong(fleet.results(), sender)
    assert not split_traces(fleet, sender)
    whole = [gateway for gateway in fleet.gateways if gateway is not fleet.gateways[1]]
    assert {result["verdict"] for gateway in whole for result in gateway.results} == {"pass", "fail"}, "none is unknown"
    stop_and_count(fleet, sender, 0)


def split_traces(fleet: Fleet, sender: Sender) -> set[str]:
    """Those of which no gateway has all spans."""
    places = [gateway.spans() for gateway in fleet.gateways]
    sizes = Counter(trace_id.hex() for trace_id, _ in sender.acknowledged)
    return {trace for trace, size in sizes.items() if all(len(place.get(trace, ())) < size for place in places)}


def stop_and_count(fleet: Fleet, sender: Sender, split: int) -> None:
    """Stops them all. What each says of itself is what came to it; together that is what was sent."""
    for collector in fleet.running:
        collector.__exit__(None, None, None)
    received = 0
    for gateway, collector in zip(fleet.gateways, fleet.running, strict=True):
        spans = sum(span.name.startswith(("execute_tool", "invoke_agent")) for span in gateway.sink.spans())
        received += spans
        assert gateway.lives.judged == set(gateway.spans()), "each has judged what came to it"
        if gateway is not fleet.gateways[1]:
            assert collector.ledger["traces_judged"] == len(gateway.spans())
            assert collector.ledger["spans_received"] == spans
    again = received - len(sender.acknowledged)
    assert again > 0, "the Collector sent some spans again, and that changed nothing"
    verdicts = Counter(result["verdict"] for result in fleet.results())
    print(f"{len(sender.began)} traces, {split} cut in two, {again} spans sent again; results: {dict(verdicts)}")


def test_sessions_come_to_one_gateway_by_their_own_key(tmp_path: Path, stack: ExitStack) -> None:
    idle = 4
    buffer = f"group_by: session.id, session_idle: {idle}s"
    fleet = Fleet(tmp_path, stack, 0, DEPLOY / "sessions.yaml", buffer=buffer)
    time.sleep(idle + 1)  # those that open before may have begun elsewhere
    with Sender(fleet.balancer.address, rate=30, session_of=3) as sender:
        time.sleep(6)
    fleet.balancer.wait_until_sent()
    until(lambda: len(fleet.results()) >= len(sender.sessions), lambda: "verdicts")
    fleet.assert_nothing_lost(sender)
    sizes = Counter(trace_id.hex() for trace_id, _ in sender.acknowledged)
    whole = {session: sum(sizes[trace] for trace in traces) for session, traces in sender.sessions.items()}
    found = [(result["session"], result["coverage"]["spans"]) for result in fleet.results()]
    assert sorted(found) == sorted(whole.items()), "each has one result, of all its spans"
    assert {result["verdict"] for result in fleet.results()} <= {"pass", "fail"}
    places = [gateway.spans() for gateway in fleet.gateways]
    assert sum(bool(place) for place in places) > 1, "more than one gateway has some"
    print(f"{len(whole)} sessions of {len(sizes)} traces, traces by gateway: {[len(place) for place in places]}")
