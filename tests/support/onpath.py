"""The command `onpath` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "onpath.cli")


def onpath(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)


def steps_of_runs(files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """What `onpath steps --json` sees of each run in recorded traces, by trace id."""
    done = onpath("steps", *map(str, files), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    scopes = [json.loads(line) for line in done.stdout.splitlines()]
    return {scope["trace_id"]: scope for scope in scopes if scope["run"]}
