"""The C library's memory: set up once, unless whoever runs the collector has set it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from onpath_collector.allocation import keep_little

BLOCKS = """
import re
from onpath_collector.allocation import keep_little
assert keep_little({})
blocks = [bytes(3 << 20) for _ in range(2)] + [bytearray(b"x") * (3 << 20) for _ in range(30)]
kept = bytes(1000)
del blocks
print(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def test_what_the_environment_says_of_malloc_stays() -> None:
    assert not keep_little({"MALLOC_ARENA_MAX": "2"})


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_large_blocks_go_back_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60 << 10
