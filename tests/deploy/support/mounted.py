"""A ConfigMap or Secret as the kubelet mounts it: links to `..data`, which leads to a folder that a change replaces."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path


class Mounted:
    """`folder` holds links of the given names; `change` swaps what they lead to, all at the same moment."""

    def __init__(self, folder: Path, files: Mapping[str, str], mode: int = 0o644) -> None:
        self.folder = folder
        self._mode = mode
        self._versions = (folder / f"..2026_11_30_20_00_{n:02}" for n in itertools.count())
        folder.mkdir()
        self.change(files)
        for name in files:
            (folder / name).symlink_to(Path("..data", name))

    def change(self, files: Mapping[str, str]) -> None:
        version = next(self._versions)
        version.mkdir()
        for name, text in files.items():
            (version / name).write_text(text, encoding="utf-8")
            (version / name).chmod(self._mode)
        data, fresh = self.folder / "..data", self.folder / "..data_tmp"
        former = data.resolve() if data.is_symlink() else None
        fresh.symlink_to(version.name)
        fresh.replace(data)
        if former is not None:
            shutil.rmtree(former)
