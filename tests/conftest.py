"""Shared cases: from ONPATH_SHARED, else ../shared beside the checkout; tests that need them skip where neither is.

ONPATH_PEERS_SECONDS is how long tests beside other programs may be begun: building those takes as long as it takes.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("ONPATH_SHARED") or ROOT.parent / "shared")
FIXTURES = Path(__file__).resolve().parent / "fixtures"
STARTED = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--vectors", metavar="DIR", help="run every vector file in DIR instead of the shared ones")


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"no shared cases: neither ONPATH_SHARED nor {SHARED.name} beside the checkout")
    return SHARED


def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = os.environ.get("ONPATH_PEERS_SECONDS")
    if seconds and item.get_closest_marker("peers") and time.monotonic() - STARTED > float(seconds):
        pytest.skip(f"the {seconds} s for tests beside other programs were over")
