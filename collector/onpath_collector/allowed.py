"""How many cores the collector may use: those of the machine, of its affinity, and what a container is given of them.

In a container the machine's cores all show, and only the quota of its cgroup says how much time on them there is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")


def cores_allowed(cgroups: Path = _CGROUPS) -> int:
    """Whole cores, at least one: a quota of half a core is one, of two and a half are three."""
    cores = len(os.sched_getaffinity(0))
    quota = _quota(cgroups)
    return cores if quota is None else max(1, min(cores, quota))


def _quota(cgroups: Path) -> int | None:
    """By version 2 or version 1 of cgroups; None: no limit, or none that can be read."""
    try:
        quota, period = (cgroups / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (cgroups / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroups / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not quota.isdigit() or not period.isdigit() or period == "0":  # "max", or -1
        return None
    return -(-int(quota) // int(period))
