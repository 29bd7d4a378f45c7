"""Shared cases: from ONPATH_SHARED, else ../shared beside the checkout; tests that need them skip where neither is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("ONPATH_SHARED") or ROOT.parent / "shared")
FIXTURES = Path(__file__).resolve().parent / "fixtures"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--vectors", metavar="DIR", help="run every vector file in DIR instead of the shared ones")


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"no shared cases: neither ONPATH_SHARED nor {SHARED.name} beside the checkout")
    return SHARED
