"""`onpath steps`: what onpath sees in recorded traces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import inf, isfinite
from typing import Any, NoReturn

import click

from onpath.cli.steps_view import show_trace
from onpath.cli.text import printable
from onpath.model import NOT_CAPTURED, Trace
from onpath.recordings import STDIN, RecordingError, read_files, traces_of
from onpath.steps import recognise
from onpath.steps.model import Nested, Scope, Step
from onpath.usage import totals

_UNREADABLE = 2


@click.command("steps", short_help="Show the steps that agents took in recorded traces.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, one line a scope.")
@click.option("--group-by", metavar="ATTR", help="Join traces that share this attribute's value (a session).")
@click.option(
    "--why",
    metavar="SPAN_ID",
    help="Say which rule gave this span its role, what became of it, and what of it was not read.",
)
@click.option("--flatten", is_flag=True, help="Put the steps of agents below in place of the agents.")
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], as_json: bool, group_by: str | None, why: str | None, flatten: bool
) -> None:
    """Shows the steps that agents took in recorded traces: OTLP/JSON or protobuf files, `-` for standard input."""
    try:
        traces = traces_of(read_files(files), group_by)
    except RecordingError as error:
        _refuse(ctx, str(error))
    except OSError as error:
        _refuse(ctx, f"{error.filename or 'input'}: {error.strerror or error}")
    if why is not None:
        ctx.exit(show_why(traces, why.lower()))
    if not traces:
        click.echo(
            f"onpath: no spans in {printable(', '.join('standard input' if f == STDIN else f for f in files))}",
            err=True,
        )
    nested: Nested = "flatten" if flatten else "agents_as_steps"
    for trace in traces:
        scopes = recognise(trace).scopes(nested)
        if as_json:
            for scope in scopes:
                click.echo(as_json_text(scope_line(trace, scope)))
        else:
            show_trace(trace, scopes)


def _refuse(ctx: click.Context, message: str) -> NoReturn:
    click.echo(f"onpath: {printable(message)}", err=True)
    ctx.exit(_UNREADABLE)


def show_why(traces: Iterable[Trace], span_id: str) -> int:
    """Prints why the spans of an id are what they are; the exit code, 2 when there is none."""
    found = [w for trace in traces for w in recognise(trace).why(span_id)]
    for why in found:
        click.echo(f"span {why.span.span_id} of trace {why.span.trace_id}: {printable(why.span.name)}")
        click.echo(f"  role     {why.role}")
        click.echo(f"  rule     {printable(why.rule)}")
        click.echo(f"  outcome  {why.outcome}")
        click.echo(f"  status   {printable(why.status)}")
        click.echo(f"  unused   {', '.join(map(printable, why.unused)) or 'nothing'}")
    if not found:
        click.echo(f"onpath: no span with the id {printable(span_id)}", err=True)
    return 0 if found else _UNREADABLE


def scope_line(trace: Trace, scope: Scope) -> dict[str, Any]:
    """A scope as one object of `--json` (steps.md section 5)."""
    return {
        "trace_id": scope.trace_id,
        "scope": {"agent": scope.agent, "span_id": scope.span_id},
        "run": scope.run,
        "session": scope.session,
        "steps": [_step(s) for s in scope.steps if s.ran],
        "usage": dict(totals(scope.usage)),
        "coverage": {"root": trace.has_root, "orphans": len(trace.orphans), "content": scope.content},
    }


def _step(step: Step) -> dict[str, Any]:
    line: dict[str, Any] = {
        "kind": step.kind,
        "name": step.name,
        "agent": step.agent,
        "model": step.model,
        "status": step.status,
        "error": None if step.error is None else {"type": step.error.type, "message": step.error.message},
        "usage": dict(step.usage),
    }
    values = {"input": step.input, "output": step.output}
    line |= {key: value for key, value in values.items() if value is not NOT_CAPTURED}
    attempt = step.attempt
    return {
        **line,
        "start_ns": step.start_ns,
        "end_ns": step.end_ns,
        "span_ids": list(step.span_ids),
        "call_id": step.call_id,
        "turn": step.turn,
        "attempt": None if attempt is None else {"group": attempt.group, "number": attempt.number},
        "source": step.source,
    }


def as_json_text(line: Any) -> str:
    """One line of JSON; what OTLP values hold and JSON does not, bytes and numbers that are none, as text."""
    try:
        return json.dumps(line, default=_other, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(line), default=_other, allow_nan=False)


def _other(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return {inf: "Infinity", -inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value
