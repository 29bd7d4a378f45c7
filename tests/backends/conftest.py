"""What the backends need around them: a model server for the agents, an environment for each server and SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.agents.support.openai_stub import OpenAIStub
from tests.agents.support.venvs import Unavailable, python_of
from tests.backends.support.servers import REQUIREMENTS, MLflow, Phoenix

T = TypeVar("T")


def had(name: str, make: Callable[[], T]) -> T:
    """What `make` makes; skips with the reason where its environment can't be had."""
    try:
        return make()
    except Unavailable as reason:
        pytest.skip(f"{name}: {reason}")


@pytest.fixture(scope="session")
def openai() -> Iterator[str]:
    with OpenAIStub() as url:
        yield url


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phoenix]:
    server = had("phoenix", lambda: Phoenix(tmp_path_factory.mktemp("phoenix")))
    with server:
        yield server


@pytest.fixture(scope="session")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MLflow]:
    server = had("mlflow", lambda: MLflow(tmp_path_factory.mktemp("mlflow")))
    with server:
        yield server


@pytest.fixture(scope="session")
def sdks() -> Path:
    """The Python of an environment with the SDKs of Langfuse, LangSmith and Datadog."""
    return had("sdks", lambda: python_of("sdks", folder=REQUIREMENTS))
