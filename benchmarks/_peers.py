"""Collectors under load: onpath, and others that forward what they receive. Each is a process with its defaults."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
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
OTELCOL = ROOT / "deploy" / "otelcol"
AGENTEVALS = "agentevals-cli==0.11.0"

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
        with _running(process, address):
            yield process, address


def otelcol_program() -> Path | None:
    """The OpenTelemetry Collector of `make otelcol`; None where it has not been built."""
    done = subprocess.run([sys.executable, str(OTELCOL / "build.py"), "--built"], capture_output=True, text=True)
    return Path(done.stdout.strip()) if done.returncode == 0 else None


@contextmanager
def otelcol(program: Path, downstream: str, *over: str) -> Iterator[tuple[Process, str]]:
    """Receives over OTLP/gRPC and forwards over it; `over` names configurations laid over that."""
    address = f"127.0.0.1:{free_port()}"
    settings = {"OTLP_GRPC": address, "DOWNSTREAM": downstream, "METRICS_PORT": str(free_port())}
    configs = [f"--config={OTELCOL / name}.yaml" for name in ("forward", *over)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([str(program), *configs], stderr=quiet, text=True, env={**os.environ, **settings})
    with _running(process, address):
        yield process, address


def agentevals_program() -> Path | None:
    """`agentevals` from PyPI, in a cached environment of its own; None where it can't be had."""
    place = ROOT / ".cache" / "bench" / AGENTEVALS
    program = place / "bin" / "agentevals"
    if program.exists():
        return program
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        return None
    made = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)]
    filled = [uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), AGENTEVALS]
    try:
        done = [subprocess.run(command, capture_output=True, timeout=300) for command in (made, filled)]
    except subprocess.TimeoutExpired:
        return None
    return program if not any(each.returncode for each in done) and program.exists() else None


@contextmanager
def agentevals(program: Path) -> Iterator[tuple[Process, str]]:
    """Receives over OTLP/gRPC and keeps what it gets; forwards nothing."""
    address = f"127.0.0.1:{free_port()}"
    options = ["--headless", "--host", "127.0.0.1", "--port", str(free_port()), "--api-grpc-port", "0"]
    options += ["--otlp-grpc-port", address.rpartition(":")[2], "--otlp-http-port", str(free_port())]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([str(program), "serve", *options], stdout=quiet, stderr=quiet, text=True)
    with _running(process, address):
        yield process, address


@contextmanager
def _running(process: Process, address: str) -> Iterator[None]:
    try:
        _wait_for(address)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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
