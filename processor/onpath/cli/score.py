"""`onpath score`: whether a plan's checks catch a fault that was planted on purpose."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import click

from onpath.cli.plan_files import (
    STDOUT,
    end_with,
    one_or_more,
    read_contract,
    read_data,
    read_document,
    read_trials,
    write_whole,
    written_to,
)
from onpath.cli.text import printable
from onpath.policy.plan_schema import schema_fault
from onpath.preflight.documents import Probe, preflight_verdict_of, probes_of, scoring_policy_of
from onpath.score import score
from onpath.validators.plan.model import PlanFault
from onpath.validators.plan.values import digest_bytes

# What the codes of a result's basis come to (plan.md section 8).
MEANING: Final = {
    "preflight-failed": "the pre-flight did not pass, so nothing was scored",
    "preflight-contract-mismatch": "the pre-flight was made for another contract, so nothing was scored",
    "preflight-run-mismatch": "the pre-flight is not of the run that --run-id names, so nothing was scored",
    "all-trials-invalidated": "the plan or the fault could be judged in no trial",
    "trials-invalidated": "the plan or the fault could not be judged in some trials",
    "outcome-missed": "the fault showed, and the check held or looked elsewhere",
    "outcome-abstained": "the check had nothing to look at",
    "outcome-false-positive": "the check is violated where there is no fault",
    "outcome-caught-below-threshold": "the fault was caught in too small a share of the trials",
    "outcome-unreached": "the check was never reached",
    "outcome-not-applicable": "the tool that bears the fault was never called",
    "defect-not-manifested": "the fault showed in no trial",
    "mixed-vote": "the fault was not caught in every trial that counts",
    "too-few-trials": "fewer trials could be judged than the scoring policy asks for (minimumTrialCount)",
}


@click.command("score", short_help="Score whether a plan's check catches a planted fault.")
@click.option("--contract", required=True, metavar="C", help="Contract (JSON), or policy file with one plan!.")
@click.option("--probe", required=True, metavar="P", help="JSON: the one probe whose fault was planted.")
@click.option("--traces", multiple=True, metavar="T...", help="The trials: files that `onpath steps` reads.")
@click.option("--record", multiple=True, metavar="R...", help="The trials, as JSON {traces: [...]} instead.")
@click.option("--preflight-verdict", required=True, metavar="V", help="JSON: what `onpath preflight` wrote.")
@click.option(
    "--policy",
    required=True,
    metavar="S",
    help="JSON, the scoring policy: {severityFloor: material, confidenceThreshold: 0.5, minimumTrialCount: 3}, or "
    "{} for these.",
)
@click.option("--out", required=True, metavar="A.json", help="Where the result goes; - is standard output.")
@click.option("--run-id", metavar="R", help="Name of this run; the pre-flight has to be of the same.")
@click.option("--strict", is_flag=True, help="End with 1 where there are concerns.")
@click.option("--no-strict-inputs", is_flag=True, help="Admit keys and principals that are not declared.")
@click.option("--isolation-manifest", metavar="F", help="File to record by its digest.")
@click.option("--evaluator-configuration", metavar="F", help="File to record by its digest.")
@click.option("--corpus-digest", metavar="D", help="Text to record as given.")
@click.argument("rest", nargs=-1, metavar="")
def command(
    record: tuple[str, ...],
    traces: tuple[str, ...],
    contract: str,
    probe: str,
    preflight_verdict: str,
    policy: str,
    run_id: str | None,
    strict: bool,
    no_strict_inputs: bool,
    isolation_manifest: str | None,
    evaluator_configuration: str | None,
    corpus_digest: str | None,
    out: str,
    rest: tuple[str, ...],
) -> None:
    """Score whether a plan's check catches a fault that was planted on purpose, over recorded trials.

    A trial is one trace. The probe names the check (oracleId) and says how its fault shows in a call (defectSignature);
    the check catches the fault in a trial when it is violated by a call in which the fault shows. A probe that is
    expectedClean has no fault, and its check has to hold.

    \b
    Ends with
       0  pass, or concerns
       1  concerns, with --strict (unless there was merely too little to score)
       2  fail
       3  invalid: the pre-flight does not stand for these trials, or none could be judged
       4  the contract does not compile, or the probe names what it does not declare
       5  a file can't be read, parsed or written
      64  wrong use of the command
    """
    if bool(record) == bool(traces):
        raise click.UsageError("give either --record or --traces")
    paths = one_or_more(record or traces, rest, "--traces")
    read = read_contract(contract, strict_inputs=not no_strict_inputs)
    planted = read_document(probe, _one_probe)
    try:
        result = score(
            read.plan,
            planted,
            read_trials(paths, read, "trials", records=bool(record)),
            read_document(preflight_verdict, preflight_verdict_of),
            read_document(policy, scoring_policy_of),
            run_id=run_id,
            strict=strict,
        )
    except PlanFault as fault:
        end_with(fault, *([f"at {probe}"] if fault.path.startswith("probe") else []))
    artifact = {
        **result.artifact,
        "policyDigest": _digest_of(policy),
        "isolationManifestDigest": _digest_of(isolation_manifest),
        "evaluatorConfigurationDigest": _digest_of(evaluator_configuration),
        "corpusDigest": corpus_digest,
    }
    write_whole(out, artifact)
    _report(artifact, out)
    sys.exit(result.exit_code)


def _report(artifact: Mapping[str, Any], out: str) -> None:
    def say(line: str) -> None:
        click.echo(printable(line), err=out == STDOUT)

    states = Counter(trial["state"] for trial in artifact["trials"])
    if states:
        counted = ", ".join(f"{count} {state}" for state, count in states.items())
        say(f"trials: {counted}; outcome {artifact['outcome']}")
    for code in artifact["basis"]:
        say(f"{code}: {MEANING[code]}")
    say(f"score of {artifact['probeId']}: {artifact['verdict']}{written_to(out)}")


def _one_probe(raw: object) -> Probe:
    probes = probes_of(raw)
    if len(probes) != 1:
        raise schema_fault("probe", f"expected one probe, got {len(probes)}")
    return probes[0]


def _digest_of(path: str | None) -> str | None:
    return None if path is None else digest_bytes(read_data(path))
