"""Keeps reports in memory: `OnPathSpanProcessor(policy, on_report=sink)`."""

from __future__ import annotations

import threading

from onpath.report import Report, Result


class MemorySink:
    """Called with each report, in whatever thread. `reports` are those so far, in order."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self._arrived = threading.Condition()

    def __call__(self, report: Report) -> None:
        with self._arrived:
            self.reports.append(report)
            self._arrived.notify_all()

    @property
    def results(self) -> list[Result]:
        return [result for report in self.reports for result in report.results]

    @property
    def verdicts(self) -> list[str]:
        return [str(result.verdict) for result in self.results]

    def wait_for(self, number: int, timeout: float = 10.0) -> list[Report]:
        """The reports when there are that many. Raises TimeoutError."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.reports) >= number, timeout):
                raise TimeoutError(f"{len(self.reports)} reports of {number} came within {timeout:g} s")
            return list(self.reports)
