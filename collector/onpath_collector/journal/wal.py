"""Reads SQLite's write-ahead log as it stands in the file: its pages, and whether it is sound.

SQLite stops at the first frame whose checksum fails and forgets what was committed after it, without a word. So the
log is read here before SQLite opens it. The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log

A crash leaves, at worst, frames of a transaction that was never committed, the last of them half written: nobody was
told that these requests were taken, and the log is sound. Anything else that does not add up is damage.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

PAGE: Final = 4096
_HEADER: Final = struct.Struct(">IIIIIIII")  # magic, version, page size, checkpoint, two salts, two checksums
_FRAME: Final = struct.Struct(">IIIIII")  # page number, pages after a commit (else 0), two salts, two checksums
_MAGIC: Final = 0x377F0682  # its last bit says in which byte order checksums are reckoned
_SIZE: Final = _FRAME.size + PAGE
_GENERATIONS: Final = 1 << 16  # the log is written over from the start; the first salt counts how often
_START: Final = 8  # frames that are looked at for the salts when the header is damaged
_ALL: Final = 0xFFFFFFFF

_Pair = tuple[int, int]


@dataclass(slots=True)
class Log:
    """`pages` are the last images by page number, of damaged frames too: what is in them has checksums of its own.

    `tail`: those after the last commit that can be told.
    """

    pages: dict[int, bytes] = field(default_factory=dict)
    tail: dict[int, bytes] = field(default_factory=dict)
    sound: bool = True


@dataclass(frozen=True, slots=True)
class _Frame:
    page_number: int
    commits: bool
    salts: _Pair
    stored: _Pair
    head: bytes  # the part of its header that the checksum covers
    page: bytes


def length_of(frames: int) -> int:
    """Bytes of a log of so many frames."""
    return _HEADER.size + frames * _SIZE


def read_log(data: bytes) -> Log:
    """Of the whole file's bytes; an empty file is an empty log."""
    log = Log()
    if not data:
        return log
    order, salts, chain = _read_header(data, log)
    frames = list(_frames(data))
    if not log.sound and frames:  # what the header says can't be trusted
        (salts, _), chain = Counter(frame.salts for frame in frames[:_START]).most_common(1)[0], None
    own = [i for i, frame in enumerate(frames) if frame.salts == salts]
    last = own[-1] if own else -1
    for i, frame in enumerate(frames[: last + 1]):
        if frame.salts != salts:
            log.sound, chain = False, None
            continue
        whole = chain is None or _checksum(order, frame.page, _checksum(order, frame.head, chain)) == frame.stored
        if not whole and (i < last or frame.commits):
            log.sound = False
        chain = frame.stored
        log.tail[frame.page_number] = frame.page
        if frame.commits:
            log.pages |= log.tail
            log.tail = {}
    if not _ends_well(data, frames[last + 1 :], salts):
        log.sound = False
    return log


def _read_header(data: bytes, log: Log) -> tuple[str, _Pair, _Pair | None]:
    if len(data) < _HEADER.size:
        log.sound = False
        return "<", (0, 0), None
    magic, _, page, _, salt1, salt2, sum1, sum2 = _HEADER.unpack_from(data)
    order = ">" if magic & 1 else "<"
    whole = _checksum(order, data[: _HEADER.size - 8], (0, 0)) == (sum1, sum2)
    log.sound = magic | 1 == _MAGIC | 1 and page == PAGE and whole
    return order, (salt1, salt2), (sum1, sum2)


def _frames(data: bytes) -> Iterator[_Frame]:
    for at in range(_HEADER.size, len(data) - _SIZE + 1, _SIZE):
        number, commit, salt1, salt2, sum1, sum2 = _FRAME.unpack_from(data, at)
        body = at + _FRAME.size
        yield _Frame(
            number, commit != 0, (salt1, salt2), (sum1, sum2), data[at : at + 8], data[body : body + PAGE]
        )  # fmt: skip


def _ends_well(data: bytes, rest: list[_Frame], salts: _Pair) -> bool:
    """Whether what follows the last frame is of earlier generations, and the file ends where a frame does."""
    if any(not 0 < (salts[0] - frame.salts[0]) & _ALL < _GENERATIONS for frame in rest):
        return False
    over = (len(data) - _HEADER.size) % _SIZE
    return over in (0, _FRAME.size)  # the header of a frame and its page are written one after the other


def _checksum(order: str, data: bytes, start: _Pair) -> _Pair:
    one, two = start
    for first, second in struct.iter_unpack(order + "II", data):
        one = (one + first + two) & _ALL
        two = (two + second + one) & _ALL
    return one, two
