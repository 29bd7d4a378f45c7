"""The results of a run of `onpath check`, in order, as lines of JSON in a file: there may be more than memory holds."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, overload

_IN_MEMORY: Final = 32 << 20  # bytes


class Results(Sequence[dict[str, Any]]):
    """Read as objects, or as the lines that they are. To be closed, as a file is."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed by `__exit__`
        self._size = 0
        self._places: list[tuple[Any, int, int]] = []  # order, offset, size

    def add(self, place: tuple[Any, ...], lines: Sequence[bytes], verdicts: Sequence[str]) -> None:
        """The results of one trace; `place` puts them in order with those of the others."""
        for number, line in enumerate(lines):
            self._file.write(line)
            self._places.append(((*place, number), self._size, len(line)))
            self._size += len(line)
        self.verdicts.update(verdicts)

    def clear(self) -> None:
        self.verdicts.clear()
        self._places.clear()

    def sort(self) -> None:
        """To be called when all have been added."""
        self._places.sort()

    def lines(self) -> Iterator[bytes]:
        return map(self._line, range(len(self)))

    def _line(self, number: int) -> bytes:
        _, offset, size = self._places[number]
        self._file.seek(offset)
        return self._file.read(size)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return json.loads(self._line(index))

    def __enter__(self) -> Results:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._file.close()
