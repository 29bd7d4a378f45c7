"""Reports as JSON lines in a file, or on standard output: one Result a line (results.md section 1)."""

from __future__ import annotations

import logging
import os
import sys
from typing import IO, Final

from onpath_collector.judging import Outcome

STDOUT: Final = "-"
_log = logging.getLogger("onpath")


class ReportFile:
    """Appends to `path`, made with mode 0600 if it isn't there; `-` is standard output. Raises OSError if it can't be.

    A line that can't be written (disk full, pipe closed) is counted in `failed` and the trouble logged once.
    """

    def __init__(self, path: str) -> None:
        self.failed = 0
        self._path = path
        self._file: IO[bytes] = sys.stdout.buffer if path == STDOUT else _open_private(path)

    def export(self, outcome: Outcome) -> None:
        if not outcome.lines:
            return
        try:
            self._file.write("".join(line + "\n" for line in outcome.lines).encode("utf-8", "surrogatepass"))
            self._file.flush()
        except OSError as error:
            if not self.failed:
                _log.error("report file %s: %s; further failures are counted, not logged", self._path, error)
            self.failed += len(outcome.lines)

    def close(self) -> None:
        if self._path != STDOUT:
            self._file.close()


def _open_private(path: str) -> IO[bytes]:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "ab", buffering=0)
