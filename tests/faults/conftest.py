"""All of this folder is of the marker `faults`: `make test` leaves it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.otlp_sink import OtlpSink

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.faults)


@pytest.fixture
def sink() -> Iterator[OtlpSink]:
    with OtlpSink() as running:
        yield running


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Prints figures of the scenario; `make faults` shows them."""

    def told(*figures: Any) -> None:
        print(f"{request.node.name}:", *figures)

    return told
