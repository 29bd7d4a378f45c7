"""Files of secrets: refused when everyone may read them, noticed when they change."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

log: Final = logging.getLogger("onpath")

INTERVAL: Final = 5.0  # seconds between looks at the files

State: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class SecretError(ValueError):
    """A file of secrets that is not used; the message names the file, what is wrong, and what to do."""


def read_secret(path: Path) -> bytes:
    """Raises SecretError for a file that everyone may read, or that cannot be read."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & stat.S_IROTH:
                raise SecretError(f"{path}: everyone may read this secret (mode {mode:04o}); chmod o-rwx {path}")
            return file.read()
    except OSError as error:
        raise SecretError(f"{path}: {error.strerror}") from None


class Watched:
    """What is made of files, and made anew when they change; what cannot be made leaves the former in force."""

    def __init__(self, paths: Iterable[Path], make: Callable[[], None]) -> None:
        """`make` reads the files. Raises what it raises: SecretError."""
        self._paths = tuple(paths)
        self._make = make
        self._state = self._look()
        make()

    def refresh(self) -> None:
        state = self._look()
        if state == self._state:
            return
        self._state = state
        names = ", ".join(map(str, self._paths))
        try:
            self._make()
        except SecretError as error:
            log.error("%s; what was read of %s before stays in force", error, names)
        else:
            log.info("read again: %s", names)

    def _look(self) -> State:
        return tuple(map(_identity, self._paths))


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


async def refresh_for_ever(watched: Iterable[Watched], interval: float = INTERVAL) -> None:
    """Looks at the files again and again; ends when cancelled."""
    watched = tuple(watched)
    while watched:
        await asyncio.sleep(interval)
        for each in watched:
            each.refresh()
