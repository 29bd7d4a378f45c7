"""Policy files -> Policy: the one way in. All is checked before anything runs, all problems are told at once.

Data flow: paths, text or data -> Source (files, yaml) -> entries (forms) -> Workflow and its meaning, one at a time ->
Policy with a fingerprint over the meanings. Nothing here judges a trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onpath.policy.files import Source, find, read_source
from onpath.policy.fingerprint import fingerprint
from onpath.policy.forms import Entry, entries_of
from onpath.policy.model import Policy
from onpath.policy.problems import PolicyError as PolicyError
from onpath.policy.problems import Problem, Problems
from onpath.policy.workflow import Loaded, load_workflow
from onpath.policy.yaml import Document, read_text


def load_policy(paths: Sequence[str | Path], *, strict_inputs: bool = True) -> Policy:
    """The policy in files, or in the files of folders, all together. Raises PolicyError with all problems.

    `strict_inputs` False leaves out plan.md's check of undeclared inputs, whatever a plan says. A file of a folder that
    another one takes in as its contract is no policy by itself.
    """
    sources = [read_source(path, from_folder) for path, from_folder in find(paths)]
    if not sources:
        said = "no policy file (*.yaml, *.yml, *.json) is here"
        raise PolicyError(Problem("", said, file=str(path)) for path in paths or ["policy"])
    return _load(sources, strict_inputs)


def load_text(text: str, name: str, folder: Path | None = None, *, strict_inputs: bool = True) -> Policy:
    """The policy in a text that lies, or would lie, under the file name `name` in `folder`. Raises PolicyError."""
    return _load([Source(read_text(text, name), folder)], strict_inputs)


def load_data(data: Any, name: str = "policy", folder: Path | None = None, *, strict_inputs: bool = True) -> Policy:
    """The policy in plain values, as JSON has them; `name` stands in problems. Raises PolicyError."""
    return _load([Source(Document(name, data), folder)], strict_inputs)


def _load(sources: Sequence[Source], strict_inputs: bool) -> Policy:
    read = [(source, *_read(source, strict_inputs)) for source in sources]
    contracts = {path for source in sources for path in source.contract_paths}
    kept = [r for r in read if not (r[0].from_folder and r[0].path and r[0].path.resolve() in contracts)]
    loaded = [workflow for _, found, _ in kept for workflow in found]
    problems = Problems()
    for _, _, faults in kept:
        problems.absorb(faults, "")
    problems.errors += _same_names(loaded)
    if problems.errors:
        raise PolicyError(_in_order(problems.errors), _in_order(problems.warnings))
    return Policy(
        workflows=tuple(found.workflow for found in loaded),
        fingerprint=fingerprint(found.meaning for found in loaded),
        warnings=tuple(_in_order(problems.warnings)),
    )


def _read(source: Source, strict_inputs: bool) -> tuple[list[Loaded], Problems]:
    """The workflows of one source, and what is wrong with it, each with its place."""
    problems = Problems()
    problems.errors += source.document.problems
    found: list[Loaded] = []
    if source.document.usable:
        for entry in entries_of(source, problems):
            loaded = _read_entry(source, entry, problems, strict_inputs)
            if loaded is not None:
                found.append(loaded)
    problems.errors = [source.locate(p) for p in problems.errors]
    problems.warnings = [source.locate(p) for p in problems.warnings]
    return found, problems


def _read_entry(source: Source, entry: Entry, problems: Problems, strict_inputs: bool) -> Loaded | None:
    inside = Problems()
    loaded = load_workflow(source, entry, inside, strict_inputs)
    for held, into in ((inside.errors, problems.errors), (inside.warnings, problems.warnings)):
        into += (p if p.file is not None else replace(p, pointer=entry.place(p.pointer)) for p in held)
    if loaded is None:
        return None
    located = source.locate(Problem(entry.place("/name" if "name" in entry.raw else ""), ""))
    return replace(loaded, place=located)


def _same_names(loaded: Iterable[Loaded]) -> Iterable[Problem]:
    first: dict[str, Problem] = {}
    for found in loaded:
        name, place = found.workflow.name, found.place
        if name in first:
            where = ":".join(str(p) for p in (first[name].file, first[name].line) if p)
            yield replace(place, message=f"a second workflow named `{name}` (the first is in {where})")
        first.setdefault(name, place)


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By place, files in the order given; one problem told twice is told once."""
    distinct = list(dict.fromkeys(problems))
    files = list(dict.fromkeys(p.file for p in distinct))
    return sorted(distinct, key=lambda p: (files.index(p.file), p.line or 0, p.column or 0))
