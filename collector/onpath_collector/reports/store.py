"""The newest reports in SQLite: in memory, or in a file that outlives the collector. Used by one thread at a time.

A report is one row, found by the ids of all its traces; a trace with declared roots has one part for each of them in
it. What a filter asks for stands beside it, a row a result. Texts are bytes: what agents send need not be Unicode that
SQLite takes.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from onpath_collector.reports.values import Filter, Made, Object, Page, StoredReport, judged_ms, session_of

_FORMAT: Final = 2
_IN_MEMORY: Final = 64 << 20  # bytes of reports, for which an agent with long names would else take all there are ...
_IN_FILE: Final = 1 << 30  # ... and on a disk
_PAGE: Final = 2 << 20  # bytes of a page: clients of gRPC take no more than 4 MiB unless they are told to
_TABLES: Final = """
CREATE TABLE reports (
    number INTEGER PRIMARY KEY AUTOINCREMENT, trace_id TEXT NOT NULL UNIQUE, empty INTEGER NOT NULL, parts BLOB NOT NULL
);
CREATE INDEX reports_empty ON reports (empty, number);
CREATE TABLE results (
    number INTEGER NOT NULL REFERENCES reports ON DELETE CASCADE,
    workflow BLOB NOT NULL, verdict TEXT NOT NULL, service BLOB, judged_ms INTEGER NOT NULL
);
CREATE INDEX results_number ON results (number);
"""
_TRACES: Final = """
CREATE TABLE traces (
    trace_id TEXT PRIMARY KEY, number INTEGER NOT NULL REFERENCES reports ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX traces_number ON traces (number);
INSERT INTO traces SELECT trace_id, number FROM reports;
"""
_OLDEST: Final = "number = (SELECT min(number) FROM reports) AND number < (SELECT max(number) FROM reports)"


class StoreError(Exception):
    """The store can't be opened; the message says which and why."""


class Store:
    """Keeps the `limit` newest reports that hold results, and as many of traces that no workflow matched.

    Over so many bytes, the oldest go first; the newest stays.
    """

    def __init__(self, path: Path | None, limit: int, most: int | None = None) -> None:
        """`path` None: in memory. A new file is readable by its owner alone. `most` is in bytes. Raises StoreError."""
        self._limit = limit
        self._most = most or (_IN_MEMORY if path is None else _IN_FILE)
        self._bytes = 0
        try:
            if path is not None:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            # Calls come one after another, though not from one thread.
            self._db = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"report store {path}: {getattr(error, 'strerror', None) or error}") from None
        try:
            self._set_up()
        except (sqlite3.Error, StoreError) as error:
            self._db.close()
            raise StoreError(f"report store {path}: {error}") from None

    def _set_up(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if found not in (0, 1, _FORMAT):
            raise StoreError(f"written by another version of onpath (format {found}, this one has {_FORMAT})")
        if found != _FORMAT:
            missing = _TRACES if found else _TABLES + _TRACES
            self._db.executescript(f"BEGIN; {missing} PRAGMA user_version = {_FORMAT}; COMMIT;")
        self._bytes = self._size()

    def close(self) -> None:
        self._db.close()

    def write(self, outcomes: Iterable[Made]) -> None:
        """Takes reports in, each in the place of the one before it. Raises sqlite3.Error, and then none of them."""
        before = self._bytes
        try:
            with self._db:
                for outcome in outcomes:
                    self._write(outcome)
                for empty in (0, 1):
                    self._delete(
                        "empty = ?1 AND number <= "
                        "(SELECT number FROM reports WHERE empty = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
                        (empty, self._limit),
                    )
                while self._bytes > self._most and self._delete(_OLDEST):
                    pass
        except sqlite3.Error:
            self._bytes = before
            raise

    def _size(self) -> int:
        (found,) = self._db.execute("SELECT coalesce(sum(length(parts)), 0) FROM reports").fetchone()
        return int(found)

    def _delete(self, which: str, values: Sequence[Any] = ()) -> bool:
        """Whether there was any."""
        gone = self._db.execute(f"DELETE FROM reports WHERE {which} RETURNING length(parts)", values).fetchall()
        self._bytes -= sum(size for (size,) in gone)
        return bool(gone)

    def _write(self, outcome: Made) -> None:
        parts: Object = {}
        for trace_id in outcome.traces:
            found = self._find("number, parts", trace_id)
            if found is not None:
                self._delete("number = ?", found[:1])
                parts = json.loads(_text(found[1])) if not outcome.others else {}
        parts[outcome.root or ""] = {
            "revision": outcome.revision,
            "results": outcome.lines,
            "timelines": outcome.timelines,
            "unmatched": dict(outcome.unmatched),
        }
        results = [json.loads(line) for part in parts.values() for line in part["results"]]
        data = json.dumps(parts, ensure_ascii=False).encode("utf-8", "surrogatepass")
        added = self._db.execute(
            "INSERT INTO reports (trace_id, empty, parts) VALUES (?, ?, ?)", (outcome.trace_id, not results, data)
        )
        self._bytes += len(data)
        self._db.executemany("INSERT INTO traces VALUES (?, ?)", [(t, added.lastrowid) for t in outcome.traces])
        self._db.executemany(
            "INSERT INTO results VALUES (?, ?, ?, ?, ?)",
            [
                (added.lastrowid, _bytes(r["workflow"]), r["verdict"], _bytes(r["service"]), judged_ms(r))
                for r in results
            ],
        )

    def get(self, trace_id: str) -> StoredReport | None:
        """`trace_id`: any that the report is about."""
        found = self._find("trace_id, parts", trace_id)
        return None if found is None else _report(*found)

    def _find(self, columns: str, trace_id: str) -> tuple[Any, ...] | None:
        query = f"SELECT {columns} FROM reports WHERE number = (SELECT number FROM traces WHERE trace_id = ?)"
        found: tuple[Any, ...] | None = self._db.execute(query, (trace_id,)).fetchone()
        return found

    def page(self, wanted: Filter, size: int, token: str = "") -> Page:
        """At most `size` reports from where the token says, fewer where they are large. Raises BadToken."""
        before = wanted.place(token)
        conditions, values = _conditions(wanted)
        if before is not None:
            conditions.append("number < ?")
            values.append(before)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"SELECT number, trace_id, parts FROM reports {where} ORDER BY number DESC LIMIT ?"
        found: list[StoredReport] = []
        last = taken = 0
        for number, trace_id, data in self._db.execute(query, (*values, size + 1)):
            taken += len(data)
            if len(found) == size or (found and taken > _PAGE):
                return Page(found, wanted.token(last))
            found.append(_report(trace_id, data))
            last = number
        return Page(found)


def _conditions(wanted: Filter) -> tuple[list[str], list[Any]]:
    if wanted.all:
        return ["empty = 0"] if wanted.judged else [], []
    asked = {
        "workflow = ?": _bytes(wanted.workflow),
        "verdict = ?": wanted.verdict,
        "service = ?": _bytes(wanted.service),
        "judged_ms >= ?": wanted.since_ms,
    }
    chosen = {condition: value for condition, value in asked.items() if value is not None}
    return [f"number IN (SELECT number FROM results WHERE {' AND '.join(chosen)})"], list(chosen.values())


def _report(trace_id: str, data: bytes) -> StoredReport:
    parts: Sequence[Object] = list(json.loads(_text(data)).values())
    results = [json.loads(line) for part in parts for line in part["results"]]
    unmatched: dict[str, int] = {}
    for part in parts:
        for reason, count in part["unmatched"].items():
            unmatched[reason] = unmatched.get(reason, 0) + count
    return StoredReport(
        trace_id=trace_id,
        session=session_of(results),
        revision=max(part["revision"] for part in parts),
        results=results,
        timelines=[json.loads(line) for part in parts for line in part["timelines"]],
        unmatched=unmatched,
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
