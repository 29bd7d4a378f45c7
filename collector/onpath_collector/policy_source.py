"""Where the collector's policy comes from: files, or the configuration itself; loaded again when they change."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

from onpath.policy.load import load_data, load_policy
from onpath.policy.model import Policy


class PolicySource:
    """`given` is a path or what stands in the configuration under `policy`; `folder` that of the configuration."""

    def __init__(self, given: str | dict[str, Any] | list[Any], folder: Path | None = None) -> None:
        self._given = given
        self._folder = folder

    def load(self) -> Policy:
        """Raises onpath.policy.load.PolicyError with all problems."""
        if isinstance(self._given, str):
            return load_policy([self._given])
        return load_data(self._given, "the configuration's policy", folder=self._folder)

    def state(self) -> Hashable:
        """Another value once a file of the policy has changed, come or gone; contracts taken in by it not looked at."""
        if not isinstance(self._given, str):
            return None
        path = Path(self._given)
        return tuple(_stamp(p) for p in (sorted(path.iterdir()) if path.is_dir() else [path]))


def _stamp(path: Path) -> Hashable:
    try:
        found = path.stat()  # of what a link leads to: Kubernetes swaps links under a mounted ConfigMap
    except OSError:
        return (path.name, None)
    return (path.name, found.st_mtime_ns, found.st_size, found.st_ino)
