"""Recorded runs with the truth beside each, and the comparison of what onpath sees with what really ran.

A recording is a folder of scenarios, `SCENARIO.jsonl` with `SCENARIO.logs.jsonl` where logs were sent, and a
`truth.json` written by the tools themselves (steps.md section 6). Each fact of a scenario is `right`, `unknown` when
nothing is claimed about it, or `wrong`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onpath.conventions.table import READERS
from onpath.model import NOT_CAPTURED, Trace
from onpath.recordings import Recording, read_files, session_value, traces_of
from onpath.steps import recognise
from onpath.steps.model import Scope, Step

FACTS: Final = ("names", "failures", "arguments", "parallel", "model calls")
# Tools by which frameworks hand over to an agent or end a run: set aside on both sides.
_FRAMEWORK: Final = re.compile(r"final_answer|handoff.*|transfer_to_.*", re.IGNORECASE)
_DELEGATES: Final = {"ask_billing", "billing_agent"}
_SEPARATED: Final = re.compile(r"[-./:]|__")


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded scenario."""

    recording: str
    scenario: str
    files: tuple[Path, ...]
    truth: Mapping[str, Any]

    @property
    def id(self) -> str:
        return f"{self.recording}/{self.scenario}"


def runs(root: Path) -> Iterator[Run]:
    for path in sorted(root.glob("*/*/truth.json")):
        truth = json.loads(path.read_text(encoding="utf-8"))
        for scenario, what in truth["scenarios"].items():
            files = [path.parent / f"{scenario}.jsonl", path.parent / f"{scenario}.logs.jsonl"]
            if files[0].exists():
                name = f"{path.parent.parent.name}/{path.parent.name}"
                yield Run(name, scenario, tuple(f for f in files if f.exists()), what)


def traces(run: Run) -> list[Trace]:
    """The run's traces, joined by a session attribute where there are several and one names it."""
    return joined(read_files(run.files))


def joined(recording: Recording) -> list[Trace]:
    if len({s.trace_id for s in recording.spans}) > 1:
        for key, _ in READERS["session"]:
            if session_value(recording.spans, key) is not None:
                return traces_of(recording, key)
    return traces_of(recording)


def scopes(run: Run) -> list[Scope]:
    return [scope for trace in traces(run) for scope in recognise(trace).scopes()]


def judge(run: Run) -> dict[str, str]:
    """Each fact of a run: right, unknown or wrong."""
    seen = scopes(run)
    return _compared(run, seen)


def _compared(run: Run, seen: Sequence[Scope]) -> dict[str, str]:
    wanted = list(run.truth["tool_calls"])
    asked = {c["tool"] for c in wanted}
    aside = (_DELEGATES if run.scenario.startswith("multi") else set()) - asked
    calls = [s for s in together(seen, "tool") if s.name not in aside and not _FRAMEWORK.fullmatch(s.name or "")]
    groups = run.truth.get("parallel_groups") or []
    pairs = paired(calls, wanted, groups)
    if pairs is None and run.scenario == "retry_mw":
        pairs = paired(calls, _once(wanted), groups)  # the framework repeats the body inside what is one call to it
    verdict = {"model calls": _model_calls(len(together(seen, "llm")), run.truth["llm_calls"])}
    if pairs is None:
        return verdict | dict.fromkeys(FACTS[:4], "wrong" if calls else "unknown")
    verdict["names"] = "right"
    verdict["failures"] = "right" if all(s.failed == bool(c["error"]) for s, c in pairs) else "wrong"
    verdict["arguments"] = _arguments(pairs)
    verdict["parallel"] = _parallel(seen, calls, groups, asked)
    return verdict


def together(seen: Sequence[Scope], kind: str) -> list[Step]:
    """The steps of all scopes, each once, in order of time as far as there are times."""
    found: dict[Any, Step] = {}
    for number, scope in enumerate(sorted(seen, key=lambda s: not s.run)):
        for place, step in enumerate(scope.steps):
            if step.kind == kind and step.ran:
                key = step.span_ids or ((step.call_id, step.name) if step.call_id else (number, place))
                found.setdefault(key, step)
    steps = list(found.values())
    if all(s.start_ns is not None for s in steps):
        steps.sort(key=lambda s: (s.start_ns or 0, s.end_ns or 0))
    return steps


def paired(
    calls: Sequence[Step], wanted: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[str]]
) -> list[tuple[Step, Mapping[str, Any]]] | None:
    """Each step with the call it recorded: in order, in any order inside a parallel group; None where names differ."""
    pairs: list[tuple[Step, Mapping[str, Any]]] = []
    rest = list(calls)
    for block in _blocks(wanted, groups):
        here, rest = rest[: len(block)], rest[len(block) :]
        for call in block:
            fitting = [s for s in here if is_named(s.name, call["tool"])]
            if not fitting:
                return None
            exact = [s for s in fitting if plain(s.input) == plain(call["args"])]
            step = (exact or fitting)[0]
            here.remove(step)
            pairs.append((step, call))
    return None if rest else pairs


def _blocks(
    wanted: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[str]]
) -> Iterator[Sequence[Mapping[str, Any]]]:
    left = [sorted(g) for g in groups]
    at = 0
    while at < len(wanted):
        size = 1
        for group in left:
            if sorted(c["tool"] for c in wanted[at : at + len(group)]) == group:
                size = len(group)
                left.remove(group)
                break
        yield wanted[at : at + size]
        at += size


def _once(wanted: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [c for c, later in zip(wanted, [*wanted[1:], None], strict=True) if not later or later["tool"] != c["tool"]]


def is_named(name: str | None, tool: str) -> bool:
    """Whether a recorded name is a tool's, what stands before it apart."""
    return name is not None and (name == tool or tool in _SEPARATED.split(name))


def _arguments(pairs: Sequence[tuple[Step, Mapping[str, Any]]]) -> str:
    off = [s.input for s, c in pairs if plain(s.input) != plain(c["args"])]
    if not off:
        return "right"
    return "unknown" if all(v is NOT_CAPTURED for v in off) else "wrong"


def plain(value: Any) -> Any:
    """A value in a form that compares: numbers by value, texts with JSON opened."""
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return plain(json.loads(value))
        except ValueError:
            return value
    return value


def _parallel(seen: Sequence[Scope], calls: Sequence[Step], groups: Sequence[Sequence[str]], tools: set[str]) -> str:
    if any(s.start_ns is None or s.end_ns is None for s in calls):
        return "unknown"
    known = {s.span_ids for s in calls}
    found: dict[frozenset[tuple[str, ...]], list[str]] = {}
    for scope in seen:
        for group in overlapping([s for s in scope.steps if s.span_ids in known and s.kind == "tool"]):
            names = [next((t for t in tools if is_named(s.name, t)), s.name or "") for s in group]
            found[frozenset(s.span_ids for s in group)] = sorted(names)
    return "right" if sorted(found.values()) == sorted(map(sorted, groups)) else "wrong"


def overlapping(steps: Sequence[Step]) -> list[list[Step]]:
    """Groups of two steps or more that overlap in time, directly or by way of others."""
    groups: list[list[Step]] = []
    end = -1
    for step in sorted(steps, key=lambda s: s.start_ns or 0):
        if groups and step.start_ns is not None and step.start_ns < end:
            groups[-1].append(step)
        else:
            groups.append([step])
        end = max(end if len(groups[-1]) > 1 else -1, step.end_ns or 0)
    return [g for g in groups if len(g) > 1]


def _model_calls(seen: int, wanted: int) -> str:
    if seen == wanted:
        return "right"
    return "wrong" if seen else "unknown"


def table(verdicts: Mapping[str, Mapping[str, str]]) -> str:
    """A line a recording: how many of its runs are right in each fact, and how many say nothing about it."""
    by_recording: dict[str, list[Mapping[str, str]]] = {}
    for run, verdict in verdicts.items():
        by_recording.setdefault(run.rpartition("/")[0], []).append(verdict)
    lines = [f"{'recording':<34}{'runs':>5}" + "".join(f"{fact:>16}" for fact in FACTS)]
    rows = [*sorted(by_recording.items()), ("all", list(verdicts.values()))]
    for name, judged in rows:
        cells = ""
        for fact in FACTS:
            right, unknown = (sum(v[fact] == word for v in judged) for word in ("right", "unknown"))
            cells += f"{f'{right}' + (f' ({unknown} unknown)' if unknown else ''):>16}"
        lines.append(f"{name:<34}{len(judged):>5}{cells}")
    return "\n".join(lines)
