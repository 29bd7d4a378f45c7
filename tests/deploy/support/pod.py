"""A pod in miniature: the collector's container of a manifest, run by runc as the manifest says it.

    manifest -> arguments, variables, limits, volumes as the kubelet lays them -> runc, in a network of its own

Probes are carried out as the kubelet does: commands inside the container, requests in the pod's network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onpath_collector.config import Settings
from onpath_collector.listening import parse_address
from tests.conftest import ROOT
from tests.deploy.support.image import Image, Pod
from tests.deploy.support.manifests import Rendered, size
from tests.deploy.support.mounted import Mounted
from tests.support.processes import Child

TOKEN: Final = "open sesame"

ASK: Final = """
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]} if sys.argv[2] else {})
try:
    print(urllib.request.urlopen(request, timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
except urllib.error.URLError:
    print(0)  # nobody listens yet
"""
SEND: Final = """
import sys
from types import SimpleNamespace
from tests.integration.test_admin import agent_run
print(agent_run(SimpleNamespace(ports={"OTLP/HTTP": sys.argv[1]}), *sys.argv[2:]))
"""


@dataclass(slots=True)
class Running:
    """`child` is the container's process, `name` what runc calls it; `config_maps` and `data` what is mounted."""

    found: Rendered
    settings: Settings
    child: Child
    name: str
    config_maps: dict[str, Mounted]
    data: Path

    def probe(self, which: str) -> bool:
        probe = self.found.collector[which]
        if "exec" in probe:
            command = ["runc", "exec", "--user", "10001:10001", self.name, *probe["exec"]["command"]]
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        return self._is_there() and self.status(probe["httpGet"]["path"]) == 200

    def _is_there(self) -> bool:
        return subprocess.run(["runc", "state", self.name], capture_output=True, check=False).returncode == 0

    def start(self) -> None:
        """As often as the startup probe is allowed to fail. Raises AssertionError."""
        probe = self.found.collector["startupProbe"]
        for _ in range(probe["failureThreshold"]):
            if self.probe("startupProbe"):
                return
            time.sleep(probe["periodSeconds"])
        raise AssertionError(self.child.output)

    def status(self, path: str, token: str = "") -> int:
        port = parse_address(self.settings.admin.endpoint)[1]
        return int(self.within(ASK, f"http://127.0.0.1:{port}{path}", token))

    def send(self, *tools: str) -> str:
        """A run of an agent in the same pod, over HTTP; its trace id."""
        return self.within(SEND, f"127.0.0.1:{parse_address(self.settings.receivers.http.endpoint)[1]}", *tools)

    def within(self, program: str, *arguments: str) -> str:
        """What a program prints that runs in the pod's network. Raises CalledProcessError."""
        told = json.loads(subprocess.run(["runc", "state", self.name], capture_output=True, check=True).stdout)
        command = ["nsenter", f"--net=/proc/{told['pid']}/ns/net", sys.executable, "-c", program, *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def running(image: Image, found: Rendered, settings: Settings, folder: Path, runtime: Path) -> Iterator[Running]:
    """`folder` has to be one that others can enter. Leaving kills what still runs."""
    container = found.collector
    config_maps: dict[str, Mounted] = {}
    mounts: dict[str, tuple[Path, str]] = {}
    data = folder / "data"
    for mount in container["volumeMounts"]:
        at = mount["mountPath"]
        volume = found.volume_at(at)
        place = folder / volume["name"]
        if "configMap" in volume:
            files = found.named("ConfigMap", volume["configMap"]["name"])["data"]
            config_maps[volume["configMap"]["name"]] = Mounted(place, files)
        elif "secret" in volume:
            secret = Mounted(place, {"token": TOKEN}, mode=volume["secret"]["defaultMode"])
            os.chown(secret.folder / "token", 0, found.pod["securityContext"]["fsGroup"])
        elif at != "/tmp":
            place = data
            data.mkdir()
            os.chown(data, 0, found.pod["securityContext"]["fsGroup"])
            data.chmod(0o2775)
        if at != "/tmp":
            mounts[at] = (place, "ro" if mount.get("readOnly") else "rw")
    limits = container["resources"]["limits"]
    variables = tuple(f"{v['name']}={v['value']}" for v in container.get("env", ()))
    pod = Pod(variables, size(limits["memory"]), float(limits["cpu"]))
    command = image.command(runtime, [*image.config["Entrypoint"], *container["args"]], mounts, pod)
    child = Child(command)
    try:
        yield Running(found, settings, child, command[-1], config_maps, data)
    finally:
        subprocess.run(["runc", "delete", "--force", command[-1]], capture_output=True, check=False)
        child.wait()


def verdicts(output: str) -> dict[str, Any]:
    """Of the log's JSON lines, by trace id."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {line["trace_id"]: line["verdict"] for line in lines if "verdict" in line and "trace_id" in line}
