"""Builds the Collector of builder.yaml, once: `make otelcol`. The last line of standard output is the program's path.

It lies in .cache/otelcol, with a digest of builder.yaml and of Go's version beside it, and is made anew when that
changes. Ends with 0, or with 3 and a reason on standard error where it can't be had (no Go, no module proxy, no time);
with 1 when what was fetched does not compile.
`--built` builds nothing: it ends with 3 where the program isn't there already.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "otelcol"
CONFIG = HERE / "builder.yaml"
PROGRAM = CACHE / "otelcol-onpath"
STAMP = CACHE / "built-from"
PATIENCE = 1200.0  # seconds for all of it, downloads included
UNAVAILABLE = 3


class Unavailable(Exception):
    """The program can't be had here; says why."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--built", action="store_true", help="only say where it is")
    options.add_argument("--patience", type=float, default=PATIENCE, help="seconds for building it")
    given = options.parse_args()
    try:
        built(given.patience, build=not given.built)
    except Unavailable as reason:
        print(f"the OpenTelemetry Collector is left out: {reason}", file=sys.stderr)
        return UNAVAILABLE
    print(PROGRAM)
    return 0


def built(patience: float, *, build: bool) -> None:
    """Has the program there. Raises Unavailable."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("there is no Go on this machine")
    version = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    digest = hashlib.sha256(CONFIG.read_bytes() + version.encode()).hexdigest()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if PROGRAM.exists() and STAMP.exists() and STAMP.read_text() == digest:
            return
        if not build:
            raise Unavailable("it has not been built (make otelcol)")
        _build(go, time.monotonic() + patience)
        STAMP.write_text(digest)


def _build(go: str, deadline: float) -> None:
    began = time.monotonic()
    release = re.search(r"^  version: (\S+)$", CONFIG.read_text(encoding="utf-8"), re.MULTILINE)
    assert release is not None
    sources = CACHE / "sources"
    shutil.rmtree(sources, ignore_errors=True)
    sources.mkdir()
    text = CONFIG.read_text(encoding="utf-8")
    config = sources / "builder.yaml"
    config.write_text(text.replace("dist:\n", f"dist:\n  output_path: {sources}\n", 1), encoding="utf-8")
    print("onpath: building the OpenTelemetry Collector; this takes some minutes, once", file=sys.stderr, flush=True)
    _run(deadline, go, "install", f"go.opentelemetry.io/collector/cmd/builder@v{release[1]}")
    _run(deadline, str(CACHE / "builder"), "--config", str(config), "--skip-compilation")
    fresh = CACHE / "fresh"
    _run(deadline, go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(fresh), ".", cwd=sources)
    fresh.replace(PROGRAM)
    print(f"onpath: built in {time.monotonic() - began:.0f} s", file=sys.stderr)


def _run(deadline: float, *command: str, cwd: Path = CACHE) -> None:
    """At low priority and on two cores: others work on this machine."""
    settings = {**os.environ, "GOBIN": str(CACHE), "CGO_ENABLED": "0", "GOFLAGS": "-p=2 -buildvcs=false"}
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    left = max(1.0, deadline - time.monotonic())
    try:
        done = subprocess.run(
            [*nice, *command], cwd=cwd, env=settings, capture_output=True, text=True, timeout=left, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{Path(command[0]).name} {command[1]} did not end in time") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-600:]
        told = f"{Path(command[0]).name} {command[1]} failed: {said or 'without a word'}"
        if command[1] == "build":  # all modules are there
            sys.exit(told)
        raise Unavailable(told)


if __name__ == "__main__":
    sys.exit(main())
