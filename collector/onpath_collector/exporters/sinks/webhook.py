"""Webhook: each result as it stands in the report file, one POST a result, signed.

`X-Onpath-Signature: t=UNIX,v1=HEX`, where HEX is the HMAC-SHA256 of `UNIX.BODY` under ONPATH_WEBHOOK_SECRET: who gets
it makes the same sum, compares in constant time, and refuses a time too long ago. `X-Onpath-Key` is the same for all
revisions of a result.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import Any

from onpath.results import json_text
from onpath_collector.downstream.base import Delivered, Outcome
from onpath_collector.exporters.sinks.base import Http, Scored, Target


class Webhook:
    """Needs a url and ONPATH_WEBHOOK_SECRET. `clock` is seconds since the Unix epoch."""

    def __init__(self, target: Target, clock: Callable[[], float] = time.time) -> None:
        self.url = target.url()
        (secret,) = target.required("ONPATH_WEBHOOK_SECRET")
        self.headers: Mapping[str, str] = {}
        self._secret = secret.encode()
        self._clock = clock

    def holds(self, evaluation: Mapping[str, Any]) -> bool:
        return True

    async def send(self, http: Http, scored: Scored) -> Outcome:
        body = scored.line.encode("utf-8", "replace")
        headers = {
            "X-Onpath-Signature": signature(self._secret, int(self._clock()), body),
            "X-Onpath-Key": _key(scored),
        }
        reply = await http.call("POST", "", body, headers)
        return Delivered() if 200 <= reply.status < 300 else reply.outcome  # in whatever words


def signature(secret: bytes, at: int, body: bytes) -> str:
    """The header's value for a body sent `at` seconds since the Unix epoch."""
    return f"t={at},v1={hmac.new(secret, b'%d.' % at + body, hashlib.sha256).hexdigest()}"


def _key(scored: Scored) -> str:
    return hashlib.sha256(json_text([*scored.identity, ""]).encode("utf-8", "surrogatepass")).hexdigest()[:32]
