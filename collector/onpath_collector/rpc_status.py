"""google.rpc.Status as OTLP uses it: the hint when to come back, written for senders and read from downstreams.

OTLP puts RetryInfo into the Status in `grpc-status-details-bin`; the OpenTelemetry Python exporter reads only a
`google.rpc.retryinfo-bin` of its own. Both are written, either is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

DETAILS_KEY: Final = "grpc-status-details-bin"
RETRY_INFO_KEY: Final = "google.rpc.retryinfo-bin"
MAX_RETRY_AFTER: Final = 3.0  # seconds: the OpenTelemetry Python exporter gives up after 10 s altogether

Metadata = tuple[tuple[str, str | bytes], ...]


def retry_info(seconds: float) -> RetryInfo:
    nanoseconds = round(min(max(seconds, 0.0), MAX_RETRY_AFTER) * 1e9)
    return RetryInfo(retry_delay=Duration(seconds=nanoseconds // 10**9, nanos=nanoseconds % 10**9))


def status(code: int, message: str, retry_after: float | None = None) -> Status:
    """`code` is a gRPC status code's number; `retry_after` in seconds is cut to MAX_RETRY_AFTER."""
    result = Status(code=code, message=message)
    if retry_after is not None:
        result.details.add().Pack(retry_info(retry_after))
    return result


def trailing_metadata(code: int, message: str, retry_after: float | None = None) -> Metadata:
    """What a gRPC answer carries beside its code: the Status, and the RetryInfo again where Python looks for it."""
    details = (DETAILS_KEY, status(code, message, retry_after).SerializeToString())
    if retry_after is None:
        return (details,)
    return (details, (RETRY_INFO_KEY, retry_info(retry_after).SerializeToString()))


def retry_delay(metadata: Iterable[tuple[str, str | bytes]] | None) -> float | None:
    """Seconds a gRPC answer asks to wait, from either place; None without a readable hint."""
    for key, value in metadata or ():
        try:
            if key == RETRY_INFO_KEY and isinstance(value, bytes):
                return _seconds(RetryInfo.FromString(value))
            if key == DETAILS_KEY and isinstance(value, bytes):
                found = status_retry_delay(Status.FromString(value))
                if found is not None:
                    return found
        except DecodeError:
            continue  # another's malformed metadata is no hint
    return None


def status_retry_delay(answer: Status) -> float | None:
    """Seconds a Status asks to wait; None without a RetryInfo."""
    for detail in answer.details:
        info = RetryInfo()
        if detail.Unpack(info):
            return _seconds(info)
    return None


def _seconds(info: RetryInfo) -> float:
    return max(0.0, info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
