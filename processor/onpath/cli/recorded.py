"""Recordings in batches that can be judged one by one, so that neither memory nor cores are bound to their size.

Data flow: files -> surveyed once for the trace ids in them -> `Plan`: batches of about a megabyte, each with the ids of
its traces that go on in another one -> `Batch`, read when its turn has come. The ids are looked for in the text, which
is fast; what they are good for is checked when the batches have been read (`Plan.is_alone`).
"""

from __future__ import annotations

import gzip
import re
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from typing import IO, BinaryIO, Final, cast

from onpath.recordings import GZIP, STDIN, Recording, RecordingError, are_lines, is_json, read_bytes, read_lines

BATCH: Final = 1 << 20  # bytes
_IN_MEMORY: Final = 32 << 20  # bytes of standard input; of more there is a copy on disk
_TRACE_ID: Final = re.compile(rb'"traceId"\s*:\s*"([0-9a-fA-F]{32})"')


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a recording: whole lines from number `line` on, or with None all of it. `file`: where it lies."""

    name: str
    file: str | None
    line: int | None
    data: bytes

    def read(self) -> Recording:
        """Raises RecordingError."""
        return read_bytes(self.data, self.name) if self.line is None else read_lines(self.data, self.name, self.line)


@dataclass(frozen=True, slots=True)
class Batch:
    """`shared`: the ids of traces that may also stand in other batches."""

    number: int
    parts: tuple[Part, ...]
    shared: frozenset[str]
    size: int


class Source:
    """One file, as often as one wants to read it. What can be read only once is copied."""

    def __init__(self, path: str, copies: ExitStack) -> None:
        """Raises OSError."""
        self.file = None if path == STDIN else path
        self.name = path if self.file else "standard input"
        self._copy: IO[bytes] | None = None
        if self.file is None:
            self._keep(sys.stdin.buffer, copies)
        elif not stat.S_ISREG(Path(path).stat().st_mode):
            with open(path, "rb") as once:
                self._keep(once, copies)

    def _keep(self, once: IO[bytes], copies: ExitStack) -> None:
        self._copy = copies.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115 - it is one
        copyfileobj(once, self._copy, BATCH)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Its content, without compression. Raises OSError, and RecordingError for damaged gzip."""
        with ExitStack() as stack:
            file = self._copy or stack.enter_context(open(self.name, "rb"))
            file.seek(0)
            start = file.read(len(GZIP))
            file.seek(0)
            if start == GZIP:
                file = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=file)))
            try:
                yield cast(BinaryIO, file)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise RecordingError(f"{self.name}: damaged gzip: {error}") from None


@dataclass(frozen=True, slots=True)
class _Piece:
    """Where a part lies in its source."""

    source: Source
    offset: int
    size: int
    line: int | None


class Plan:
    """Which stretches of which files make a batch. The files must stay as they are while it is used."""

    def __init__(self, sources: Sequence[Source], batch_size: int = BATCH) -> None:
        """Raises OSError and RecordingError."""
        self._batches: list[list[_Piece]] = []
        self._first: dict[str, int] = {}  # trace id to the batch that names it, the first where there are several
        self.holders: dict[str, set[int]] = {}  # trace id to batches, where there are several
        room = 0
        for source in sources:
            for piece, ids in _pieces(source, batch_size):
                if room <= 0:
                    self._batches.append([])
                    room = batch_size
                self._batches[-1].append(piece)
                room -= piece.size
                if ids is None:
                    ids = _ids_in(piece) if len(sources) > 1 else set()
                self._note(ids)
        self._shared: list[set[str]] = [set() for _ in self._batches]
        for trace_id, numbers in self.holders.items():
            for number in numbers:
                self._shared[number].add(trace_id)

    def _note(self, ids: Iterable[str]) -> None:
        here = len(self._batches) - 1
        for trace_id in ids:
            first = self._first.setdefault(trace_id, here)
            if first != here:
                self.holders.setdefault(trace_id, {first}).add(here)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def size(self) -> int:
        """Bytes of all batches together."""
        return sum(piece.size for pieces in self._batches for piece in pieces)

    def is_alone(self, trace_id: str, number: int) -> bool:
        """Whether that batch, and no other, was seen to name the trace."""
        return len(self) == 1 or (self._first.get(trace_id) == number and trace_id not in self.holders)

    def batches(self) -> Iterator[Batch]:
        """Raises OSError and RecordingError."""
        with _Reader() as reader:
            for number, pieces in enumerate(self._batches):
                yield Batch(
                    number=number,
                    parts=tuple(map(reader.part, pieces)),
                    shared=frozenset(self._shared[number]),
                    size=sum(piece.size for piece in pieces),
                )

    def whole(self) -> Batch:
        """All as one batch, in which no trace can be but whole."""
        parts = tuple(part for batch in self.batches() for part in batch.parts)
        return Batch(number=0, parts=parts, shared=frozenset(), size=self.size)


class _Reader(ExitStack):
    """Reads pieces in order, and keeps the file of the last one open."""

    _source: Source | None = None
    _file: BinaryIO

    def part(self, piece: _Piece) -> Part:
        if piece.source is not self._source:
            self.close()
            self._file = self.enter_context(piece.source.open())
            self._source = piece.source
        self._file.seek(piece.offset)
        return Part(piece.source.name, piece.source.file, piece.line, self._file.read(piece.size))


def _pieces(source: Source, batch_size: int) -> Iterator[tuple[_Piece, set[str] | None]]:
    """What lies in a source, and the trace ids that it names, where these can be seen without reading it."""
    with source.open() as file:
        lines = are_lines(file)
        file.seek(0)
        if not lines:
            data = file.read()
            yield _Piece(source, 0, len(data), None), _ids_in_text(data) if is_json(data) else None
            return
        offset, line = 0, 1
        while data := file.read(batch_size):
            data += file.readline()
            yield _Piece(source, offset, len(data), line), _ids_in_text(data)
            offset += len(data)
            line += data.count(b"\n")


def _ids_in_text(data: bytes) -> set[str]:
    return {found.decode().lower() for found in set(_TRACE_ID.findall(data))}


def _ids_in(piece: _Piece) -> set[str]:
    with _Reader() as reader:
        part = reader.part(piece)
    try:
        found = part.read()
    except RecordingError:  # told when its turn has come
        return set()
    return {span.trace_id for span in found.spans} | {record.trace_id for record in found.logs}
