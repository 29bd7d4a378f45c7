"""What is imported by whom: the library stays light, each dependency has its job, our folders are nobody's packages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

SOURCES = {"onpath": ROOT / "processor", "onpath_collector": ROOT / "collector"}
HEAVY = ("pydantic", "yaml", "re2", "grpc", "google.protobuf")
LIBRARY, COLLECTOR = "dependencies", "collector"

# Distribution, where pyproject.toml declares it, what is imported of it, and the module or package that does the job.
JOBS = (
    ("opentelemetry-sdk", LIBRARY, "opentelemetry.sdk", "onpath.results_records"),
    ("opentelemetry-exporter-otlp", COLLECTOR, "opentelemetry.exporter.otlp", "onpath_collector.otlp"),
    ("grpcio", COLLECTOR, "grpc", "onpath_collector.receivers"),
    ("grpcio", COLLECTOR, "grpc", "onpath_collector.downstream"),
    ("protobuf", COLLECTOR, "google.protobuf", "onpath_collector.otlp"),
    ("pydantic", LIBRARY, "pydantic", "onpath.policy"),
    ("pydantic", LIBRARY, "pydantic", "onpath_collector.config"),
)


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def declared(where: str) -> set[str]:
    project = pyproject()["project"]
    lines = project["dependencies"] if where == LIBRARY else project["optional-dependencies"][where]
    return {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in lines}


def pure_core() -> list[str]:
    """The modules of the library that the import contracts keep pure, as pyproject.toml lists them."""
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    [core] = [c for c in contracts if c["name"] == "The core does no I/O and reads no clock"]
    return [name for name in core["source_modules"] if name.startswith("onpath.")]


@cache
def imports_of(package: str) -> dict[str, set[str]]:
    """Each module of a package with the dotted names that it imports, wherever in it the import stands."""
    found: dict[str, set[str]] = {}
    for file in sorted((SOURCES[package] / package).rglob("*.py")):
        name = ".".join(file.relative_to(SOURCES[package]).with_suffix("").parts).removesuffix(".__init__")
        found[name] = set(_imported(ast.parse(file.read_text(encoding="utf-8"))))
    return found


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_below(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def loaded_by(code: str, folder: Path) -> set[str]:
    """The modules in sys.modules after `code` has run in a Python of its own, away from the checkout."""
    script = f"{code}\nimport sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_library_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = loaded_by("import onpath", tmp_path)
    assert not {name for name in loaded if any(is_below(name, heavy) for heavy in HEAVY)}


def test_the_core_loads_nothing_heavy_by_way_of_others(tmp_path: Path) -> None:
    names = [name for name in imports_of("onpath") if any(is_below(name, pure) for pure in pure_core())]
    assert set(pure_core()) <= set(names)
    loaded = loaded_by("\n".join(f"import {name}" for name in names), tmp_path)
    forbidden = (*HEAVY, "opentelemetry", "onpath_collector")
    assert not {name for name in loaded if any(is_below(name, heavy) for heavy in forbidden)}


@pytest.mark.parametrize(("distribution", "where", "imported", "user"), JOBS, ids=lambda value: str(value))
def test_each_dependency_is_declared_and_does_its_job(distribution: str, where: str, imported: str, user: str) -> None:
    assert distribution in declared(where)
    modules = {name: names for name, names in imports_of(user.split(".")[0]).items() if is_below(name, user)}
    assert modules, f"there is no {user}"
    assert any(is_below(name, imported) for names in modules.values() for name in names), f"{user} uses no {imported}"


def test_what_only_the_collector_needs_is_not_asked_of_the_library() -> None:
    assert not declared(LIBRARY) & declared(COLLECTOR)
    assert not {"grpcio", "protobuf", "opentelemetry-exporter-otlp"} & declared(LIBRARY)
    for module, names in imports_of("onpath").items():
        wrong = {name for name in names if any(is_below(name, p) for p in ("grpc", "google", "onpath_collector"))}
        assert not wrong, f"{module} imports {wrong}"


@pytest.mark.parametrize("name", ["collector", "processor"])
def test_our_folders_are_no_packages(name: str, tmp_path: Path) -> None:
    assert not (ROOT / name / "__init__.py").exists()
    script = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is not None)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name} can be imported: {done.stderr}"


def test_the_wheel_holds_our_two_packages_alone() -> None:
    assert pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [
        "processor/onpath",
        "collector/onpath_collector",
    ]
