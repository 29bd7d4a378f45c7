"""The code of the results API is what its compiler makes of the protocol now."""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_generated_code_is_current(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "proto" / "generate.py"))
    try:
        script["generate"](tmp_path)
    except (subprocess.CalledProcessError, OSError) as error:
        pytest.skip(f"the compiler can't be had: {error}")
    kept: Path = script["GENERATED"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in kept.glob("*.py*"))
    for made in tmp_path.iterdir():
        assert made.read_text("utf-8") == (kept / made.name).read_text("utf-8"), f"{made.name}: run proto/generate.py"
