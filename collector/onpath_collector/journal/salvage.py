"""Reads the rows of a damaged journal straight from its pages, past whatever SQLite would stop at.

    the file, the pages of its log laid over it -> leaf pages of tables -> cells -> rows -> those whose checksum holds

The format: https://www.sqlite.org/fileformat2.html#b_tree_pages. Which table a row is of, its shape tells; pages that
are no longer in use still hold rows that were removed, and are left out as long as the list of them can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from onpath_collector.journal.records import (
    Ending,
    Request,
    Row,
    read_ending,
    read_forwarded,
    read_request,
)
from onpath_collector.journal.wal import PAGE

_LEAF: Final = 13  # type of a table's leaf page
_FIRST: Final = 100  # bytes of the file's header on page 1
_FREE: Final = 32  # where in it the first page of the free list stands
_LARGEST: Final = PAGE - 35  # bytes of a row that stay on its page ...
_SMALLEST: Final = (PAGE - 12) * 32 // 255 - 23  # ... or of one that does not fit
_CHAINED: Final = PAGE - 4
_MOST: Final = 1 << 30  # bytes of a row that can be
_WIDTHS: Final = (0, 1, 2, 3, 4, 6, 8)
_SHAPES: Final = {6: "request", 2: "forwarded", 9: "ending"}  # by number of columns

_NUMBER: Final = struct.Struct(">I")
_SHORT: Final = struct.Struct(">H")


class _Broken(Exception):
    """No row of ours, or not the whole of one."""


@dataclass(slots=True)
class Salvaged:
    """`lost` counts the rows that can be seen to have been requests and are not whole."""

    requests: dict[int, Request] = field(default_factory=dict)
    forwarded: set[int] = field(default_factory=set)
    endings: dict[int, Ending] = field(default_factory=dict)
    lost: int = 0

    def add(self, later: Salvaged) -> None:
        """What a later look has found."""
        self.requests |= later.requests
        self.forwarded |= later.forwarded
        self.endings |= later.endings
        self.lost = min(self.lost, later.lost)


class Pages:
    """The pages of a file, those of its log over them."""

    def __init__(self, data: bytes, over: dict[int, bytes]) -> None:
        self._data = data
        self._over = over
        self.count = max([-(-len(data) // PAGE), *(n for n in over if n <= len(data) // PAGE + len(over) + 1)])

    def get(self, number: int) -> bytes:
        page = self._over.get(number) or self._data[(number - 1) * PAGE : number * PAGE]
        return page.ljust(PAGE, b"\0")

    def free(self) -> set[int]:
        """The pages that the free list names, as far as it can be followed."""
        found: set[int] = set()
        trunk = _number(self.get(1), _FREE)
        while 0 < trunk <= self.count and trunk not in found:
            found.add(trunk)
            page = self.get(trunk)
            length = min(_number(page, 4), PAGE // 4 - 2)
            found.update(_number(page, 8 + 4 * i) for i in range(length))
            trunk = _number(page, 0)
        return found


def salvage(pages: Pages) -> Salvaged:
    found = Salvaged()
    free = pages.free()
    for number in range(1, pages.count + 1):
        if number in free:
            continue
        page = pages.get(number)
        start = _FIRST if number == 1 else 0
        if page[start] == _LEAF:
            for at in _cells(page, start):
                _read(pages, page, at, found)
    return found


def _cells(page: bytes, start: int) -> Iterator[int]:
    count = min(_short(page, start + 3), PAGE // 4)
    for i in range(count):
        at = _short(page, start + 8 + 2 * i) if start + 10 + 2 * i <= PAGE else 0
        if 0 < at < PAGE:
            yield at


def _read(pages: Pages, page: bytes, at: int, found: Salvaged) -> None:
    shape = None
    try:
        size, at = _varint(page, at)
        row_id, at = _varint(page, at)
        local = page[at : at + _local(size)]
        head, types = _types(local)
        shape = _SHAPES.get(len(types))
        row = _row(row_id, _payload(pages, page, at, size, local), head, types)
        if not _keep(row, shape, found):
            raise _Broken
    except (_Broken, IndexError, struct.error):
        found.lost += shape == "request"


def _keep(row: Row, shape: str | None, found: Salvaged) -> bool:
    if shape == "request":
        request = read_request(row)
        if request is not None:
            found.requests[request.id] = request
        return request is not None
    if shape == "forwarded":
        forwarded = read_forwarded(row)
        if forwarded is not None:
            found.forwarded.add(forwarded)
    elif shape == "ending":
        ending = read_ending(row)
        if ending is not None:
            found.endings[ending.id] = ending
    return True


def _local(size: int) -> int:
    """How many bytes of a row stay on its leaf page."""
    if size <= _LARGEST:
        return size
    if size > _MOST:
        raise _Broken
    kept = _SMALLEST + (size - _SMALLEST) % _CHAINED
    return kept if kept <= _LARGEST else _SMALLEST


def _payload(pages: Pages, page: bytes, at: int, size: int, local: bytes) -> bytes:
    if len(local) == size:
        return local
    parts, left = [local], size - len(local)
    following = _number(page, at + len(local))
    while left > 0:
        if not 0 < following <= pages.count:
            raise _Broken
        page = pages.get(following)
        parts.append(page[4 : 4 + min(left, _CHAINED)])
        left -= _CHAINED
        following = _number(page, 0)
    return b"".join(parts)


def _types(record: bytes) -> tuple[int, list[int]]:
    """The length of a record's header, and the types of its columns."""
    length, at = _varint(record, 0)
    types: list[int] = []
    while at < length:
        kind, at = _varint(record, at)
        types.append(kind)
    return length, types


def _row(row_id: int, record: bytes, at: int, types: list[int]) -> Row:
    if not types or types[0] != 0:  # the first column is the row's number, which does not stand in the record
        raise _Broken
    values: list[object] = [row_id]
    for kind in types[1:]:
        width = _width(kind)
        values.append(_value(kind, record[at : at + width]))
        at += width
    return tuple(values)


def _width(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    return _WIDTHS[kind] if kind <= 6 else 0


def _value(kind: int, data: bytes) -> object:
    if kind == 0:
        return None
    if kind <= 6:
        return int.from_bytes(data, "big", signed=True)
    if kind in (8, 9):
        return kind - 8
    if kind < 12:
        raise _Broken
    return data.decode("utf-8", "replace") if kind % 2 else data


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    number = 0
    for i in range(9):
        byte = data[at + i]
        if i == 8:
            return number << 8 | byte, at + 9
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + i + 1
    raise _Broken


def _number(page: bytes, at: int) -> int:
    found: int = _NUMBER.unpack_from(page, at)[0]
    return found


def _short(page: bytes, at: int) -> int:
    found: int = _SHORT.unpack_from(page, at)[0]
    return found
