"""What the results API does, whatever it is asked over: each call with its limits, and errors by gRPC's names."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, Literal

from onpath_collector.reports import BadToken, Filter, Page, Reports, StoredReport, TooSlow

Code = Literal["INVALID_ARGUMENT", "NOT_FOUND", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"]

LONGEST_WAIT: Final = 600.0  # seconds
_PAGE: Final = 50
_LARGEST_PAGE: Final = 1000
_TRACE_ID: Final = re.compile("[0-9a-f]{32}")


class CallError(Exception):
    """A call that has no answer: `code` is gRPC's, the message is for people."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class Calls:
    """Each raises CallError. Trace ids are hex, of either case."""

    def __init__(self, reports: Reports, end: Callable[[bytes], bool]) -> None:
        """`end` lets go of an open trace as complete, at once; whether there was one."""
        self._reports = reports
        self._end = end

    async def get(self, trace_id: str) -> StoredReport:
        wanted = _checked(trace_id)
        found = await self._reports.get(wanted)
        if found is None:
            raise CallError("NOT_FOUND", f"there is no report of trace {wanted}: not judged yet, or too long ago")
        return found

    async def wait(self, trace_id: str, seconds: float) -> StoredReport:
        """`seconds` over LONGEST_WAIT are cut to it."""
        wanted = _checked(trace_id)
        if not seconds >= 0:
            raise CallError("INVALID_ARGUMENT", "the timeout must not be negative")
        try:
            return await self._reports.wait(wanted, min(seconds, LONGEST_WAIT))
        except TimeoutError:
            raise CallError("DEADLINE_EXCEEDED", f"no report of trace {wanted} within {seconds:g} s") from None

    async def watch(self, wanted: Filter) -> AsyncGenerator[StoredReport, None]:
        """Reports from when the iterator is made on; close it when done."""
        watch = self._reports.watch(wanted)
        try:
            async with aclosing(watch.reports()) as reports:
                async for report in reports:
                    yield report
        except TooSlow as error:
            raise CallError("RESOURCE_EXHAUSTED", f"reading too slowly: {error}") from None
        finally:
            watch.close()

    async def page(self, wanted: Filter, size: int, token: str) -> Page:
        """`size` 0: as many as is usual."""
        if size < 0:
            raise CallError("INVALID_ARGUMENT", "the page size must not be negative")
        try:
            return await self._reports.page(wanted, min(size or _PAGE, _LARGEST_PAGE), token)
        except BadToken as error:
            raise CallError("INVALID_ARGUMENT", str(error)) from None

    def complete(self, trace_id: str) -> None:
        wanted = _checked(trace_id)
        if not self._end(bytes.fromhex(wanted)):
            raise CallError("NOT_FOUND", f"trace {wanted} is not open")


def _checked(trace_id: str) -> str:
    wanted = trace_id.lower()
    if not _TRACE_ID.fullmatch(wanted) or not wanted.strip("0"):
        raise CallError("INVALID_ARGUMENT", "a trace id is 32 hex digits, not all zero")
    return wanted
