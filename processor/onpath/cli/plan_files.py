"""Files of the offline plan commands: a contract with its workflow, recorded calls, results written whole.

Data flow: paths -> Contract | trials -> preflight or score -> a file. What can't be read ends the command at once.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

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
STDOUT: Final = "-"
_FORMS: Final = frozenset({"observations", "traces"})
_WANTED: Final = "expected a contract, or a policy file with one plan!"

Read = TypeVar("Read")


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


def end(message: str, code: int, *more: str) -> NoReturn:
    """Prints `onpath: MESSAGE`, what else there is to say below it, and ends with the code."""
    click.echo(f"onpath: {printable(message)}", err=True)
    for line in more:
        click.echo(f"  {printable(line)}", err=True)
    sys.exit(code)


def end_with(fault: PlanFault, *more: str) -> NoReturn:
    end(str(fault), fault.exit_code, *more)


def read_contract(path: str, *, strict_inputs: bool) -> Contract:
    """A contract, or a policy file with one `plan!`. One with a problem ends the command."""
    try:
        policy = load_policy([path], strict_inputs=strict_inputs)
    except PolicyError as error:
        for problem in error.problems:
            for line in str(problem).splitlines():
                click.echo(line if line.startswith(" ") else f"onpath: {printable(line)}", err=True)
        if all(problem.kind == "policy" for problem in error.problems):
            click.echo(f"onpath: {printable(path)}: {_WANTED}", err=True)
        sys.exit(COMPILE if error.exit_code == COMPILE else SCHEMA)
    found = [
        Contract(check.validator.plan, workflow)
        for workflow in policy.workflows
        for check in workflow.checks
        if isinstance(check.validator, PlanValidator)
    ]
    if len(found) != 1:
        end(f"{path}: {_WANTED}, found {len(found)} plans", SCHEMA)
    return found[0]


def read_document(path: str, read: Callable[[Any], Read]) -> Read:
    """What `read` makes of the JSON in a file or on standard input. A fault in it ends the command, with the path."""
    data = read_data(path)
    try:
        return read(_parsed(data))
    except ValueError as error:
        end(f"{path}: not JSON: {error}", SCHEMA)
    except PlanFault as fault:
        end_with(fault, f"at {path}")


def _parsed(data: bytes) -> Any:
    return parse(data.decode("utf-8-sig"))


def read_data(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except OSError as error:
        end(f"{path}: {error.strerror or error}", SCHEMA)


def read_trials(paths: Iterable[str], contract: Contract, argument: str, *, records: bool = False) -> list[Trial]:
    """One trial for each recorded trace; a file of plain observations is one. `records`: only JSON of the two forms.

    A fault ends the command.
    """
    trials: list[Trial] = []
    for path in paths:
        data = read_data(path)
        if records or _plain(data):
            trials += _plain_trials(data, path, argument)
        else:
            try:
                trials += [contract.trial(trace) for trace in traces_of(read_bytes(data, path))]
            except RecordingError as error:
                end(str(error), SCHEMA)
    return trials


def _plain(data: bytes) -> bool:
    """Whether it is a document of plain observations or traces."""
    if data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return False
    try:
        document = _parsed(data)
    except ValueError:
        return False
    return isinstance(document, dict) and bool(document.keys() & _FORMS)


def _plain_trials(data: bytes, path: str, argument: str) -> list[Trial]:
    try:
        document = _parsed(data)
        if not isinstance(document, dict) or not document.keys() & _FORMS:
            end(f"{path}: expected a JSON object with observations or traces", SCHEMA)
        return trials_of(document, argument) if "traces" in document else [Trial(path, observations_of(document))]
    except ValueError as error:
        end(f"{path}: not JSON: {error}", SCHEMA)
    except PlanFault as fault:
        end_with(fault, f"at {path}")


def write_whole(path: str, value: Mapping[str, Any]) -> None:
    """JSON with sorted keys, in place of what was there; a failure leaves that as it was. `-` is standard output."""
    data = (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
    target = Path(path)
    if path == STDOUT:
        sys.stdout.buffer.write(data)
        return
    try:
        if target.exists() and not target.is_file():  # a device or a pipe can't be replaced; a folder says so itself
            target.write_bytes(data)
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        end(f"{path}: {error.strerror or error}", SCHEMA)


def written_to(path: str) -> str:
    """Where a result went, to stand behind what is said of it."""
    return "" if path == STDOUT else f" ({path})"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def one_or_more(given: Sequence[str], rest: Sequence[str], option: str) -> tuple[str, ...]:
    """The values of an option that takes several: `--x A B`, `--x A --x B`."""
    if rest and not given:
        raise click.UsageError(f"{rest[0]}: a file belongs to an option, such as {option}")
    return (*given, *rest)
