"""`onpath preflight`: whether a test environment can be trusted, from calls recorded while a harness made them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from onpath.cli.plan_files import (
    STDOUT,
    end_with,
    one_or_more,
    read_contract,
    read_document,
    read_trials,
    write_whole,
    written_to,
)
from onpath.cli.text import printable
from onpath.preflight.documents import Probe, Trial, probes_of, refuse_repeats
from onpath.preflight.legs import LegPlan, plan_legs
from onpath.preflight.reduce import verdict
from onpath.validators.plan.calls import in_sequence
from onpath.validators.plan.model import Plan, PlanFault

NOT_PASSED: Final = 3
_NO_LEGS: Final = (
    "there is nothing to send: the contract has no sensitivity witness, no reset, and no operation that only reads and "
    "requires no key; no probe has a manifestation witness"
)
_SHOWN: Final = 10  # names of calls in a message


@click.command("preflight", short_help="Judge a test environment before plans are scored in it.")
@click.option("--contract", required=True, metavar="C", help="Contract (JSON), or policy file with one plan!.")
@click.option("--probes", required=True, metavar="P", help="JSON: one probe, a list, or {probes: [...]}; [] for none.")
@click.option("--legs", "show_legs", is_flag=True, help="Print the requests to send, one JSON object a line.")
@click.option(
    "--observations",
    multiple=True,
    metavar="T...",
    help="The recorded answers: files that `onpath steps` reads, or JSON {observations: [...]}.",
)
@click.option("--out", metavar="V.json", help="Where the verdict goes; - is standard output.")
@click.option("--run-id", metavar="R", help="Name of this run, kept in the verdict.")
@click.option("--no-strict-inputs", is_flag=True, help="Admit keys and principals that are not declared.")
@click.argument("rest", nargs=-1, metavar="")
def command(
    contract: str,
    probes: str,
    observations: tuple[str, ...],
    out: str | None,
    show_legs: bool,
    run_id: str | None,
    no_strict_inputs: bool,
    rest: tuple[str, ...],
) -> None:
    """Judge a test environment before plans are scored in it: are its tools there, do they heed their input, does
    reading change nothing, and do the planted faults show, there and nowhere else?

    \b
    Nothing is called by onpath:
      onpath preflight --contract C --probes P --legs     prints the requests;
      your harness sends them and records the answers;
      onpath preflight --contract C --probes P --observations T... --out V.json
                                                          judges them.

    A recorded call answers by its tool and equal input, or by the span attribute onpath.preflight.leg. What shows that
    a tool heeds its input (witnesses) and how the environment is reset is declared in a contract; a plan in the short
    form has neither.

    \b
    Ends with
       0  passed
       3  not passed
       4  the contract does not compile, or a probe names what it does not declare
       5  a file can't be read, parsed or written; answers that don't fit the requests
      64  wrong use of the command
    """
    paths = one_or_more(observations, rest, "--observations")
    if show_legs == bool(paths) or show_legs == bool(out) or (paths and not out):
        raise click.UsageError("give either --observations and --out, or --legs")
    read = read_contract(contract, strict_inputs=not no_strict_inputs)
    parsed = read_document(probes, probes_of)
    try:
        planned = plan_legs(read.plan, parsed)
    except PlanFault as fault:
        end_with(fault)
    if show_legs:
        _show(planned)
        return
    result = _judge(read_trials(paths, read, "observations"), planned, read.plan, parsed, run_id)
    write_whole(out or "", result)
    _report(result, out or "")
    sys.exit(0 if result["passed"] else NOT_PASSED)


def _judge(
    trials: Sequence[Trial], planned: LegPlan, plan: Plan, probes: Sequence[Probe], run_id: str | None
) -> dict[str, Any]:
    try:
        if trials:
            refuse_repeats(trials, "observations")
        calls = in_sequence(call for trial in trials for call in trial.calls)
        return verdict(plan, probes, calls, run_id)
    except PlanFault as fault:
        end_with(fault, *_hints(fault, planned, trials))


def _show(planned: LegPlan) -> None:
    """The legs for the harness on standard output, what else there is to know beside it."""
    for leg in planned.legs:
        click.echo(json.dumps(leg.as_json(), ensure_ascii=False))
    warning = planned.warning if planned.legs else _NO_LEGS
    if warning is not None:
        click.echo(f"warning: {warning}", err=True)


def _hints(fault: PlanFault, planned: LegPlan, trials: Sequence[Trial]) -> list[str]:
    """What was asked for and what was seen, where the answers don't fit."""
    if fault.code != "port-contract-violation":
        return []
    if not planned.legs:
        return [_NO_LEGS]
    tools = dict.fromkeys(leg.operation.tool_name for leg in planned.legs)
    seen = dict.fromkeys(call.name for trial in trials for call in trial.calls)
    return [
        f"asked for: {len(planned.legs)} requests to {_names(tools)}; --legs prints them",
        f"recorded: {sum(len(trial.calls) for trial in trials)} calls{f' of {_names(seen)}' if seen else ''}",
    ]


def _names(names: Mapping[str, None]) -> str:
    listed = list(names)
    return ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")


def _report(result: Mapping[str, Any], out: str) -> None:
    def say(line: str) -> None:
        click.echo(printable(line), err=out == STDOUT)

    checks = result["checks"]
    failed = [check for check in checks if check["outcome"] == "failed"]
    for check in failed:
        subject, note = check["subject"], check["note"]
        named = "" if subject is None or note.startswith(f"{subject}:") else f" {subject}"
        say(f"failed: {check['kind']}{named}: {note}")
    for warning in result["warnings"]:
        say(f"warning: {warning}")
    count = f"{len(checks)} checks" if result["passed"] else f"{len(failed)} of {len(checks)} checks failed"
    say(f"pre-flight {'passed' if result['passed'] else 'not passed'}: {count}{written_to(out)}")
