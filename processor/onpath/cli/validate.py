"""`onpath validate`: what is wrong with policies and configurations, or in words what they ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

import click

from onpath.cli.text import printable
from onpath.policy.model import Policy

REFUSED: Final = 2
# The keys of collector.md section 7: a file with one of them, and nothing to check a run by, is a configuration.
_CONFIGURATION: Final = frozenset(
    {"receivers", "buffer", "forward", "durability", "evaluate", "results", "judge", "admin", "policy",
     "shutdown_timeout", "log"}
)  # fmt: skip
_POLICY: Final = frozenset(
    {"workflows", "defaults", "version", "adherence", "checks", "expected_steps", "interactionPlan"}
)


@click.command("validate", short_help="Check policy and configuration files.")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--json-schema", is_flag=True, help="Print the JSON schema of policy files, for editors, and leave.")
@click.option("--no-strict-inputs", is_flag=True, help="Leave out a plan's check of inputs that are not declared.")
@click.pass_context
def command(ctx: click.Context, files: Sequence[str], json_schema: bool, no_strict_inputs: bool) -> None:
    """Checks policy files (a folder stands for the files in it) and configurations of the collector.

    Prints every problem with its place, or in words what the policies ask. Policies are checked together, as one.
    Ends with 0 for good ones; 4 where all problems are compile faults of plans, 5 where all are schema faults of plan
    documents, else 2.
    """
    if json_schema:
        _print_schema()
        return
    if not files:
        raise click.UsageError("which files? onpath validate FILE...", ctx)
    configurations = [name for name in files if _is_configuration(Path(name))]
    policies = [name for name in files if name not in configurations]
    strict = not no_strict_inputs
    codes = [_check_configuration(Path(name), strict_inputs=strict) for name in configurations]
    if policies:
        codes.append(_check_policies(policies, strict_inputs=strict))
    ctx.exit(_worst(codes))


def _worst(codes: Sequence[int]) -> int:
    """One code for several files: 4 and 5 hold only where nothing else is wrong."""
    wrong = {code for code in codes if code}
    return 0 if not wrong else wrong.pop() if len(wrong) == 1 else REFUSED


def _print_schema() -> None:
    from onpath.policy.json_schema import policy_schema  # needs pydantic, like all that loads a policy

    click.echo(json.dumps(policy_schema(), indent=2))


def _check_policies(names: Sequence[str], *, strict_inputs: bool) -> int:
    from onpath.policy.load import load_policy

    return _check(lambda: load_policy(names, strict_inputs=strict_inputs))


def _check(load: Callable[[], Policy]) -> int:
    """Loads a policy and prints what is wrong with it, or what it asks."""
    from onpath.policy.load import PolicyError
    from onpath.policy.summary import summary

    try:
        policy = load()
    except PolicyError as error:
        _print_problems(error.problems)
        _print_problems(error.warnings, "warning: ")
        return error.exit_code
    _print_problems(policy.warnings, "warning: ")
    for line in summary(policy):
        click.echo(printable(line))
    return 0


def _check_configuration(path: Path, *, strict_inputs: bool) -> int:
    """The settings, by who knows them, and the policy that stands among them."""
    from onpath.policy.files import read_file
    from onpath.policy.load import load_document

    try:
        told = [point.load()(path) for point in entry_points(group="onpath.configurations")]
    except ModuleNotFoundError:  # the entry point is always there, what it needs comes with the extra
        said = "a configuration of the collector; checking it needs `pip install 'onpath[collector]'`"
        click.echo(f"onpath: {path}: {said}", err=True)
        return REFUSED
    problems = [problem for faults, _ in told for problem in faults]
    _print_problems(problems)
    if problems:
        return REFUSED
    click.echo(f"{path}: a good configuration of the collector")
    for note in (note for _, notes in told for note in notes):
        click.echo(f"{path}: {printable(note)}")
    document = read_file(path)
    inline = document.data.get("policy")
    if not isinstance(inline, dict | list):
        return 0
    return _check(lambda: load_document(document.below("policy"), path.parent, strict_inputs=strict_inputs))


def _is_configuration(path: Path) -> bool:
    from onpath.policy.files import read_file

    data: Any = read_file(path).data if path.is_file() else None
    if not isinstance(data, dict) or not _CONFIGURATION.intersection(data):
        return False
    return not any(key in _POLICY or key.endswith("!") for key in data)


def _print_problems(problems: Sequence[object], prefix: str = "") -> None:
    for problem in problems:
        first, *more = str(problem).splitlines()
        click.echo("\n".join(printable(line) for line in (f"onpath: {prefix}{first}", *more)), err=True)
