"""Decompression that a sender cannot abuse: never more output than the limit, and large output off the event loop.

gRPC and HTTP libraries inflate a request before anyone can say how large it may become, so receivers turn that off
and inflate here.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Any, Final

from onpath_collector.otlp import DecodeError
from onpath_collector.receivers.base import TooLarge

_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32  # tells the two apart by their headers
_STEP: Final = 1 << 20  # bytes of output at a time: on the loop, a few milliseconds


def is_compressed(message: bytes) -> bool:
    """Whether a gRPC message starts like a gzip or zlib stream, which no OTLP request does.

    A gzip stream's first byte is no valid protobuf tag; that of a zlib stream would be field 15 and the whole
    two-byte header is asked for.
    """
    return message[:2] == b"\x1f\x8b" or (
        message[:1] == b"\x78" and len(message) > 2 and int.from_bytes(message[:2], "big") % 31 == 0
    )


class Inflater:
    """Inflates one large stream at a time, so that many at once cost the memory of one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._one = asyncio.Semaphore(1)

    async def inflate(self, data: bytes) -> bytes:
        """The whole content of one gzip or zlib stream. Raises TooLarge, DecodeError."""
        stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            content: bytes | None = stream.decompress(data, min(_STEP, self._limit + 1))
            if stream.unconsumed_tail:
                async with self._one:
                    content = await asyncio.to_thread(_finish, stream, content or b"", self._limit)
        except zlib.error as error:
            raise DecodeError(f"the request does not decompress: {error}") from error
        if content is None or len(content) > self._limit:
            raise TooLarge(f"larger than {self._limit} bytes after decompression")
        if not stream.eof:
            raise DecodeError("the compressed request is cut short")
        if stream.unused_data:
            raise DecodeError("there are bytes after the compressed request")
        return content


def _finish(stream: Any, start: bytes, limit: int) -> bytes | None:
    """`start` and what follows; None, and nothing kept, once that is over the limit."""
    parts, size = [start], len(start)
    while stream.unconsumed_tail and size <= limit:
        part = stream.decompress(stream.unconsumed_tail, _STEP)
        parts.append(part)
        size += len(part)
    if size > limit:
        parts.clear()
        return None
    return b"".join(parts)
