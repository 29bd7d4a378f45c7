"""A child process whose output is read as it comes, so that it never blocks and a test can wait for a line."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence


class Child:
    """Runs `command`; `lines` are what it has said so far on both streams, in order, if `keeps` says so."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        keeps: Callable[[str], bool] = lambda line: True,
    ) -> None:
        self.command = list(command)
        self._keeps = keeps
        self.lines: list[str] = []
        self._said = threading.Condition()
        self._process = subprocess.Popen(
            self.command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                if self._keeps(line):
                    with self._said:
                        self.lines.append(line.rstrip("\n"))
                        self._said.notify_all()
        with self._said:
            self._said.notify_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for_line(self, pattern: str, patience: float = 30) -> re.Match[str]:
        """The first match of `pattern` in a line. Raises AssertionError when the process ends or time is up before."""
        deadline = time.monotonic() + patience
        seen = 0
        with self._said:
            while True:
                for line in self.lines[seen:]:
                    if found := re.search(pattern, line):
                        return found
                seen = len(self.lines)
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    why = "ended" if not self._reader.is_alive() else f"said nothing of the kind for {patience} s"
                    raise AssertionError(f"{self.command[:6]} {why} before a line like {pattern!r}:\n{self.output}")
                self._said.wait(min(left, 0.5))

    def send(self, number: int) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM, patience: float = 30) -> int:
        """Sends the signal if it still runs and returns the exit code. Kills it, and raises, when it does not end."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self.wait(patience)

    def wait(self, patience: float = 30) -> int:
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self.command[:6]} did not end within {patience} s:\n{self.output}") from None
        finally:
            self._reader.join(5)
        return code
