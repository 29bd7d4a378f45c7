"""Finds and reads policy files, and the contract files that their plans name.

Data flow: paths -> `find` -> `read_file` -> Source. A Source knows the place of every pointer, also of those that lead
into a contract file, which `take_in` puts where it is named: what is loaded, and digested, is one document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from onpath.policy.document import Document
from onpath.policy.problems import Problem, pointer
from onpath.policy.yaml import read_text

ENDINGS: Final = (".yaml", ".yml", ".json", ".jsonc")


@dataclass(slots=True)
class Source:
    """One policy file as read. `folder` is where its contracts may lie; None: it may name none."""

    document: Document
    folder: Path | None = None
    from_folder: bool = False  # found in a folder, not named by the user
    path: Path | None = None
    contracts: dict[str, Document] = field(default_factory=dict)  # pointer to what was taken in there
    contract_paths: set[Path] = field(default_factory=set)  # real ones

    @property
    def stem(self) -> str:
        """The name without its ending, for workflows that have none of their own."""
        return Path(self.document.name).stem or self.document.name

    @property
    def files(self) -> Iterator[Path]:
        """Itself, where it is a file, and its contracts."""
        if self.path is not None:
            yield self.path
        yield from sorted(self.contract_paths)

    def locate(self, problem: Problem) -> Problem:
        """The problem with its file, line and column; one inside a contract gets those of the contract."""
        if problem.file is not None:
            return problem
        document, at = self.document, problem.pointer
        for mount, contract in self.contracts.items():
            if at.startswith(mount + "/"):
                document, at = contract, at.removeprefix(mount)
        place = document.place(at)
        line, column = (place.line, place.column) if place else (None, None)
        return replace(problem, pointer=at, file=document.name, line=line, column=column)


def find(paths: Iterable[str | Path]) -> Iterator[tuple[Path, bool]]:
    """The files meant, and whether each was found in a folder. Hidden files of a folder are none of its policies."""
    for given in paths:
        path = Path(given)
        if path.is_dir():
            for inside in sorted(path.iterdir()):
                if inside.suffix.lower() in ENDINGS and not inside.name.startswith(".") and inside.is_file():
                    yield inside, True
        else:
            yield path, False


def read_file(path: Path, name: str | None = None) -> Document:
    """Never raises: a file that can't be read is a document with a problem."""
    shown = name or str(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _unreadable(shown, f"not UTF-8 text at byte {error.start}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return _unreadable(shown, f"can't be read: {reason or error}")
    return read_text(text, shown)


def read_source(path: Path, from_folder: bool) -> Source:
    return Source(read_file(path), path.parent, from_folder, path)


def _unreadable(name: str, message: str) -> Document:
    return Document(name, problems=(Problem("", message, file=name),), usable=False)


def take_in(source: Source, plan: Mapping[str, Any], at: str) -> tuple[Mapping[str, Any] | None, list[Problem]]:
    """A plan whose `contract` names a file, with the file's content in place of the name.

    `at` is the pointer of the plan in its file. None when there is no such content; the problems, relative to the plan,
    then say why.
    """
    name = plan.get("contract")
    if not isinstance(name, str):
        return plan, []
    path, fault = _inside(name, source.folder)
    if path is None:
        return None, [Problem("/contract", fault)]
    document = read_file(path, str(source.folder / name) if source.folder else name)
    if not document.usable:
        return None, [replace(p, kind="plan-schema", message=_as_plan_fault(p.message)) for p in document.problems]
    source.contracts[at + "/contract"] = document
    source.contract_paths.add(path)
    return {**plan, "contract": document.data}, list(document.problems)


def with_contracts(source: Source, raw: Any, at: str) -> Any:
    """What stands at a pointer, with the content of the contracts that were taken in below it."""
    if at in source.contracts:
        return source.contracts[at].data
    if not any(mount.startswith(at + "/") for mount in source.contracts):
        return raw
    if isinstance(raw, dict):
        return {key: with_contracts(source, inner, at + pointer(key)) for key, inner in raw.items()}
    return [with_contracts(source, inner, at + pointer(index)) for index, inner in enumerate(raw)]


def _as_plan_fault(message: str) -> str:
    return f"schema-parse-failure: EvalContract: {message}"


def _inside(name: str, folder: Path | None) -> tuple[Path | None, str]:
    """The real path of a file below the folder; links count as what they lead to."""
    if folder is None:
        return None, "a contract file is named relative to a policy file, and this policy is in none"
    if Path(name).is_absolute():
        return None, "a contract file is named relative to the policy file, not by an absolute path"
    try:
        path = (folder / name).resolve(strict=True)
        home = folder.resolve(strict=True)
        regular = path.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return None, f"the contract file {name!r} can't be read: {reason or error}"
    if not path.is_relative_to(home):
        return None, f"the contract file {name!r} lies outside the folder of the policy file"
    if not regular:
        return None, f"the contract file {name!r} is no regular file"
    return path, ""
