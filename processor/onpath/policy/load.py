"""Policy files -> Policy: the one way in. All is checked before anything runs, all problems are told at once.

Data flow: paths or data -> Source (files, yaml) -> entries (forms) -> Workflow and its meaning, one at a time ->
Policy with a fingerprint over the meanings. Nothing here judges a trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onpath.policy.document import Document, document_of
from onpath.policy.files import Source, find, read_source
from onpath.policy.fingerprint import fingerprint
from onpath.policy.forms import entries_of
from onpath.policy.model import Policy
from onpath.policy.problems import PolicyError as PolicyError
from onpath.policy.problems import Problem, Problems
from onpath.policy.workflow import Loaded, load_workflow


def load_policy(paths: str | Path | Sequence[str | Path], *, strict_inputs: bool = True) -> Policy:
    """The policy in a file, a folder, or several of them together. Raises PolicyError with all problems.

    `strict_inputs` False leaves out plan.md's check of undeclared inputs, whatever a plan says. A file of a folder that
    another one takes in as its contract is no policy by itself.
    """
    if isinstance(paths, str | Path):
        paths = [paths]
    empty = [path for path in paths if not list(find([path]))] if paths else ["policy"]
    if empty:
        said = "no policy file (*.yaml, *.yml, *.json) is here"
        raise PolicyError(Problem("", said, file=str(path)) for path in empty)
    return _load([read_source(path, from_folder) for path, from_folder in find(paths)], strict_inputs)


def load_data(data: Any, name: str = "policy", folder: Path | None = None, *, strict_inputs: bool = True) -> Policy:
    """The policy in plain values, as JSON has them; `name` stands in problems. Raises PolicyError."""
    return load_document(document_of(data, name), folder, strict_inputs=strict_inputs)


def load_document(document: Document, folder: Path | None = None, *, strict_inputs: bool = True) -> Policy:
    """The policy in a document that has been read. Raises PolicyError."""
    return _load([Source(document, folder)], strict_inputs)


@dataclass(slots=True)
class _Read:
    """What was found in one source."""

    source: Source
    loaded: list[Loaded] = field(default_factory=list)
    names: list[Problem] = field(default_factory=list)  # the workflows' names, as messages, in their places
    problems: Problems = field(default_factory=Problems)


def _load(sources: Sequence[Source], strict_inputs: bool) -> Policy:
    read = [_read(source, strict_inputs) for source in sources]
    contracts = {path for source in sources for path in source.contract_paths}
    kept = [r for r in read if not (r.source.from_folder and r.source.path and r.source.path.resolve() in contracts)]
    errors = [problem for r in kept for problem in r.problems.errors]
    errors += _same_names(name for r in kept for name in r.names)
    warnings = _in_order(problem for r in kept for problem in r.problems.warnings)
    if errors:
        raise PolicyError(_in_order(errors), warnings)
    loaded = [found for r in kept for found in r.loaded]
    return Policy(
        workflows=tuple(found.workflow for found in loaded),
        fingerprint=fingerprint(found.meaning for found in loaded),
        warnings=tuple(warnings),
        files=tuple(str(path) for source in sources for path in source.files),
    )


def _read(source: Source, strict_inputs: bool) -> _Read:
    read = _Read(source)
    problems = read.problems
    problems.errors += source.document.problems
    for entry in entries_of(source, problems) if source.document.usable else ():
        inside = Problems()
        loaded = load_workflow(source, entry, inside, strict_inputs)
        if loaded is not None:
            read.loaded.append(loaded)
        for held, into in ((inside.errors, problems.errors), (inside.warnings, problems.warnings)):
            into += (p if p.file is not None else replace(p, pointer=entry.place(p.pointer)) for p in held)
        named = entry.raw.get("name")
        at = entry.place("/name" if "name" in entry.raw else "")
        read.names.append(source.locate(Problem(at, named if isinstance(named, str) else entry.fallback)))
    problems.errors = [source.locate(p) for p in problems.errors]
    problems.warnings = [source.locate(p) for p in problems.warnings]
    return read


def _same_names(names: Iterable[Problem]) -> Iterator[Problem]:
    first: dict[str, Problem] = {}
    for name in names:
        known = first.setdefault(name.message, name)
        if known is not name:
            where = ":".join(str(p) for p in (known.file, known.line) if p)
            yield replace(name, message=f"a second workflow named `{name.message}` (the first is in {where})")


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By place, files in the order given; one problem told twice is told once."""
    distinct = list(dict.fromkeys(problems))
    files = list(dict.fromkeys(p.file for p in distinct))
    return sorted(distinct, key=lambda p: (files.index(p.file), p.line or 0, p.column or 0))
