"""What the README shows is true: its policies load and judge as it says, its commands, options and targets exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from onpath.cli import main
from onpath.evaluate import evaluate
from onpath.model import Span, Trace
from onpath.policy.load import load_policy
from onpath.policy.model import Policy
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POLICIES = [text for language, text in FENCED.findall(README) if language == "yaml"]
CHECKS = ("refund", "refund-paid-once", "refund-checks-at-once", "refund-receipt")

Call = tuple[str, int, int, dict[str, Any], dict[str, Any]]  # tool, start and end in ms, arguments, result

LOOKUP: Call = ("lookup_user", 20, 30, {"user_id": "u1"}, {"name": "Ada"})
BALANCE: Call = ("check_balance", 50, 70, {"user_id": "u1"}, {"balance": 120})
FRAUD: Call = ("check_fraud", 51, 60, {"user_id": "u1"}, {"risk": "low"})
PAYMENT: Call = ("process_payment", 90, 100, {"amount": 49.99}, {"payment_id": "P-77"})
RECEIPT: Call = ("send_receipt", 120, 130, {"payment_id": "P-77", "amount": 49.99}, {"sent": True})


def changed(call: Call, start: int, end: int, **arguments: Any) -> Call:
    return (call[0], start, end, {**call[3], **arguments}, call[4])


# What goes wrong, and which of the four checks say `fail`; the others say `pass` or, of an ambiguity, `unknown`.
RUNS: dict[str, tuple[list[Call], set[str]]] = {
    "as it should be": ([LOOKUP, BALANCE, FRAUD, PAYMENT, RECEIPT], set()),
    "no balance check": ([LOOKUP, FRAUD, PAYMENT, RECEIPT], {"refund", "refund-checks-at-once"}),
    "paid twice": ([LOOKUP, BALANCE, FRAUD, PAYMENT, changed(PAYMENT, 105, 110), RECEIPT], {"refund-paid-once"}),
    "paid too much": (
        [LOOKUP, BALANCE, FRAUD, changed(PAYMENT, 90, 100, amount=499), changed(RECEIPT, 120, 130, amount=499)],
        {"refund-paid-once"},
    ),
    "checks in turn": ([LOOKUP, BALANCE, changed(FRAUD, 70, 80), PAYMENT, RECEIPT], {"refund-checks-at-once"}),
    "another receipt": (
        [LOOKUP, BALANCE, FRAUD, PAYMENT, changed(RECEIPT, 120, 130, payment_id="P-1")],
        {"refund-receipt"},
    ),
    "a guessed id": ([LOOKUP, BALANCE, FRAUD, PAYMENT, changed(RECEIPT, 95, 130)], {"refund-receipt"}),
    "another amount": ([LOOKUP, BALANCE, FRAUD, PAYMENT, changed(RECEIPT, 120, 130, amount=5)], {"refund-receipt"}),
}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """The four examples of one section, each a file."""
    folder = tmp_path_factory.mktemp("readme")
    section = README.partition("## Which check to use\n")[2].partition("\n## ")[0]
    for number, (_, text) in enumerate(FENCED.findall(section)):
        (folder / f"{number}.yaml").write_text(text, encoding="utf-8")
    return load_policy([folder])


def refund_run(calls: list[Call], *, content: bool = True) -> Trace:
    """The agent's spans: a model call before each tool call and at the end, and what the tools were sent and gave."""

    def span(number: int, name: str, start: int, end: int, **attributes: Any) -> Span:
        parent = None if number == 0 else f"{0xA0:016x}"
        dotted = {f"gen_ai.{key.replace('__', '.')}": value for key, value in attributes.items()}
        times = (start * 1_000_000, end * 1_000_000)
        return Span("1" * 32, f"{0xA0 + number:016x}", name, *times, parent_span_id=parent, attributes=dotted)

    spans = [span(0, "invoke_agent refund", 0, 200, operation__name="invoke_agent", agent__name="refund")]
    for at in (1, 32, 82, 111, 140):
        spans.append(span(len(spans), "chat", at, at + 2, operation__name="chat", request__model="m"))
    for tool, start, end, sent, got in calls:
        recorded = {"tool__call__arguments": sent, "tool__call__result": got} if content else {}
        told = {"operation__name": "execute_tool", "tool__name": tool, **recorded}
        spans.append(span(len(spans), f"execute_tool {tool}", start, end, **told))
    return Trace(spans)


def verdicts(trace: Trace, policy: Policy) -> dict[str, str]:
    return {result.workflow: str(result.verdict) for result in evaluate(trace, policy).results}


@pytest.mark.parametrize("name", RUNS)
def test_each_check_sees_what_the_readme_says(policy: Policy, name: str) -> None:
    calls, failing = RUNS[name]
    said = verdicts(refund_run(calls), policy)
    assert tuple(said) == CHECKS
    assert {check for check, verdict in said.items() if verdict == "fail"} == failing
    if name == "as it should be":
        assert set(said.values()) == {"pass"}


def test_values_that_were_not_recorded_are_unknown(policy: Policy) -> None:
    calls, _ = RUNS["as it should be"]
    said = verdicts(refund_run(calls, content=False), policy)
    assert [said[check] for check in CHECKS] == ["pass", "unknown", "pass", "unknown"]


@pytest.mark.parametrize("text", POLICIES)
def test_policies_and_configurations_are_good(tmp_path: Path, text: str) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(main, ["validate", str(path)])
    assert (done.exit_code, done.stderr) == (0, ""), done.output


def pieces() -> Iterator[str]:
    """Lines of code blocks without a language, and code within the text."""
    for language, text in FENCED.findall(README):
        if not language:
            yield from text.splitlines()
    yield from re.findall(r"`([^`\n]+)`", FENCED.sub("", README))


def words(program: str) -> Iterator[list[str]]:
    """What is given to `program` wherever the README calls it."""
    for piece in pieces():
        found = re.match(rf"(?:\$ )?{program} ([a-z-].*)", piece)
        if found:
            yield shlex.split(found[1].partition(";")[0], comments=True)


def options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}


def test_commands_and_their_options_exist() -> None:
    context = click.Context(main)
    called = list(words("onpath"))
    assert {name for name, *_ in called} >= {"collector", "validate", "steps", "check", "preflight", "score"}
    for name, *given in called:
        command = main.get_command(context, name)
        assert command is not None, f"onpath {name}"
        unknown = [word for word in given if word.startswith("-") and word not in options_of(command)]
        assert not unknown, f"onpath {name} {unknown}"


def test_options_named_by_themselves_exist() -> None:
    context = click.Context(main)
    known = {
        option
        for name in main.list_commands(context)
        if (command := main.get_command(context, name)) is not None
        for option in options_of(command)
    }
    named = {piece.split()[0] for piece in pieces() if piece.startswith("--")}
    assert named
    assert named <= known


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = {given[0] for given in words("make")}
    assert called
    assert called <= targets


def test_links_lead_to_files() -> None:
    targets = [target for target in re.findall(r"\]\(([^)#]+)", README) if "://" not in target]
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target
