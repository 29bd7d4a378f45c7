"""Runs vector files: JSON with cases and right answers. `pytest tests/vectors --vectors DIR` runs every file in DIR.

A file's kind is told by its shape; `run_KIND.py` beside this file holds `run(case) -> list[str]`, the mismatches of one
case. A kind without a runner is skipped as a whole, with a count. Without --vectors: the shared files, else the
fixtures, a tenth of each.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, SHARED

Runner = Callable[[dict[str, Any]], list[str]]


def kind_of(document: Any) -> str:
    if isinstance(document, dict) and "cases" in document:
        return "plan"
    first = document[0] if isinstance(document, list) and document else {}
    for key, kind in (("config", "adherence"), ("spec", "flow"), ("traces", "field")):
        if isinstance(first, dict) and key in first:
            return kind
    return "unknown"


def cases_of(document: Any) -> list[dict[str, Any]]:
    """One dict a case; what a file says for all of its cases is put under `shared`."""
    if isinstance(document, dict):
        common = {k: v for k, v in document.items() if k != "cases"}
        return [{**case, "shared": common} for case in document["cases"]]
    return list(document)


def runner_of(kind: str) -> Runner | None:
    name = f"tests.vectors.run_{kind}"
    if not (Path(__file__).parent / f"run_{kind}.py").exists():
        return None
    runner: Runner = importlib.import_module(name).run
    return runner


def folder(config: pytest.Config) -> Path:
    given = config.getoption("--vectors")
    if given:
        return Path(given)
    return SHARED / "vectors" if (SHARED / "vectors").is_dir() else FIXTURES / "vectors"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    params = []
    files = sorted(folder(metafunc.config).glob("*.json"))
    if not files:
        raise pytest.UsageError(f"no vector files (*.json) in {folder(metafunc.config)}")
    for path in files:
        document = json.loads(path.read_text(encoding="utf-8"))
        kind, cases = kind_of(document), cases_of(document)
        runner = runner_of(kind)
        if runner is None:
            mark = pytest.mark.skip(f"{len(cases)} cases of kind {kind}: not built yet")
            params.append(pytest.param(None, None, id=path.stem, marks=mark))
            continue
        params += [pytest.param(runner, case, id=f"{path.stem}:{case['id']}") for case in cases]
    metafunc.parametrize(("runner", "case"), params)


def test_vector(runner: Runner, case: dict[str, Any]) -> None:
    mismatches = runner(case)
    assert not mismatches, f"{case['id']}: " + "; ".join(mismatches)
