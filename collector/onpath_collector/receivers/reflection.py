"""gRPC reflection: which services there are, for grpcurl and its like."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

import grpc
from grpc import StatusCode

from onpath_collector.receivers.streams import Streams, bounded

_SERVICE: Final = "grpc.reflection.v1alpha.ServerReflection"


class Reflection(grpc.GenericRpcHandler):
    """Loads what it needs when it is first asked: 3 MiB, for what few senders ever do."""

    def __init__(self, services: Iterable[str], allow: Callable[[str | bytes | None], bool]) -> None:
        """`allow` says whether a call with this `authorization` may be answered."""
        self._services = (*services, _SERVICE)
        self._allow = allow
        self._handler: grpc.RpcMethodHandler[Any, Any] | None = None

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        if handler_call_details.method != f"/{_SERVICE}/ServerReflectionInfo":
            return None
        if not self._allow(dict(handler_call_details.invocation_metadata or ()).get("authorization")):
            deny: Any = _deny  # the stubs know only the handlers of the synchronous server
            return grpc.stream_stream_rpc_method_handler(deny)
        if self._handler is None:
            self._handler = self._load()
        return self._handler

    def _load(self) -> grpc.RpcMethodHandler[Any, Any]:
        from grpc_reflection.v1alpha import _async, reflection_pb2

        servicer: Any = _async.ReflectionServicer(self._services)
        return grpc.stream_stream_rpc_method_handler(
            bounded(servicer.ServerReflectionInfo, Streams()),
            reflection_pb2.ServerReflectionRequest.FromString,
            reflection_pb2.ServerReflectionResponse.SerializeToString,
        )


async def _deny(_: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    await context.abort(StatusCode.UNAUTHENTICATED, "a bearer token is needed")
    yield b""  # never reached: it makes this a stream
