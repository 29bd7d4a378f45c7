"""`onpath score`: whether a plan's checks catch a fault that was planted on purpose."""

from __future__ import annotations

import sys

import click

from onpath.cli.plan_files import (
    end_with,
    one_or_more,
    read_contract,
    read_data,
    read_json,
    read_trials,
    write_whole,
)
from onpath.policy.plan_schema import schema_fault
from onpath.preflight.documents import Probe, preflight_verdict_of, probes_of, scoring_policy_of
from onpath.score import score
from onpath.validators.plan.model import PlanFault
from onpath.validators.plan.values import digest_bytes


@click.command("score")
@click.option("--record", multiple=True, metavar="R...", help="Plain observations or traces.")
@click.option("--traces", multiple=True, metavar="T...", help="Recorded traces, each a trial.")
@click.option("--contract", required=True, metavar="C", help="A contract, or a policy file with one plan!.")
@click.option("--probe", required=True, metavar="P", help="The probe whose fault was planted.")
@click.option("--preflight-verdict", required=True, metavar="V", help="What `onpath preflight` wrote.")
@click.option("--policy", required=True, metavar="S", help="Severity floor, threshold, least number of trials.")
@click.option("--run-id", metavar="R", help="Name of this run; the pre-flight has to be of the same.")
@click.option("--strict", is_flag=True, help="End with 1 where there are concerns.")
@click.option("--no-strict-inputs", is_flag=True, help="Admit keys and principals that are not declared.")
@click.option("--isolation-manifest", metavar="F", help="Recorded by digest.")
@click.option("--evaluator-configuration", metavar="F", help="Recorded by digest.")
@click.option("--corpus-digest", metavar="D", help="Recorded as given.")
@click.option("--out", required=True, metavar="A.json", help="Where the result goes.")
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
    """Score recorded trials of one probe: does the plan's check catch the fault where it shows?

    Ends with 0 for pass and concerns (1 with --strict), 2 for fail, 3 for invalid, 4 for a contract that does not
    compile, 5 for files that can't be read.
    """
    if bool(record) == bool(traces):
        raise click.UsageError("give either --record or --traces")
    paths = one_or_more(record or traces, rest, "--traces")
    read = read_contract(contract, strict_inputs=not no_strict_inputs)
    try:
        result = score(
            read.plan,
            _one_probe(read_json(probe)),
            read_trials(paths, read, "trials", records=bool(record)),
            preflight_verdict_of(read_json(preflight_verdict)),
            scoring_policy_of(read_json(policy)),
            run_id=run_id,
            strict=strict,
        )
    except PlanFault as fault:
        end_with(fault)
    artifact = {
        **result.artifact,
        "policyDigest": _digest_of(policy),
        "isolationManifestDigest": _digest_of(isolation_manifest),
        "evaluatorConfigurationDigest": _digest_of(evaluator_configuration),
        "corpusDigest": corpus_digest,
    }
    write_whole(out, artifact)
    basis = f" ({', '.join(artifact['basis'])})" if artifact["basis"] else ""
    click.echo(f"score of {artifact['probeId']}: {artifact['verdict']}{basis}; outcome {artifact['outcome']}")
    sys.exit(result.exit_code)


def _one_probe(raw: object) -> Probe:
    probes = probes_of(raw)
    if len(probes) != 1:
        raise schema_fault("probe", f"expected one probe, got {len(probes)}")
    return probes[0]


def _digest_of(path: str | None) -> str | None:
    return None if path is None else digest_bytes(read_data(path))
