"""The status page on the admin port: HTML made here, readable without scripts, by whoever opens it.

Parts, Reports -> view (plain values) -> templates -> HTML
a result, the times of its steps -> timeline (rows with bars) -^
"""

from onpath_collector.status_page.page import REPORTS, StatusPage

__all__ = ["REPORTS", "StatusPage"]
