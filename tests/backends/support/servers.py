"""Real backends, each in its cached environment, serving on loopback until the tests are over."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.agents.support.venvs import python_of
from tests.support.waiting import until

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
PATIENCE = 180  # seconds for a first start, which compiles what it imports and makes its tables


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """`with Server(...) as server`: it answers at `url`. Raises venvs.Unavailable without an environment."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._scripts = python_of(name, folder=REQUIREMENTS).parent

    def __enter__(self) -> Server:
        command, extra = self.command()
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        self._output = (self.folder / f"{self.name}.log").open("w+")
        self._process = subprocess.Popen(
            [str(self._scripts / command[0]), *command[1:]],
            env={**kept, **extra, "NO_PROXY": "127.0.0.1", "DO_NOT_TRACK": "true"},
            cwd=self.folder,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        try:
            until(self._answers, lambda: f"{self.name}; it said:\n{self.log}", PATIENCE)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def command(self) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    @property
    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text(errors="replace")[-3000:]

    def get(self, path: str) -> Any:
        """JSON at a path; None where it answers 404."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError(f"{self.name} ended with {self._process.returncode}:\n{self.log}")
        try:
            with urllib.request.urlopen(self.url + "/", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()


class Phoenix(Server):
    """Takes OTLP/gRPC at `grpc`, OTLP/HTTP at `url`."""

    def __init__(self, folder: Path) -> None:
        super().__init__("phoenix", folder)
        self._grpc_port = free_port()
        self.grpc = f"grpc://127.0.0.1:{self._grpc_port}"

    def command(self) -> tuple[list[str], dict[str, str]]:
        return ["phoenix", "serve"], {
            "PHOENIX_WORKING_DIR": str(self.folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(self.port),
            "PHOENIX_GRPC_PORT": str(self._grpc_port),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }


class MLflow(Server):
    """Takes OTLP/HTTP at `url`, with the experiment's id in a header."""

    def __init__(self, folder: Path) -> None:
        super().__init__("mlflow", folder)

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [
            "mlflow",
            "server",
            *("--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}"),
            *("--artifacts-destination", str(self.folder / "artifacts")),
        ], {"MLFLOW_DISABLE_TELEMETRY": "true"}
