"""`onpath check`: judges recorded traces by a policy.

Data flow: files -> traces -> `evaluate` -> `result_json`, one object a result -> the format asked for, and an exit code
for scripts (results.md section 4).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import click
from rich.console import Console

from onpath.cli.judged import Judged, junit, markdown, sarif, table
from onpath.cli.text import printable
from onpath.cli.timeline_view import TimeLine, time_line
from onpath.evaluate import evaluate
from onpath.model import Trace
from onpath.policy.load import PolicyError, load_policy
from onpath.policy.model import Policy
from onpath.policy.problems import Problem
from onpath.recordings import STDIN, Recording, RecordingError, read_files, traces_of
from onpath.results import result_json, version

UNREADABLE: Final = 2
_WIDTH: Final = 140  # of the table where no terminal says otherwise
_FORMATS: Final[dict[str, Callable[[Judged], bytes]]] = {
    "json": lambda judged: "\n".join(json.dumps(result) for result in judged.results).encode(),
    "junit": junit.render,
    "sarif": lambda judged: sarif.render(judged, version()),
    "markdown": markdown.render,
}


@click.command("check", short_help="Judge recorded traces by a policy.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--policy", "policies", multiple=True, required=True, metavar="P", help="Policy file or folder; repeatable."
)
@click.option(
    "--format",
    "chosen",
    type=click.Choice(["table", *_FORMATS]),
    default="table",
    show_default=True,
    help="How to show it.",
)
@click.option("--strict", is_flag=True, help="Count what is unknown as failed.")
@click.option("--group-by", metavar="ATTR", help="Judge traces that share this attribute's value (a session) as one.")
@click.pass_context
def command(
    ctx: click.Context, files: Sequence[str], policies: Sequence[str], chosen: str, strict: bool, group_by: str | None
) -> None:
    """Judges the agent runs in recorded traces: OTLP/JSON or protobuf files, `-` for standard input.

    Ends with 1 if any workflow failed, 3 if none passed or failed, else 0; with 2, 4 or 5 if the policy is refused, and
    2 if a recording can't be read.
    """
    policy = _load(ctx, policies)
    traces, held = _read(ctx, files, group_by)
    judged = _judge(traces, policy, held, strict)
    if chosen == "table":
        table.show(judged, _console())
    else:
        text = _FORMATS[chosen](judged)
        if text:
            click.echo(text)  # bytes: UTF-8 whatever the terminal's encoding
    if judged.exit_code == 3 and chosen != "table":
        click.echo(f"onpath: nothing passed or failed; {judged.summary}", err=True)
    ctx.exit(judged.exit_code)


def _load(ctx: click.Context, names: Sequence[str]) -> Policy:
    try:
        policy = load_policy(names)
    except PolicyError as error:
        _print_problems(error.problems)
        _print_problems(error.warnings, "warning: ")
        ctx.exit(error.exit_code)
    _print_problems(policy.warnings, "warning: ")
    return policy


def _print_problems(problems: Sequence[Problem], prefix: str = "") -> None:
    for problem in problems:
        lines = str(problem).splitlines()
        click.echo("\n".join(["onpath: " + prefix + printable(lines[0]), *map(printable, lines[1:])]), err=True)


def _read(ctx: click.Context, files: Sequence[str], group_by: str | None) -> tuple[list[Trace], dict[str, str]]:
    """The traces in all files together, and the file in which each trace id stands first."""
    recording = Recording()
    held: dict[str, str] = {}
    try:
        for file in files:
            found = read_files([file])
            recording.extend(found)
            if file != STDIN:
                for span in found.spans:
                    held.setdefault(span.trace_id, file)
    except RecordingError as error:
        _refuse(ctx, str(error))
    except OSError as error:
        _refuse(ctx, f"{error.filename or 'input'}: {error.strerror or error}")
    return traces_of(recording, group_by), held


def _refuse(ctx: click.Context, message: str) -> NoReturn:
    click.echo(f"onpath: {printable(message)}", err=True)
    ctx.exit(UNREADABLE)


def _judge(traces: Sequence[Trace], policy: Policy, held: dict[str, str], strict: bool) -> Judged:
    results: list[dict[str, Any]] = []
    time_lines: dict[str, TimeLine] = {}
    unmatched: Counter[str] = Counter()
    now = time.time_ns()
    for trace in traces:
        report = evaluate(trace, policy)
        for result in report.results:
            told = result_json(report, result, now)
            results.append(told)
            for made, evaluation in zip(told["evaluations"], result.evaluations, strict=True):
                line = time_line(evaluation, result.steps)
                if line is not None:
                    time_lines[made["key"]] = line
        unmatched.update(report.unmatched)
    return Judged(
        results=results,
        files=held,
        unmatched=unmatched,
        traces=len(traces),
        strict=strict,
        time_lines=time_lines,
    )


def _console() -> Console:
    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if told else _WIDTH)
