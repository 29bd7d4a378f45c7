"""The downstream as one call: a request's bytes out, what became of them back.

Downstream (settings) -> connect -> Sender.send(bytes) -> Delivered | Retry | Failed
"""

import re
from typing import Final

from onpath_collector.downstream.base import Delivered, Downstream, Failed, Outcome, Retry, Sender, Signal, TlsSettings
from onpath_collector.downstream.endpoint import Endpoint, is_own_endpoint, parse_endpoint
from onpath_collector.downstream.otlp_grpc import GrpcSender

__all__ = [
    "Delivered",
    "Downstream",
    "Endpoint",
    "Failed",
    "GrpcSender",
    "Outcome",
    "Retry",
    "Sender",
    "Signal",
    "TlsSettings",
    "connect",
    "is_own_endpoint",
    "parse_endpoint",
]

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+(?<!-bin)")  # gRPC's: fewer than HTTP's; -bin would be binary
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]*")


def connect(downstream: Downstream, signal: Signal) -> Sender:
    """The sender for a signal. Nothing is sent yet. Raises ValueError for an endpoint or a header that cannot be,
    OSError for a certificate file that cannot be read."""
    endpoint = parse_endpoint(downstream.endpoint)
    for name, value in downstream.headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise ValueError(f"the header {name!r} has a name or value that cannot be sent")
    if downstream.protocol not in (None, endpoint.protocol) and not endpoint.scheme.startswith("http"):
        raise ValueError(f"{downstream.endpoint!r} is not for OTLP over HTTP: write http:// or https://")
    if (downstream.protocol or endpoint.protocol) == "grpc":
        if endpoint.path:
            raise ValueError(f"{downstream.endpoint!r} has a path, which OTLP over gRPC has no use for")
        return GrpcSender(downstream, signal)
    from onpath_collector.downstream.otlp_http import HttpSender  # aiohttp is only for those who need it

    return HttpSender(downstream, signal)
