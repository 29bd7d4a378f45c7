"""The readable view of `onpath steps`: a tree a scope, calls that ran side by side drawn together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from onpath.cli.text import printable
from onpath.model import Trace
from onpath.steps.model import Scope, Step

_STYLES: Final = {"llm": "cyan", "tool": "bold", "agent": "magenta", "span": "dim"}


def show_trace(trace: Trace, scopes: Sequence[Scope], console: Console | None = None) -> None:
    console = console or Console(highlight=False, soft_wrap=True)
    session = next((s.session for s in scopes if s.session), None)
    title = f"trace {trace.trace_id}  {_counted(len(trace.spans), 'span')}"
    console.print(escape(title + (f"  session {printable(session)}" if session else "")))
    for scope in scopes:
        console.print(_scope(scope))


def _scope(scope: Scope) -> Tree:
    name = f"agent {printable(scope.agent)}" if scope.agent else "no agent"
    run = ", the run" if scope.run else ""
    count = _counted(len(scope.steps), "step")
    tree = Tree(escape(f"{name}{run}  span {scope.span_id}  {count}  content {scope.content}"))
    origin = scope.start_ns
    for group in side_by_side(scope.steps):
        if len(group) == 1:
            tree.add(_line(group[0], origin))
            continue
        branch = tree.add(f"[yellow]{len(group)} in parallel[/]")
        for step in group:
            branch.add(_line(step, origin))
    return tree


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def side_by_side(steps: Sequence[Step]) -> list[list[Step]]:
    """Neighbouring tool calls and agents whose times overlap, as groups; everything else by itself."""
    groups: list[list[Step]] = []
    end = 0
    for step in steps:
        if groups and _overlaps(groups[-1][-1], step, end):
            groups[-1].append(step)
            end = max(end, step.end_ns or step.start_ns or 0)
        else:
            groups.append([step])
            end = step.end_ns or step.start_ns or 0
    return groups


def _overlaps(before: Step, step: Step, end: int) -> bool:
    kinds = ("tool", "agent")
    return before.kind in kinds and step.kind in kinds and step.start_ns is not None and step.start_ns < end


def _line(step: Step, origin: int | None) -> str:
    model = f" {printable(step.model)}" if step.model else ""
    name = printable(step.name) if step.name is not None else "(name not recorded)"
    parts = [f"[{_STYLES[step.kind]}]{escape(f'{step.kind:<5}')} {escape(name + model)}[/]"]
    if step.start_ns is None or origin is None:
        parts.append("[dim]from messages, no times[/]")
    else:
        took = "unfinished" if step.end_ns is None else f"{(step.end_ns - step.start_ns) / 1e6:.1f} ms"
        parts.append(f"[dim]+{(step.start_ns - origin) / 1e6:.1f} ms, {took}[/]")
    if step.attempt is not None and step.attempt.number > 1:
        parts.append(f"[yellow]attempt {step.attempt.number}[/]")
    if step.failed:
        message = (step.error.message or step.error.type) if step.error else None
        parts.append(f"[red]failed{': ' + escape(printable(message)[:100]) if message else ''}[/]")
    elif not step.ran:
        parts.append(f"[yellow]{step.status.replace('_', ' ')}: did not run[/]")
    return "  ".join(parts)
