"""One cached virtual environment for each agent program: frameworks pin OpenTelemetry against each other.

`requirements/NAME.txt` pins every package; it is made anew from NAME.in by

    uv pip compile --universal --no-header --python-version 3.11 NAME.in -o NAME.txt

The environment lies under .cache/agents/NAME/DIGEST, the digest being that of the pins and of the Python that runs the
tests, and is made on demand by uv from its shared download cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ROOT

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
CACHE = ROOT / ".cache" / "agents"
PATIENCE = 300  # seconds for one environment, downloads included


class Unavailable(Exception):
    """The environment can't be had here; says why."""


def python_of(name: str, *, with_onpath: bool = False, folder: Path = REQUIREMENTS) -> Path:
    """The Python of the environment for `folder/NAME.txt`, made if need be. Raises Unavailable.

    `with_onpath` has onpath itself in it, from this checkout.
    """
    pins = folder / f"{name}.txt"
    project = (ROOT / "pyproject.toml").read_bytes() if with_onpath else b""
    digest = hashlib.sha256(pins.read_bytes() + project + sys.version.encode()).hexdigest()[:16]
    place = CACHE / name / digest
    python = place / "bin" / "python"
    with one_at_a_time(CACHE / f"{name}.lock"):
        if not (place / "complete").exists():
            for outdated in (CACHE / name).glob("*"):
                shutil.rmtree(outdated)
            started = time.monotonic()
            _uv("venv", "--python", sys.executable, str(place))
            _uv("pip", "install", "--no-deps", "--python", str(python), "--requirements", str(pins))
            if with_onpath:
                _uv("pip", "install", "--no-deps", "--python", str(python), "--editable", str(ROOT))
            (place / "complete").write_text(f"{time.monotonic() - started:.1f} s\n")
    return python


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Of all processes that name the same file."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _uv(*arguments: str) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise Unavailable("there is no uv to make the environment with")
    command = [uv, "--quiet", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"uv {arguments[0]} took more than {PATIENCE} s") from None
    if done.returncode:
        raise Unavailable(f"uv {arguments[0]}: {' '.join(done.stderr.split()) or 'failed without a word'}")
