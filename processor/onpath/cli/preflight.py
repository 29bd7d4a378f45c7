"""`onpath preflight`: whether a test environment can be trusted, from calls recorded while a harness made them."""

from __future__ import annotations

import json
import sys

import click

from onpath.cli.plan_files import end_with, one_or_more, read_contract, read_json, read_trials, write_whole
from onpath.preflight.documents import probes_of
from onpath.preflight.legs import plan_legs
from onpath.preflight.reduce import verdict
from onpath.validators.plan.calls import in_sequence
from onpath.validators.plan.model import PlanFault

NOT_PASSED = 3


@click.command("preflight")
@click.option("--contract", required=True, metavar="C", help="A contract, or a policy file with one plan!.")
@click.option("--probes", required=True, metavar="P", help="One probe, a list of them, or {probes: [...]}.")
@click.option("--observations", multiple=True, metavar="T...", help="Recorded traces or plain observations.")
@click.option("--out", metavar="V.json", help="Where the verdict goes.")
@click.option("--legs", "show_legs", is_flag=True, help="Print the requests to send, one JSON object a line.")
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
    """Judge a test environment: are its tools there, heed their input, stay clean, and show the planted faults?

    Nothing is called. Ends with 0 if it passed, 3 if not, 4 for a contract that does not compile, 5 for files that
    can't be read.
    """
    paths = one_or_more(observations, rest, "--observations")
    if show_legs == bool(paths) or show_legs == bool(out) or (paths and not out):
        raise click.UsageError("give either --observations and --out, or --legs")
    read = read_contract(contract, strict_inputs=not no_strict_inputs)
    try:
        parsed = probes_of(read_json(probes))
        if show_legs:
            for leg in plan_legs(read.plan, parsed).legs:
                click.echo(json.dumps(leg.as_json(), ensure_ascii=False))
            return
        trials = read_trials(paths, read, "observations")
        calls = in_sequence(call for trial in trials for call in trial.calls)
        result = verdict(read.plan, parsed, calls, run_id)
    except PlanFault as fault:
        end_with(fault)
    write_whole(out or "", result)
    _report(result)
    sys.exit(0 if result["passed"] else NOT_PASSED)


def _report(result: dict[str, object]) -> None:
    checks = result["checks"]
    assert isinstance(checks, list)
    for check in checks:
        if check["outcome"] == "failed":
            click.echo(f"failed: {check['kind']}{f' {s}' if (s := check['subject']) else ''}: {check['note']}")
    for warning in result["warnings"] if isinstance(result["warnings"], list) else ():
        click.echo(f"warning: {warning}")
    click.echo(f"pre-flight {'passed' if result['passed'] else 'not passed'}, {len(checks)} checks")
