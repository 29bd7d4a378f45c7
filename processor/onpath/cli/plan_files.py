"""Files of the offline plan commands: a contract with its workflow, recorded calls, results written whole.

Data flow: paths -> Contract | trials -> preflight or score -> a file. What can't be read ends the command at once.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from onpath.cli.text import printable
from onpath.json_values import parse
from onpath.matching import as_seen
from onpath.model import Trace
from onpath.policy.load import load_policy
from onpath.policy.model import Workflow
from onpath.policy.problems import PolicyError
from onpath.preflight.documents import Trial, observations_of, trials_of
from onpath.recordings import STDIN, RecordingError, read_bytes, traces_of
from onpath.steps import steps_of
from onpath.validators.plan.calls import calls_of, in_sequence
from onpath.validators.plan.model import Plan, PlanFault
from onpath.validators.plan.validator import PlanValidator

COMPILE: Final = 4
SCHEMA: Final = 5
_FORMS: Final = frozenset({"observations", "traces"})


@dataclass(frozen=True, slots=True)
class Contract:
    """A plan, and the workflow whose scope and names hold for recorded traces."""

    plan: Plan
    workflow: Workflow

    def trial(self, trace: Trace) -> Trial:
        """The calls of the scopes that the workflow judges, all together."""
        scopes = steps_of(trace, nested=self.workflow.nested, spans=self.workflow.spans)
        agent = self.workflow.agent
        wanted = [scope for scope in scopes if (scope.run if agent is None else scope.agent == agent)]
        principals, principal = self.plan.principals, self.workflow.principal
        seen = (as_seen(scope, self.workflow) for scope in wanted)
        calls = in_sequence(call for scope in seen for call in calls_of(scope, principals, principal))
        return Trial(trace.trace_id, calls, trace.complete)


def end(message: str, code: int) -> NoReturn:
    """Prints `onpath: MESSAGE` and ends with the code."""
    click.echo(f"onpath: {printable(message)}", err=True)
    sys.exit(code)


def end_with(fault: PlanFault) -> NoReturn:
    end(str(fault), fault.exit_code)


def read_contract(path: str, *, strict_inputs: bool) -> Contract:
    """A contract, or a policy file with one `plan!`."""
    try:
        policy = load_policy([path], strict_inputs=strict_inputs)
    except PolicyError as error:
        for problem in error.problems:
            for line in str(problem).splitlines():
                click.echo(line if line.startswith(" ") else f"onpath: {printable(line)}", err=True)
        sys.exit(COMPILE if error.exit_code == COMPILE else SCHEMA)
    found = [
        Contract(check.validator.plan, workflow)
        for workflow in policy.workflows
        for check in workflow.checks
        if isinstance(check.validator, PlanValidator)
    ]
    if len(found) != 1:
        end(f"{path}: expected a contract or a policy with one plan!, found {len(found)} plans", SCHEMA)
    return found[0]


def read_json(path: str) -> Any:
    """A JSON document from a file or standard input."""
    data = read_data(path)
    try:
        return parse(data.decode("utf-8-sig"))
    except ValueError as error:
        end(f"{path}: not JSON: {error}", SCHEMA)


def read_data(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except OSError as error:
        end(f"{path}: {error.strerror or error}", SCHEMA)


def read_trials(paths: Iterable[str], contract: Contract, argument: str, *, records: bool = False) -> list[Trial]:
    """One trial for each recorded trace; a file of plain observations is one. `records`: only JSON of the two forms.

    Raises PlanFault.
    """
    trials: list[Trial] = []
    for path in paths:
        data = read_data(path)
        document = _plain(data)
        if document is not None:
            trials += _plain_trials(document, path, argument)
        elif records:
            end(f"{path}: expected JSON with observations or traces", SCHEMA)
        else:
            try:
                trials += [contract.trial(trace) for trace in traces_of(read_bytes(data, path))]
            except RecordingError as error:
                end(str(error), SCHEMA)
    return trials


def _plain(data: bytes) -> Mapping[str, Any] | None:
    """A document of plain observations or traces; None for anything else."""
    if data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return None
    try:
        document = parse(data.decode("utf-8-sig"))
    except ValueError:
        return None
    return document if isinstance(document, dict) and document.keys() & _FORMS else None


def _plain_trials(document: Mapping[str, Any], path: str, argument: str) -> list[Trial]:
    if "traces" in document:
        return trials_of(document, argument)
    return [Trial(path, observations_of(document))]


def write_whole(path: str, value: Mapping[str, Any]) -> None:
    """JSON with sorted keys, in place of what was there; a failure leaves that as it was."""
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8", "surrogatepass"))
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        end(f"{path}: {error.strerror or error}", SCHEMA)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def one_or_more(given: Sequence[str], rest: Sequence[str], option: str) -> tuple[str, ...]:
    """The values of an option that takes several: `--x A B`, `--x A --x B`."""
    if rest and not given:
        raise click.UsageError(f"{rest[0]}: a file belongs to an option, such as {option}")
    return (*given, *rest)
