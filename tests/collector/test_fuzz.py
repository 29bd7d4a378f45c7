"""Damaged requests into each decoder, for as long as a budget lasts: no crash, no hang, no memory beyond the limit.

    a sound request -> cut, spliced, flipped, repeated -> decoder -> a value, or one of the errors that it names

`make fuzz` gives each a minute, from a seed of its own; else the seed is the same each time. What fails is told with
its seed and bytes.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import resource
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from onpath_collector.otlp import DecodeError, at_once, decode, from_json, more_parts, split, splitting_logs
from onpath_collector.otlp.items import counting_points
from onpath_collector.receivers.base import Accepted, TooLarge
from onpath_collector.receivers.compression import Inflater
from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from tests.collector.test_hostile_requests import CONTENT, FRAMING
from tests.integration.test_golden_traces import REQUESTS
from tests.support import requests
from tests.support.consumers import KeepingConsumer
from tests.support.grpc_peers import raw_client
from tests.support.http_peers import RawConnection, raw_connection

SECONDS = float(os.environ.get("ONPATH_FUZZ_SECONDS", "0.5"))  # for each decoder
SEED = int(os.environ.get("ONPATH_FUZZ_SEED", "1"))
MEMORY = 256 << 20  # bytes that the process may grow by
LIMIT = 1 << 20  # of what is inflated

JSON_BODIES = [requests.as_json(body) for body in REQUESTS] + [text.encode() for _, text in CONTENT.values()]
ODD = (
    b"\x00",
    b"\xff" * 10,
    b"\x0a\x00",
    b"\x0a\xff\xff\xff\xff\x0f",
    b'"',
    b"{",
    b"[",
    b"\\u",
    b"-",
    b"e999",
    b"\r\n",
)


def damaged(draw: random.Random, sound: Sequence[bytes]) -> bytes:
    data = bytearray(draw.choice(sound))
    for _ in range(draw.randint(1, 6)):
        at, to = sorted((draw.randint(0, len(data)), draw.randint(0, len(data))))
        match draw.randrange(6):
            case 0:
                del data[at : min(to, at + 16)]
            case 1:
                data[at:at] = draw.choice(ODD) * draw.randint(1, 3)
            case 2:
                other = draw.choice(sound)
                data[at:to] = other[draw.randint(0, len(other)) :][:2000]
            case 3:
                data[at:at] = data[at:to][:500] * draw.randint(1, 4)
            case 4 if data:
                data[at - 1] ^= 1 << draw.randrange(8)
            case _:
                data[at : at + 4] = draw.randbytes(draw.randint(0, 8))
        del data[1 << 16 :]
    return bytes(data)


def fuzz(sound: Sequence[bytes], decoder: Callable[[bytes], object]) -> None:
    """Raises AssertionError, with what it takes to see the failure again."""
    draw = random.Random(SEED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        data = damaged(draw, sound)
        try:
            with suppress(DecodeError, TooLarge):
                decoder(data)
        except BaseException as error:
            raise AssertionError(f"seed {SEED}: {error!r} of {data!r}") from error
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    assert grown < MEMORY, f"seed {SEED}: {grown >> 20} MiB"


def traces(data: bytes) -> None:
    """What is in the chunks is what was sound, and can be decoded."""
    batch = split(data)
    for chunk in batch.chunks:
        spans, _ = decode([chunk.data])
        assert [bytes.fromhex(span.span_id) for span in spans] == [index[0] for index in chunk.spans]
    assert sum(len(chunk.spans) for chunk in batch.chunks) + batch.rejected.total() + batch.own == batch.spans


def logs(data: bytes) -> None:
    number, evidence = at_once(splitting_logs(data))
    assert sum(len(decode([], [each.data])[1]) for each in evidence) == sum(e.records for e in evidence) <= number


def points(data: bytes) -> None:
    at_once(counting_points(data))


def parts(data: bytes) -> None:
    for signal in ("traces", "metrics", "logs"):
        more_parts(signal, data, 1000)  # type: ignore[arg-type]


def json(data: bytes) -> None:
    for signal in ("traces", "metrics", "logs"):
        with suppress(DecodeError):
            traces(from_json(signal, data)) if signal == "traces" else from_json(signal, data)  # type: ignore[arg-type]


def inflate(data: bytes) -> None:
    assert len(asyncio.run(Inflater(LIMIT).inflate(data))) <= LIMIT


LOGS = [requests.logs(), requests.logs("x" * 1000), *REQUESTS[:5]]
METRICS = [requests.metrics(), *REQUESTS[:5]]
PACKED = [pack(body) for pack in (gzip.compress, zlib.compress) for body in (*REQUESTS[:3], bytes(4 * LIMIT))]
DECODERS = {
    "traces": (REQUESTS, traces),
    "logs": (LOGS, logs),
    "metrics": (METRICS, points),
    "weight": (REQUESTS, parts),
    "json": (JSON_BODIES, json),
    "compression": (PACKED, inflate),
}


@pytest.mark.parametrize("name", DECODERS)
def test_decoders(name: str) -> None:
    fuzz(*DECODERS[name])


class Faultless(KeepingConsumer):
    async def traces(self, request: bytes) -> Accepted:
        taken = await super().traces(request)
        self.kept.clear()
        return taken


async def test_http() -> None:
    receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0", read_timeout=0.2), Faultless())
    address = await receiver.start()
    draw, sound = random.Random(SEED), [request for _, request in FRAMING.values()]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        data = damaged(draw, sound)
        async with raw_connection(address) as connection:
            await sent(connection, data, draw)
    async with raw_connection(address) as connection:
        await connection.send(FRAMING["no body"][1])
        assert (await connection.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert not receiver.counts["traces"].failed["internal"], f"seed {SEED}"
    await receiver.stop()


async def sent(connection: RawConnection, data: bytes, draw: random.Random) -> None:
    cut = draw.randint(0, len(data))
    with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
        await connection.send(data[:cut])
        await asyncio.sleep(0)
        await connection.send(data[cut:])
        await connection.until(b"\r\n\r\n", 0.05)


async def test_grpc() -> None:
    receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0"), Faultless())
    draw, end = random.Random(SEED), time.monotonic() + SECONDS
    async with raw_client(await receiver.start()) as client:
        while time.monotonic() < end:
            data = damaged(draw, draw.choice([REQUESTS, PACKED]))
            reply = await client.send("traces", data)
            expected = ("OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")
            assert reply.code.name in expected, f"seed {SEED}: {reply} of {data!r}"
    await receiver.stop()
