"""What an application does with onpath's reports, named by ONPATH_ON_REPORT: it tells each verdict in one line."""

from __future__ import annotations

import os
import sys
from typing import Any


def show(report: Any) -> None:
    for result in report.results:
        told = f"verdict {result.workflow} {result.verdict} {report.release_reason} complete={report.complete}"
        print(told, f"pid={os.getpid()}", file=sys.stderr, flush=True)
