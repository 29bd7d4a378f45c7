"""Tools that check what is deployed: Go programs built from their modules once, and packages in a cached environment.

A program lies under .cache/deploy/NAME-VERSION; Unavailable says why it can't be had here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.agents.support.venvs import Unavailable, one_at_a_time, python_of
from tests.conftest import ROOT

__all__ = ["Unavailable", "go_program", "hadolint", "kubernetes_schemas", "run"]

CACHE: Final = ROOT / ".cache" / "deploy"
PATIENCE: Final = 600  # seconds for building one program, downloads included
PROGRAMS: Final = {  # the package and version of each
    "helm": ("helm.sh/helm/v4/cmd/helm", "v4.3.1"),
    "kubeconform": ("github.com/yannh/kubeconform/cmd/kubeconform", "v0.8.0"),
    "kustomize": ("sigs.k8s.io/kustomize/kustomize/v5", "v5.7.1"),
    "compose": ("github.com/compose-spec/compose-go/v2/cmd", "v2.16.2"),
}
KUBERNETES: Final = ("1.29.0", "1.37.0")  # the first with native sidecars, and the newest that there is a schema of
_REQUIREMENTS: Final = ROOT / "tests" / "deploy" / "requirements"


def go_program(name: str) -> Path:
    """Built if need be. Raises Unavailable."""
    package, version = PROGRAMS[name]
    folder = CACHE / f"{name}-{version}"
    program = folder / name
    go = shutil.which("go")
    with one_at_a_time(CACHE / f"{name}.lock"):
        if program.exists():
            return program
        if go is None:
            raise Unavailable("there is no Go on this machine")
        with tempfile.TemporaryDirectory(dir=CACHE) as fresh:
            environment = {**os.environ, "GOBIN": fresh}
            command = [go, "install", "-trimpath", "-ldflags=-s -w", f"{package}@{version}"]
            try:
                done = run(command, patience=PATIENCE, environment=environment)
            except subprocess.TimeoutExpired:
                raise Unavailable(f"building {name} took more than {PATIENCE} s") from None
            if done.returncode:
                raise Unavailable(f"{name}: {' '.join(done.stderr.split())[-300:]}")
            folder.mkdir(exist_ok=True)
            (built,) = Path(fresh).iterdir()
            built.replace(program)
    return program


def kubernetes_schemas() -> str:
    """Where kubeconform finds the strict schemas of KUBERNETES, as it wants to be told. Raises Unavailable.

    The package that has them names them by addresses on the web; without these they refer to each other as files.
    """
    python = python_of("deploy-tools", folder=_REQUIREMENTS)
    told = run([str(python), "-c", "import kubernetes_validate; print(kubernetes_validate.__path__[0])"])
    made_for = python.parents[1].name
    schemas = CACHE / "schemas"
    with one_at_a_time(CACHE / "schemas.lock"):
        for version in KUBERNETES:
            folder = schemas / f"v{version}-{made_for}"
            if not folder.exists():
                source = Path(told.stdout.strip(), "kubernetes-json-schema", f"v{version}-local-strict")
                _as_files(source, folder)
    return f"{schemas}/{{{{.NormalizedKubernetesVersion}}}}-{made_for}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def _as_files(source: Path, folder: Path) -> None:
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for file in source.glob("*.json"):
        text = file.read_text(encoding="utf-8").replace('"/api/_definitions.json', '"_definitions.json')
        schema = json.loads(text)
        schema.pop("$id", None)
        (fresh / file.name).write_text(json.dumps(schema), encoding="utf-8")
    fresh.replace(folder)


def hadolint() -> Path:
    """Raises Unavailable."""
    return python_of("deploy-tools", folder=_REQUIREMENTS).parent / "hadolint"


def run(
    command: Sequence[str], *, patience: float = 120, environment: dict[str, str] | None = None, given: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=given, env=environment, capture_output=True, text=True, timeout=patience, check=False
    )
