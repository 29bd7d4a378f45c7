"""The OpenTelemetry Collector of deploy/otelcol as a child process, and a name on loopback that it and gateways share.

names = Names(folder)            an /etc/hosts of their own, for the processes started as `names.within` says
with Balancer(program(), names, port) as balancer: ...   gateway.yaml, listening at `balancer.address`
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType

import pytest

from tests.conftest import ROOT
from tests.support.durable import free_address
from tests.support.processes import Child
from tests.support.waiting import until

DEPLOY = ROOT / "deploy" / "otelcol"
PATIENCE = 600  # seconds for a first build, downloads included; the tests have a limit too


def program() -> Path:
    """Built if need be; skips where it can't be had."""
    path, reason = _built()
    if path is None:
        pytest.skip(reason)
    return path


@cache
def _built() -> tuple[Path | None, str]:
    """Asked for once: what can't be had is not tried again for each test."""
    command = [sys.executable, str(DEPLOY / "build.py"), "--patience", str(PATIENCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        return None, done.stderr.strip().splitlines()[-1]
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.split()[-1]), ""


class Names:
    """The name NAME, in a mount namespace of each process; skips where there are none to be had."""

    NAME = "gateways.test"

    def __init__(self, folder: Path) -> None:
        self._hosts = folder / "hosts"
        self.point_to([])
        if shutil.which("unshare") is None or subprocess.run(self.within(["true"]), check=False).returncode:
            pytest.skip("this machine gives no mount namespaces, which names on loopback need")

    def within(self, command: Sequence[str]) -> list[str]:
        """The same process, in the end: a signal to it is one to the command."""
        user = [] if os.getuid() == 0 else ["--map-root-user"]
        shell = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", *user, "sh", "-c", shell, str(self._hosts), *command]

    def point_to(self, addresses: Sequence[str]) -> None:
        lines = ["127.0.0.1 localhost", *(f"{address} {self.NAME}" for address in addresses)]
        self._hosts.write_text("\n".join(lines) + "\n", encoding="utf-8")  # the same file: it is mounted


class Balancer:
    """The Collector with gateway.yaml, and what is laid over it, in front of the gateways at `port`.

    They are found by name, or are those at `hosts`, where static.yaml is laid over it.
    """

    def __init__(self, program: Path, names: Names, port: int, *over: Path, hosts: Sequence[str] = ()) -> None:
        self.address, http, health, metrics = (free_address() for _ in range(4))
        self._metrics = metrics
        self._health = health
        configs = [f"--config={path}" for path in (DEPLOY / "gateway.yaml", *over)]
        settings = {
            "OTLP_GRPC": self.address,
            "OTLP_HTTP": http,
            "HEALTH": health,
            "METRICS_PORT": metrics.rpartition(":")[2],
            "ONPATH_GATEWAYS": f"[{', '.join(f'{host}:{port}' for host in hosts)}]" if hosts else names.NAME,
            "ONPATH_GATEWAY_PORT": str(port),
        }
        self._command = names.within([str(program), *configs])
        self._env = {**os.environ, **settings}

    def __enter__(self) -> Balancer:
        self.process = Child(self._command, env=self._env)
        try:
            self.process.wait_for_line("Everything is ready")
        except BaseException:
            self.process.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        code = self.process.stop()
        if error is None:
            assert code == 0, f"the Collector ended with {code}:\n{self.process.output}"

    def counted(self, name: str) -> float:
        """The sum of a metric over its labels; 0 for one that has not been seen."""
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))

    def wait_until_sent(self, patience: float = 60) -> None:
        """Until its queue is empty, and stays so."""
        quiet = 0

        def empty() -> bool:
            nonlocal quiet
            quiet = quiet + 1 if self.counted("otelcol_exporter_queue_size") == 0 else 0
            return quiet >= 20

        until(empty, lambda: f"an empty queue:\n{self.process.output[-2000:]}", patience)
