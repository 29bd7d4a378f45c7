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
        self._files: tuple[Path, ...] = ()  # of the last policy that loaded, with the contracts it takes in

    def load(self) -> Policy:
        """Raises onpath.policy.load.PolicyError with all problems."""
        if isinstance(self._given, str):
            policy = load_policy([self._given])
        else:
            policy = load_data(self._given, "the configuration's policy", folder=self._folder)
        self._files = tuple(Path(file) for file in policy.files)
        return policy

    def state(self) -> Hashable:
        """Another value once a file of the policy has changed, come or gone."""
        seen = set(self._files)
        if isinstance(self._given, str):
            path = Path(self._given)
            seen.update(path.iterdir() if path.is_dir() else [path])
        return tuple(_stamp(path) for path in sorted(seen))


def _stamp(path: Path) -> Hashable:
    try:
        found = path.stat()  # of what a link leads to: Kubernetes swaps links under a mounted ConfigMap
    except OSError:
        return (path.name, None)
    return (path.name, found.st_mtime_ns, found.st_size, found.st_ino)
