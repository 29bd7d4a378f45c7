"""Collectors under load: onpath, and others that forward what they receive. Each is a process with its defaults."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

from benchmarks._load import free_port

ROOT = Path(__file__).resolve().parent.parent
POLICY = ROOT / "deploy" / "policies" / "refund.yaml"

Process = subprocess.Popen[str]


@contextmanager
def onpath(options: Sequence[str], policy: Path | None = POLICY) -> Iterator[tuple[Process, str]]:
    """The process and the address of its OTLP/gRPC receiver."""
    any_ports = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    command = [sys.executable, "-m", "onpath.cli", "collector", *any_ports, *options]
    command += [] if policy is None else ["--policy", str(policy)]
    settings = {**os.environ, "ONPATH_BUFFER__SETTLE_DELAY": "500ms"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings)
    assert process.stderr is not None
    told = (re.search(r"OTLP/gRPC on (\S+?),", line) for line in process.stderr)
    address = next(found[1] for found in told if found is not None)
    drain = futures.ThreadPoolExecutor(1)
    drain.submit(process.stderr.read)
    try:
        yield process, address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def rotel_program() -> Path | None:
    """Of the package `rotel` on PyPI, a collector written in Rust; None where it is not installed."""
    found = importlib.util.find_spec("rotel")
    if found is None or found.origin is None:
        return None
    program = Path(found.origin).parent / "rotel-agent"
    return program if program.exists() else None


@contextmanager
def rotel(program: Path, downstream: str) -> Iterator[tuple[Process, str]]:
    """Receives over OTLP/gRPC and forwards over it."""
    address = f"127.0.0.1:{free_port()}"
    options = {
        "--otlp-grpc-endpoint": address,
        "--otlp-http-endpoint": f"127.0.0.1:{free_port()}",
        "--otlp-grpc-max-recv-msg-size-mib": "64",
        "--exporter": "otlp",
        "--otlp-exporter-endpoint": f"http://{downstream}",
        "--otlp-exporter-protocol": "grpc",
        "--otlp-exporter-compression": "none",
    }
    with tempfile.TemporaryDirectory() as folder:
        options["--pid-file"] = f"{folder}/pid"
        command = [str(program), "start", *(part for option in options.items() for part in option)]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=quiet, stderr=quiet, text=True)
        try:
            _wait_for(address)
            yield process, address
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _wait_for(address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"nothing listens on {address}")
