"""Cores that a container is given, as the kernel writes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onpath_collector.allowed import cores_allowed

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "max 100000\n"}, CORES),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "100001 100000\n"}, min(2, CORES)),
        ({"cpu.max": "6400000 100000\n"}, CORES),
        ({"cpu.max": "\n"}, CORES),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, CORES),
        ({"cpu/cpu.cfs_quota_us": "20000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "20000\n"}, CORES),
        ({}, CORES),
    ],
)
def test_no_more_than_the_quota_pays_for(files: dict[str, str], cores: int, tmp_path: Path) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert cores_allowed(tmp_path) == cores
