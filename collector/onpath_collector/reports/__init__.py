"""Reports that are kept, for the results API and the status page.

Outcome -> Reports (who waits, who watches) -> Store (SQLite, on a thread of its own) -> StoredReport
"""

from onpath_collector.reports.hub import Reports, TooSlow, Watch
from onpath_collector.reports.store import Store, StoreError
from onpath_collector.reports.values import BadToken, Filter, Page, StoredReport

__all__ = ["BadToken", "Filter", "Page", "Reports", "Store", "StoreError", "StoredReport", "TooSlow", "Watch"]
