"""What the collector says: log lines and one line a verdict, for people on a terminal and as JSON lines elsewhere.

Everything goes to standard error; standard output is for data (`--report-file -`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from onpath.cli.text import printable
from onpath_collector.judging import Outcome, VerdictLine, json_line

if TYPE_CHECKING:
    from rich.text import Text

_log: Final = logging.getLogger("onpath")
_fields: Final = attrgetter(*VerdictLine.__slots__)
_STYLE: Final = {"pass": "green", "fail": "bold red", "unknown": "yellow"}
_LEVEL_STYLE: Final = {"WARNING": "yellow", "ERROR": "bold red", "CRITICAL": "bold red"}


def set_up_logging(form: Literal["auto", "console", "json"], level: str) -> None:
    """Sends the log to standard error in the chosen form; `auto` is for people only on a terminal."""
    handler: logging.Handler = _People() if form == "console" or (form == "auto" and sys.stderr.isatty()) else _Lines()
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # No line names them, and looking them up is half of what a record costs.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.getLogger("grpc").setLevel(logging.WARNING)


class Console:
    """One log record a verdict: INFO, failures WARNING, so that `log.level: warning` shows what is wrong."""

    def export(self, outcome: Outcome) -> None:
        for verdict in outcome.verdicts:
            level = logging.WARNING if verdict.verdict == "fail" else logging.INFO
            if _log.isEnabledFor(level):
                # Made here: a logger would look up the stack for who calls it, each time.
                record = logging.LogRecord(_log.name, level, __file__, 0, "verdict", None, None)
                record.verdict, record.revision = verdict, outcome.revision
                _log.handle(record)


class _People(logging.Handler):
    def __init__(self) -> None:
        from rich.console import Console as Terminal  # 2 MiB that a collector without a terminal does without

        super().__init__()
        self._terminal = Terminal(stderr=True, soft_wrap=True, highlight=False)

    def emit(self, record: logging.LogRecord) -> None:
        from rich.text import Text

        line = Text(datetime.fromtimestamp(record.created).strftime("%H:%M:%S "), style="dim")
        verdict = getattr(record, "verdict", None)
        if isinstance(verdict, VerdictLine):
            line.append_text(verdict_text(verdict))
        else:
            line.append(printable(record.getMessage()), style=_LEVEL_STYLE.get(record.levelname, ""))
        self._terminal.print(line)
        if record.exc_info and record.exc_info[0]:
            self._terminal.print(Text(logging.Formatter().formatException(record.exc_info), style="dim"))


def verdict_text(verdict: VerdictLine) -> Text:
    """`FAIL  refund  0.55  refund-agent  4bf92f...  why`, coloured."""
    from rich.text import Text

    score = "  -  " if verdict.score is None else f"{verdict.score:5.2f}"
    line = Text()
    line.append(f"{verdict.verdict.upper():<8}", style=_STYLE[verdict.verdict])
    line.append(f"{printable(verdict.workflow)}  ", style="bold")
    line.append(f"{score}  {printable(verdict.service or '-')}  ")
    line.append(verdict.trace_id, style="dim")
    if verdict.finding:
        line.append("  " + printable(verdict.finding))
    return line


class _Lines(logging.Handler):
    """One JSON object a line: time, level, message; the fields of a verdict beside them.

    Verdicts come many at a time: those of one turn of the loop are written together.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        first = not self._held
        self._held.append(_line(record))
        if not hasattr(record, "verdict") or (first and not self._flush_later()):
            self.flush()

    def _flush_later(self) -> bool:
        """At the end of the loop's turn, if there is a loop."""
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:
            return False
        return True

    def flush(self) -> None:
        with self.lock or contextlib.nullcontext():
            lines, self._held = self._held, []
            if lines:
                print(*lines, sep="\n", file=sys.stderr, flush=True)  # noqa: T201 - this is the log


def _line(record: logging.LogRecord) -> str:
    found: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "message": printable(record.getMessage()),
    }
    verdict = getattr(record, "verdict", None)
    if isinstance(verdict, VerdictLine):
        found |= zip(VerdictLine.__slots__, _fields(verdict), strict=True)
        found["revision"] = record.__dict__["revision"]
    fields = getattr(record, "fields", None)
    if isinstance(fields, dict):
        found |= fields
    if record.exc_info and record.exc_info[0]:
        found["exception"] = logging.Formatter().formatException(record.exc_info)
    return json_line(found)
