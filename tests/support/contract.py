"""What any OTLP receiver must keep to, whatever its transport: a checker that a receiver and a client are run through.

    check(client, kept) : senders, several at once -> client -> receiver -> whatever keeps what it took

A sender behaves as OTLP asks: accepted is done, permanent is given up, retryable is sent again until accepted. At the
end each acknowledged item is kept exactly once, and none that was not acknowledged. What keeps them is a consumer that
answers as the mode says, or the downstream of a whole collector, which is made to answer so by what it is sent.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath_collector.otlp import DecodeError
from onpath_collector.receivers.base import Refused
from tests.support.consumers import KeepingConsumer
from tests.support.requests import span_id, span_ids, traces

Kind = Literal["accepted", "retryable", "permanent"]
Mode = Literal["success", "partial", "permanent", "retryable", "mixed"]
MODES: tuple[Mode, ...] = ("success", "partial", "permanent", "retryable", "mixed")
SPANS = 3  # of each request


@dataclass(frozen=True)
class Answer:
    """What a client made of the receiver's answer. `wait` is what a retryable one asks for, in seconds."""

    kind: Kind
    rejected: int = 0
    wait: float | None = None


Send = Callable[[bytes], Awaitable[Answer]]


@dataclass
class _Senders:
    acknowledged: list[int] = field(default_factory=list)
    given_up: list[int] = field(default_factory=list)
    rejected: int = 0
    answers: Counter[Kind] = field(default_factory=Counter)

    async def deliver(self, send: Send, number: int, request: bytes) -> None:
        while True:
            answer = await send(request)
            self.answers[answer.kind] += 1
            if answer.kind == "accepted":
                self.acknowledged.append(number)
                self.rejected += answer.rejected
                return
            if answer.kind == "permanent":
                self.given_up.append(number)
                return
            assert answer.wait is not None, "a retryable answer must say when to come back"
            assert 0 < answer.wait <= 3, f"a wait of {answer.wait} s"
            await asyncio.sleep(0)  # the wait itself is the exporters' tests


def consumer(mode: Mode, seed: int = 1) -> KeepingConsumer:
    """Answers each request at random among what the mode allows, whatever it answered before."""
    draw = random.Random(seed)
    choices: dict[Mode, list[Exception | None]] = {
        "success": [None],
        "partial": [None],
        "permanent": [DecodeError("told to")],
        "retryable": [None, Refused("queue_full", 0.5), Refused("memory", 2.0)],
        "mixed": [None, None, Refused("queue_full", 0.5), DecodeError("told to"), RuntimeError("a fault, told to")],
    }
    return KeepingConsumer(lambda _: draw.choice(choices[mode]))


class Kept(Protocol):
    def requests(self) -> list[bytes]:
        """What was taken and has arrived, as it came."""
        ...


async def nothing() -> None:
    """What there is to wait for where what is taken has arrived."""


async def check(
    send: Send,
    kept: Kept,
    mode: Mode,
    *,
    requests: int = 60,
    senders: int = 6,
    spoil: Callable[[int, bytes], bytes] = lambda number, body: body,
    arrived: Callable[[], Awaitable[None]] = nothing,
) -> list[int]:
    """Runs requests through `send` to a receiver in front of `kept`, `consumer(mode)` for one; those acknowledged.

    `spoil` may make a request, given its number, one that is to be refused for good. Each is a trace of its number.
    """
    state = _Senders()
    sound = {n: _request(n, broken=mode in ("partial", "mixed") and n % 2 == 0) for n in range(1, requests + 1)}
    bodies = {n: spoil(n, body) for n, body in sound.items()}
    waiting = list(bodies.items())

    async def sender() -> None:
        while waiting:
            await state.deliver(send, *waiting.pop(0))

    await asyncio.gather(*(sender() for _ in range(senders)))
    await arrived()
    assert sorted(state.acknowledged + state.given_up) == sorted(bodies)
    got = Counter(identifier for request in kept.requests() for identifier in span_ids(request))
    expected = Counter(identifier for n in state.acknowledged for identifier in span_ids(bodies[n]))
    assert got == expected, "an acknowledged item was lost, one came twice, or one that was refused is there"
    assert sorted(kept.requests()) == sorted(bodies[n] for n in state.acknowledged), "not byte for byte"
    _check_answers(state, mode, requests)
    assert state.rejected == sum(1 for n in state.acknowledged if bodies[n] != _request(n, broken=False))
    return state.acknowledged


def _check_answers(state: _Senders, mode: Mode, requests: int) -> None:
    if mode in ("success", "partial"):
        assert state.answers == {"accepted": requests}
    elif mode == "permanent":
        assert state.answers == {"permanent": requests}
    elif mode == "retryable":
        assert state.answers.keys() == {"accepted", "retryable"}
        assert state.answers["accepted"] == requests
    else:
        assert state.answers.keys() == {"accepted", "retryable", "permanent"}


def _request(number: int, *, broken: bool) -> bytes:
    """Spans of no other request; `broken` gives one of them a wrong trace id."""
    good = traces(*range(number * SPANS, (number + 1) * SPANS), trace=number)
    if not broken:
        return good
    request = ExportTraceServiceRequest.FromString(good)
    spans = request.resource_spans[0].scope_spans[0].spans
    assert spans[1].span_id == span_id(number * SPANS + 1)
    spans[1].trace_id = bytes(16)
    return request.SerializeToString()
