"""`onpath check`: judges recorded traces by a policy.

Data flow: files -> `Plan` of batches -> judged, in several processes where it pays -> one JSON object a result -> the
format asked for, and an exit code for scripts (results.md section 4).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import Final, NoReturn

import click
from rich.console import Console

from onpath.cli.judged import Judged, junit, markdown, sarif, table
from onpath.cli.judged.results import Results
from onpath.cli.judging import Setup
from onpath.cli.pool import less_garbage_collected
from onpath.cli.recorded import Plan, Source
from onpath.cli.running import judge_plan
from onpath.cli.text import printable
from onpath.policy.load import PolicyError, load_policy
from onpath.policy.model import Policy
from onpath.policy.problems import Problem
from onpath.recordings import RecordingError
from onpath.results import version

UNREADABLE: Final = 2
_WORTH_A_BAR: Final = 4  # batches
_INTERRUPT: Final = 0.2  # seconds: what ended a process may be an interrupt of all, on its way to this one
_WIDTH: Final = 140  # of the table where no terminal says otherwise
_FORMATS: Final[dict[str, Callable[[Judged], bytes]]] = {
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
    type=click.Choice(["table", "json", *_FORMATS]),
    default="table",
    show_default=True,
    help="How to show it.",
)
@click.option("--strict", is_flag=True, help="Count what is unknown as failed.")
@click.option("--group-by", metavar="ATTR", help="Judge traces that share this attribute's value (a session) as one.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Processes that judge; as many as there are cores, unless given.",
)
@click.pass_context
def command(
    ctx: click.Context,
    files: Sequence[str],
    policies: Sequence[str],
    chosen: str,
    strict: bool,
    group_by: str | None,
    jobs: int | None,
) -> None:
    """Judges the agent runs in recorded traces: OTLP/JSON or protobuf files, `-` for standard input.

    Ends with 1 if any workflow failed, 3 if none passed or failed, else 0; with 2, 4 or 5 if the policy is refused, and
    2 if a recording can't be read.
    """
    policy = _load(ctx, policies)
    setup = Setup(policy, time.time_ns(), group_by, draws=chosen == "table")
    with less_garbage_collected(), Results() as results:
        judged = _judge(ctx, files, setup, results, jobs, strict)
        _show(judged, results, chosen)
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


def _judge(
    ctx: click.Context, files: Sequence[str], setup: Setup, results: Results, jobs: int | None, strict: bool
) -> Judged:
    try:
        with ExitStack() as copies:
            plan = Plan([Source(file, copies) for file in files])
            with _progress(plan) as advance:
                return judge_plan(plan, setup, results, jobs=jobs, strict=strict, advance=advance)
    except RecordingError as error:
        _refuse(ctx, str(error))
    except OSError as error:
        _refuse(ctx, f"{error.filename or 'input'}: {error.strerror or error}")
    except BrokenProcessPool:
        time.sleep(_INTERRUPT)
        _refuse(ctx, "a process that judged has ended unexpectedly, for want of memory maybe; --jobs 1 needs the least")


@contextmanager
def _progress(plan: Plan) -> Iterator[Callable[[int], None]]:
    """What is to be told of bytes done: it moves a bar where there is a terminal, and something to wait for."""
    if len(plan) < _WORTH_A_BAR or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("judging"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("judging", total=plan.size)
        yield lambda done: progress.advance(task, done)


def _refuse(ctx: click.Context, message: str) -> NoReturn:
    click.echo(f"onpath: {printable(message)}", err=True)
    ctx.exit(UNREADABLE)


def _show(judged: Judged, results: Results, chosen: str) -> None:
    """To standard output; who reads it may go away before the end."""
    out = sys.stdout.buffer  # UTF-8 whatever the terminal's encoding
    try:
        if chosen == "table":
            table.show(judged, _console())
        elif chosen == "json":
            out.writelines(line + b"\n" for line in results.lines())
        else:
            out.write(_FORMATS[chosen](judged) + b"\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in buffers goes there


def _console() -> Console:
    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(highlight=False, width=None if told else _WIDTH)
