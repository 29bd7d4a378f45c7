"""What OTLP/HTTP answers: the message of a success, the table of errors, each in the encoding of the request."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from grpc import StatusCode

from onpath_collector.http_server import Answer, Headers
from onpath_collector.otlp import DecodeError
from onpath_collector.receivers.base import Accepted, Refused, Signal, TooLarge, Unauthenticated
from onpath_collector.receivers.responses import response
from onpath_collector.rpc_status import MAX_RETRY_AFTER, status

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"


class NotServed(Exception):
    """Nothing here takes such a request: 404, 405 or 415. `reason` is a label of the counter."""

    def __init__(self, number: int, reason: str, message: str, headers: Mapping[str, str]) -> None:
        super().__init__(message)
        self.number = number
        self.reason = reason
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Encoding:
    """How messages are written to this sender."""

    content_type: str
    encode: Callable[[Message], bytes]
    nothing: bytes  # an empty message


def _protobuf(message: Message) -> bytes:
    return message.SerializeToString()


def _json(message: Message) -> bytes:
    return MessageToJson(message, indent=None).encode()


_ENCODINGS: Final = {PROTOBUF: Encoding(PROTOBUF, _protobuf, b""), JSON: Encoding(JSON, _json, b"{}")}


def encoding_of(headers: Headers) -> Encoding:
    """That of the request; JSON when it has neither: a person may be reading."""
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return _ENCODINGS.get(media.decode("latin-1"), _ENCODINGS[JSON])


def success(signal: Signal, accepted: Accepted, encoding: Encoding) -> Answer:
    told = response(signal, accepted)
    return Answer(200, encoding.nothing if told is None else encoding.encode(told), encoding.content_type)


def reason(error: Exception) -> str:
    """The label of the counter of failed requests; `internal` is a fault of our own."""
    if isinstance(error, NotServed):
        return error.reason
    known = {TooLarge: "too_large", DecodeError: "undecodable", Unauthenticated: "unauthenticated"}
    return known.get(type(error), "internal")


def failure(error: Exception, encoding: Encoding) -> Answer:
    """OTLP's table of errors for HTTP."""
    headers: Mapping[str, str] = {}
    message, hint = str(error), None
    match error:
        case Refused():
            number, code, hint = 503, StatusCode.UNAVAILABLE, error.retry_after
            message = f"not now ({error.reason}), come back later"
            headers = {"retry-after": str(max(1, math.ceil(min(hint, MAX_RETRY_AFTER))))}
        case NotServed():
            number, code, headers = error.number, StatusCode.UNIMPLEMENTED, error.headers
        case Unauthenticated():
            number, code, headers = 401, StatusCode.UNAUTHENTICATED, {"www-authenticate": "Bearer"}
        case TooLarge():
            number, code = 413, StatusCode.RESOURCE_EXHAUSTED
        case DecodeError():
            number, code = 400, StatusCode.INVALID_ARGUMENT
        case _:
            number, code, message = 500, StatusCode.INTERNAL, "the collector failed on this request"
    body = encoding.encode(status(code.value[0], message, hint))
    return Answer(number, body, encoding.content_type, headers)
