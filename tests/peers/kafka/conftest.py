"""A broker for each file of tests, and groups of collectors that don't outlive their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.peers.kafka.broker import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def groups() -> Iterator[Callable[..., Any]]:
    """Makes a Group; what a failed test leaves running is killed."""
    from tests.peers.kafka.test_group import Group

    made: list[Group] = []

    def group(*args: Any, **options: Any) -> Group:
        made.append(Group(*args, **options))
        return made[-1]

    yield group
    for each in made:
        for member in each.members:
            if not member.killed:
                member.kill()
