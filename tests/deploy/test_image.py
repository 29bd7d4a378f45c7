"""The image of deploy/Dockerfile, built and run: it judges, and writes nowhere but where it may. `pytest -m peers`."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import ROOT
from tests.deploy.support import image
from tests.deploy.support.mounted import Mounted
from tests.integration.test_admin import agent_run
from tests.support.collector import PORTS, READY
from tests.support.processes import Child
from tests.support.waiting import until

pytestmark = pytest.mark.peers

POLICY = """
version: 1
workflows:
  - name: refund
    adherence: {expected_steps: [lookup_user], required_steps: [lookup_user], extract_from: tool_calls}
"""
CONFIG = """
receivers: {grpc: {endpoint: "127.0.0.1:0"}, http: {endpoint: "127.0.0.1:0"}}
buffer: {settle_delay: 500ms, memory_limit: 128MiB}
durability: {mode: journal, directory: /var/lib/onpath/journal}
results: {report_file: /var/lib/onpath/reports.jsonl}
admin: {endpoint: "127.0.0.1:0", bearer_token_files: [/etc/onpath/admin/token]}
evaluate: {workers: 1}
policy: /etc/onpath/policy/policy.yaml
"""
MEBIBYTE = 1 << 20


def test_it_is_small_and_has_no_shell(onpath_image: image.Image) -> None:
    assert onpath_image.size < 160 * MEBIBYTE
    folders = [onpath_image.root / name for name in ("bin", "usr/bin", "sbin", "usr/sbin")]
    programs = {path.name for folder in folders for path in folder.glob("*")}
    assert "python3.11" in programs
    assert not programs & {"sh", "bash", "dash", "busybox", "apt", "apt-get", "dpkg", "pip", "perl"}
    files = [path for path in onpath_image.root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in files if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)] == []


def test_it_says_what_it_is(onpath_image: image.Image) -> None:
    config = onpath_image.config
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["onpath"]
    assert config["Healthcheck"]["Test"] == ["CMD", "onpath", "health"]
    assert "Volumes" not in config or not config["Volumes"]
    labels = config["Labels"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert labels["org.opencontainers.image.version"] == project["version"]
    assert labels["org.opencontainers.image.licenses"] == project["license"]


def test_its_bill_of_materials_is_what_the_lock_names(onpath_image: image.Image) -> None:
    bill = json.loads((onpath_image.root / "opt/onpath/sbom.cdx.json").read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    listed = {c["name"].lower().replace("_", "-"): c["version"] for c in bill["components"]}
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    locked = {package["name"]: package.get("version") for package in lock["package"]}
    assert {"grpcio", "pydantic", "opentelemetry-sdk"} <= listed.keys()
    listed.pop("onpath", None)
    assert listed == {name: locked[name] for name in listed}


def test_it_judges_and_writes_nowhere_else(onpath_image: image.Image, open_folder: Path, tmp_path: Path) -> None:
    before = everything_in(onpath_image.root)
    run_it(onpath_image, open_folder, tmp_path)
    for path in (open_folder / "data").rglob("*"):
        assert path.stat().st_uid == 10001, path
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert everything_in(onpath_image.root) == before


def everything_in(root: Path) -> dict[str, tuple[int, int]]:
    """But for folders: the runtime makes those that something is mounted on."""
    found = {str(path): path.lstat() for path in root.rglob("*")}
    return {path: (s.st_mtime_ns, s.st_size) for path, s in found.items() if not stat.S_ISDIR(s.st_mode)}


def run_it(onpath_image: image.Image, folder: Path, runtime: Path) -> None:
    """As Kubernetes would: ConfigMaps and a Secret as links, the Secret and the volume of root and of group 10001."""
    Mounted(folder / "config", {"onpath.yaml": CONFIG})
    policy = Mounted(folder / "policy", {"policy.yaml": POLICY})
    secret = Mounted(folder / "admin", {"token": "open sesame"}, mode=0o440)
    os.chown(secret.folder / "token", 0, 10001)
    data = folder / "data"
    data.mkdir()
    os.chown(data, 0, 10001)
    data.chmod(0o2775)
    mounts = {f"/etc/onpath/{name}": (folder / name, "ro") for name in ("config", "policy", "admin")}
    arguments = [*onpath_image.config["Entrypoint"], "collector", "--config", "/etc/onpath/config/onpath.yaml"]
    child = Child(onpath_image.command(runtime / "collector", arguments, {**mounts, "/var/lib/onpath": (data, "rw")}))
    try:
        ports = dict(PORTS.findall(child.wait_for_line(READY, 60).string))
        for option in ([], ["--live"]):
            probe = [*onpath_image.config["Healthcheck"]["Test"][1:], "--admin", ports["admin"], *option]
            done = subprocess.run(onpath_image.command(runtime / "probe", probe), capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
        assert status(ports["admin"], "/healthz") == 200
        assert status(ports["admin"], "/metrics") == 401
        assert status(ports["admin"], "/metrics", "open sesame") == 200
        trace_id = agent_run(SimpleNamespace(ports=ports), "lookup_user")
        reports = data / "reports.jsonl"
        until(lambda: reports.exists() and reports.read_text(encoding="utf-8"), lambda: f"a report:\n{child.output}")
        (result,) = map(json.loads, reports.read_text(encoding="utf-8").splitlines())
        assert (result["trace_id"], result["verdict"]) == (trace_id, "pass")
        policy.change({"policy.yaml": POLICY.replace("refund", "refunds")})
        child.wait_for_line("policy reloaded")
    finally:
        code = child.stop()
    assert code == 0, child.output
    assert "Traceback" not in child.output
    assert not re.search(r"(?i)permission|read-only", child.output), child.output


def status(address: str, path: str, token: str | None = None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"http://{address}{path}", headers=headers), timeout=10
        ) as a:
            return int(a.status)
    except urllib.error.HTTPError as error:
        return error.code
