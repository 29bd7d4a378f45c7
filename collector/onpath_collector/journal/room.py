"""How much of the disk the journal takes, and whether there is so much: reckoned before anything is written.

A page that is written goes to the log first, and then to its place in the file. So what is written must find room
twice where the file grows; and where the disk is full with pages that nothing is on any longer, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onpath_collector.journal.wal import PAGE

LEAST: Final = 256 << 10  # bytes that are left free: the pages above those that hold rows, and what is not foreseen
_FRAME: Final = 1 / 100  # of a page, at most, what the log writes beside it


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes: `free` on the disk, `file` what the file takes now, `pages` what it will take once the log is written
    back, `unused` what of these nothing is on."""

    free: int
    file: int
    pages: int
    unused: int

    @property
    def growth(self) -> int:
        """What the file grows by when the log is written back."""
        return max(0, self.pages - self.file)

    def fits(self, size: int, spare: int = LEAST) -> bool:
        """Whether so much can be written to the log, and the log be written back, and `spare` bytes be left."""
        after = max(self.pages, self.pages - self.unused + size)
        return size * (1 + _FRAME) + max(0, after - self.file) + spare <= self.free


def room_for(size: int) -> int:
    """Bytes in the file that a request of so many takes, about: what does not fit a page has pages of its own."""
    return size + 64 if size < PAGE // 2 else -(-(size + 64) // PAGE) * PAGE
