"""Memory of traces that are open: rss of the collector's own process for each thousand of them, ten spans a trace."""

from __future__ import annotations

import re
import time
from pathlib import Path

from benchmarks._load import Load, send
from benchmarks._peers import onpath

LOADS = (
    Load("400 B a span", 100, 2000),
    Load("20 attributes of 1,000 B more", 100, 100, 20, 1000),
)


def main() -> None:
    for load in LOADS:
        requests = load.encoded()
        with onpath(["--settle-delay", "1h"]) as (process, address):
            before = _rss(process.pid)
            send(address, requests, load)
            time.sleep(2)
            grown = _rss(process.pid) - before
        size = sum(map(len, requests)) / load.traces / 1024
        told = f"{grown / load.traces * 1000:.1f} MiB for 1,000 open traces of {size:.1f} KiB"
        print(f"{load.name:<32} {told} ({grown:.0f} MiB for {load.traces:,})", flush=True)


def _rss(pid: int) -> float:
    """MiB, now, without children."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
