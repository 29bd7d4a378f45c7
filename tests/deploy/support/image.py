"""The image built and run for real, without a registry and without Docker: by buildah and runc, from Debian's packages.

    debootstrap -> stand-in for debian:12-slim     -> BUILD_IMAGE    \\
                                                                       buildah -> image -> runc, read-only, uid 10001
    apt-get download -> stand-in for distroless     -> RUNTIME_IMAGE  /

The stand-ins are made once, in the user's cache (they are the same for every checkout), and hold the packages that the
real ones hold.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from tests.agents.support.venvs import Unavailable
from tests.conftest import ROOT

STORE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onpath" / "images"
BUILD_BASE: Final = "localhost/onpath-test/debian:12-slim"
RUNTIME_BASE: Final = "localhost/onpath-test/python3-debian12:nonroot"
IMAGE: Final = "localhost/onpath-test/onpath"
LEFT: Final = 8  # images of former builds, for their layers
PATIENCE: Final = 300  # seconds for one command
OFFLINE: Final = re.compile(
    r"(?i)failed to fetch|could not resolve|temporary failure|connection (refused|reset|timed)|, timed out$"
)
AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"
NEEDED: Final = ("buildah", "debootstrap", "runc", "dpkg-deb")
# Of gcr.io/distroless/python3-debian12, by its build files.
RUNTIME_PACKAGES: Final = (
    *("base-files", "netbase", "tzdata", "libc6", "libssl3", "libgcc-s1", "libgomp1", "libstdc++6"),
    *("libbz2-1.0", "libdb5.3", "libexpat1", "liblzma5", "libsqlite3-0", "libuuid1", "libncursesw6", "libtinfo6"),
    *("zlib1g", "libcom-err2", "libcrypt1", "libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkrb5-3"),
    *("libkrb5support0", "libnsl2", "libreadline8", "libtirpc3", "libffi8"),
    *("libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal"),
)


class BuildError(Exception):
    """The Dockerfile does not build; with the last of what was said."""


def build() -> None:
    """IMAGE, from this checkout. Raises Unavailable where its bases or packages can't be had, else BuildError."""
    _check()
    STORE.mkdir(parents=True, exist_ok=True)
    have = json.loads(_buildah("images", "--json").stdout or "null") or []
    names = {name for image in have for name in image.get("names") or ()}
    for name, make in ((BUILD_BASE, _debian), (RUNTIME_BASE, _distroless)):
        if name not in names:
            _import(name, make)
    if sum(not image.get("names") for image in have) > LEFT:
        _buildah("rmi", "--prune")
    options = {"--format": "docker", "--network": "host", "--tag": IMAGE, "--file": str(ROOT / "deploy" / "Dockerfile")}
    bases = ("--build-arg", f"BUILD_IMAGE={BUILD_BASE}", "--build-arg", f"RUNTIME_IMAGE={RUNTIME_BASE}")
    authorities = ("--volume", f"{AUTHORITIES}:{AUTHORITIES}:ro")
    try:
        _buildah("build", "--layers", "--force-rm", *chain(*options.items()), *bases, *authorities, str(ROOT))
    except Unavailable as reason:
        if OFFLINE.search(str(reason)):
            raise
        raise BuildError(str(reason)) from None


def _check() -> None:
    if os.geteuid() != 0:
        raise Unavailable("images are built by root here")
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        raise Unavailable(f"needs {', '.join(missing)}: apt-get install buildah debootstrap runc")
    if 'VERSION_ID="12"' not in Path("/etc/os-release").read_text(encoding="utf-8"):
        raise Unavailable("its bases are made of the packages of Debian 12, which this is not")


def _buildah(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Raises Unavailable, with what it said at the end."""
    storage = STORE / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{STORE}/graph"\nrunroot = "{STORE}/run"\n', encoding="utf-8"
    )
    environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage), "BUILDAH_ISOLATION": "chroot"}
    return _ran(["buildah", *arguments], environment=environment)


def _ran(
    command: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command[:2])} took more than {PATIENCE} s, timed out") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:2])}: {(done.stderr or done.stdout)[-2000:]}")
    return done


def _import(name: str, make: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=STORE) as folder:
        root = Path(folder) / "root"
        root.mkdir(mode=0o755)
        make(root)
        container = _buildah("from", "scratch").stdout.strip()
        _buildah("add", "--quiet", container, str(root), "/")
        _buildah("commit", "--quiet", "--rm", container, name)


def _debian(root: Path) -> None:
    _ran(["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(root)])


def _distroless(root: Path) -> None:
    with tempfile.TemporaryDirectory(dir=STORE) as folder:
        _ran(["apt-get", "download", *RUNTIME_PACKAGES], Path(folder))
        for package in sorted(Path(folder).glob("*.deb")):
            _ran(["dpkg-deb", "--extract", str(package), str(root)])
    for name in ("python", "python3"):
        (root / "usr" / "bin" / name).symlink_to("python3.11")
    (root / "etc" / "ssl" / "certs").mkdir(parents=True, exist_ok=True)
    shutil.copy(AUTHORITIES, root / AUTHORITIES[1:])
    (root / "tmp").chmod(0o1777)
    for name in ("doc", "man", "locale"):
        shutil.rmtree(root / "usr" / "share" / name, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Pod:
    """What a pod gives a container: variables as NAME=VALUE, limits of memory (bytes) and of cores."""

    variables: tuple[str, ...]
    memory: int
    cores: float


@dataclass(frozen=True, slots=True)
class Image:
    """What was built, unpacked at `root`; `size` is in bytes, its base included."""

    root: Path
    size: int
    config: Mapping[str, Any]

    def command(
        self,
        folder: Path,
        arguments: Sequence[str],
        mounts: Mapping[str, tuple[Path, str]] | None = None,
        pod: Pod | None = None,
    ) -> list[str]:
        """What runs `arguments` in it as the manifests do: read-only, uid 10001, no capabilities, /tmp in memory.

        `folder` is for the runtime. `mounts` are paths here and ro or rw, by path in the container. Without a pod it
        shares the network of this machine.
        """
        binds = [
            {"destination": at, "type": "bind", "source": str(source), "options": ["bind", mode, "nosuid", "nodev"]}
            for at, (source, mode) in (mounts or {}).items()
        ]
        options = ["size=16m", "mode=1777", "nosuid", "nodev", "noexec"]
        tmp = {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": options}
        folder.mkdir(exist_ok=True)
        path = folder / "config.json"
        path.unlink(missing_ok=True)
        _ran(["runc", "spec"], folder)
        spec = json.loads(path.read_text(encoding="utf-8"))
        spec["root"] = {"path": str(self.root), "readonly": True}
        spec["mounts"] = [m for m in spec["mounts"] if not m["destination"].startswith("/sys")] + [tmp, *binds]
        shared = ("cgroup",) if pod else ("cgroup", "network")
        spec["linux"]["namespaces"] = [n for n in spec["linux"]["namespaces"] if n["type"] not in shared]
        if pod:
            cpu = {"quota": int(pod.cores * 100_000), "period": 100_000}
            spec["linux"]["resources"].update(memory={"limit": pod.memory}, cpu=cpu)
        spec["process"] = {
            "user": {"uid": 10001, "gid": 10001},
            "args": [*arguments],
            "env": [*self.config["Env"], *(pod.variables if pod else ())],
            "cwd": "/",
            "noNewPrivileges": True,
        }
        path.write_text(json.dumps(spec), encoding="utf-8")
        return ["runc", "run", "--bundle", str(folder), f"onpath-{os.getpid()}-{folder.name}"]


@contextmanager
def built() -> Iterator[Image]:
    """The image of this checkout. Raises Unavailable where it can't be built here."""
    build()
    container = _buildah("from", "--pull-never", IMAGE).stdout.strip()
    try:
        root = Path(_buildah("mount", container).stdout.strip())
        told = json.loads(_buildah("inspect", "--type", "image", IMAGE).stdout)
        (listed,) = json.loads(_buildah("images", "--json", IMAGE).stdout)
        yield Image(root, _bytes_of(listed["size"]), told["Docker"]["config"])
    finally:
        _buildah("rm", container)


def _bytes_of(size: str) -> int:
    number, unit = size.split()
    return int(float(number) * {"KB": 10**3, "MB": 10**6, "GB": 10**9}[unit])
