"""Serialised spans that are kept for a while, compressed: small runs together, a large one piece by piece.

`Packed` is what one run has; it starts with the chunks as they came and ends as a part of a `Block` or as a `Stream`.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

_LEVEL: Final = 1  # spans repeat themselves: an eighth is left at 300 MB/s, higher levels gain little
_SMALL: Final = 16 << 10  # bytes of a run that is compressed together with others


class Block:
    """Serialised spans of several small runs, compressed together: one agent's runs repeat each other."""

    __slots__ = ("_data", "_length")

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._data = zlib.compress(b"".join(parts), _LEVEL)
        self._length = sum(map(len, parts))

    def share(self, part: bytes) -> int:
        """Bytes that a part takes in here, about."""
        return len(self._data) * len(part) // max(1, self._length)

    def read(self, start: int, end: int) -> bytes:
        return zlib.decompress(self._data)[start:end]


class Stream:
    """Serialised spans of a large run, compressed piece by piece."""

    __slots__ = ("_at", "_chunks", "_compressor", "_done", "_pieces", "size")

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = deque(chunks)  # not yet compressed ...
        self._at = 0  # ... but for this much of the first of them
        self._pieces: list[bytes] = []
        self._compressor: zlib._Compress | None = None  # takes a quarter of a megabyte while it works
        self._done = False
        self.size = sum(map(len, self._chunks))

    def squeeze(self, budget: int) -> int:
        """Compresses up to `budget` bytes; how many that were, 0 when all is compressed."""
        done = 0
        while not self._done and done < budget:
            if self._compressor is None:
                self._compressor = zlib.compressobj(_LEVEL)
            if not self._chunks:
                self._finish()
                break
            chunk = self._chunks[0]
            piece = memoryview(chunk)[self._at : self._at + budget - done]
            self._add(self._compressor.compress(piece))
            self._at += len(piece)
            done += len(piece)
            if self._at == len(chunk):
                self._chunks.popleft()
                self._at = 0
                self.size -= len(chunk)
        return done

    def _finish(self) -> None:
        if self._compressor is not None:
            self._add(self._compressor.flush())
            self._compressor = None
        self._done = True

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size += len(piece)

    def read(self) -> bytes:
        """What was put in. Ends the compressing."""
        self._finish()
        start = zlib.decompress(b"".join(self._pieces)) if self._pieces else b""
        return start + b"".join(self._chunks)[self._at :]


class Packed:
    """Serialised spans of one run: as they are, or joined (as OTLP messages of one kind may be) and compressed."""

    __slots__ = ("_chunks", "_place", "_stream", "size")

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks: Sequence[bytes] = chunks
        self._place: tuple[Block, int, int] | None = None
        self._stream: Stream | None = None
        self.size = sum(map(len, chunks))

    @property
    def is_small(self) -> bool:
        """Whether it goes into a block with others."""
        return self.size <= _SMALL and self._stream is None

    def joined(self) -> bytes:
        return b"".join(self._chunks)

    def put_into(self, block: Block, start: int, data: bytes) -> None:
        self._place = (block, start, start + len(data))
        self._chunks = ()
        self.size = block.share(data)

    def squeeze(self, budget: int) -> int:
        """Compresses up to `budget` bytes of a run by itself; how many that were, 0 when all is compressed."""
        if self._stream is None:
            self._stream = Stream(self._chunks)
            self._chunks = ()
        done = self._stream.squeeze(budget)
        self.size = self._stream.size
        return done

    def chunks(self) -> list[bytes]:
        """What was put in; one chunk once it is compressed."""
        if self._place is not None:
            block, start, end = self._place
            return [block.read(start, end)]
        return list(self._chunks) if self._stream is None else [self._stream.read()]
