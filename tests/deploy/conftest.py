"""The image, built once for all tests that run it, and folders that its user can enter."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.support import image


@pytest.fixture(scope="session")
def onpath_image() -> Iterator[image.Image]:
    try:
        with image.built() as found:
            yield found
    except image.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that others can enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="onpath-") as name:
        Path(name).chmod(0o711)
        yield Path(name)
