"""Connections without end, to a collector that may open few files: who was there is served, probes are answered."""

from __future__ import annotations

import os
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc

from tests.support.collector import ANY_PORTS, PORTS, READY
from tests.support.grpc_peers import METHODS
from tests.support.onpath import COMMAND
from tests.support.processes import Child
from tests.support.requests import traces
from tests.support.waiting import until

FILES = 256


@contextmanager
def with_few_files(kind: str) -> Iterator[tuple[Child, dict[str, str]]]:
    """`kind` is of the limit, for `ulimit`: -H can't be raised, -S can."""
    script = f"ulimit -S -n {FILES}" + (f"; ulimit -H -n {FILES}" if kind == "-H" else "")
    child = Child(["sh", "-c", f'{script}; exec "$@"', "sh", *COMMAND, "collector", *ANY_PORTS])
    try:
        yield child, dict(PORTS.findall(child.wait_for_line(READY).string))
    finally:
        assert child.stop() == 0


def silent(address: str, stack: ExitStack) -> None:
    """One more connection that says nothing, if it gets that far."""
    host, _, port = address.rpartition(":")
    connection = stack.enter_context(socket.socket())
    connection.setblocking(False)
    connection.connect_ex((host, int(port)))


def open_files(child: Child) -> int:
    return len(os.listdir(f"/proc/{child.pid}/fd"))


def answers(url: str, body: bytes | None = None) -> bool:
    request = urllib.request.Request(url, body, {"Content-Type": "application/x-protobuf"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return bool(answer.status == 200)


def is_well(address: str) -> bool:
    """A probe asks again."""
    try:
        return answers(f"http://{address}/healthz")
    except OSError:
        return False


def test_a_flood_of_connections_to_all_ports_harms_nobody_else() -> None:
    with with_few_files("-H") as (child, ports), ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(ports["OTLP/gRPC"]))
        export = channel.unary_unary(METHODS["traces"])
        export(traces(1), timeout=10)
        for _ in range(2 * FILES):
            for address in ports.values():
                silent(address, stack)
        until(lambda: is_well(ports["admin"]), lambda: "health")
        assert open_files(child) <= FILES - 16
        export(traces(2), timeout=10)
        assert answers(f"http://{ports['OTLP/HTTP']}/v1/traces", traces(3))
        assert len(child.lines) < 10, child.output


def test_where_more_files_may_be_opened_they_are() -> None:
    with with_few_files("-S") as (child, _):
        limits = Path(f"/proc/{child.pid}/limits").read_text(encoding="utf-8")
    (soft,) = re.findall(r"Max open files +(\d+)", limits)
    assert int(soft) > FILES
