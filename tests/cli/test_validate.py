"""`onpath validate`: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from onpath.cli import main

REFUND = """\
version: 1
workflows:
  - name: refund
    description: KYC before money moves
    match: {service: refund-*, root: "POST /refunds*", agent: refund, attributes: {tenant: eu-*, x: {eq!: 1}}, input: {
      contains!: refund}}
    agent: refund
    nested: flatten
    spans: [db.*, cache.*]
    ignore: [get_time, log]
    aliases: {verify: [kyc, mcp__kyc]}
    sample: 0.5
    capture_content: true
    adherence:
      expected_steps: [verify, report]
      required_steps: [verify]
      prohibited_steps: [delete, drop]
      gates: [prohibited]
      extract_from: tool_calls
      aliases: {report: [write_report]}
      count_failed: true
      agent: writer
    checks:
      - name: to the letter
        adherence: {expected_steps: [A, B], strict_order: true, threshold: 1}
"""

SAID = """\
1 workflow, policy FINGERPRINT

refund: KYC before money moves
  Applies to traces with service refund-*, root span POST /refunds*, agent refund taking part, tenant = eu-*, \
attribute x that is 1 and an input that contains "refund", half of them.
  Judges each scope of agent refund; the steps of agents below count in their place.
  Spans named db.* or cache.* count as steps, too.
  Never counts get_time and log.
  Takes kyc or mcp__kyc for verify.
  Argument and result values may stand in the results.
  - workflow_adherence: the tool calls hold verify, report, in this order, with anything between them; pass from a \
score of 0.5.
    It looks in each scope of agent writer.
    Must be done, wherever: verify (counts in the score only).
    Must never be done: delete, drop (one found fails the workflow).
    It takes write_report for report.
    A failed call counts as done.
  - to the letter: the steps named in the output are exactly A, B; pass from a score of 1.
"""


def validate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["validate", *map(str, arguments)])


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_policy_is_said_in_words(tmp_path: Path) -> None:
    done = validate(write(tmp_path, "p.yaml", REFUND))
    assert (done.exit_code, done.stderr) == (0, "")
    first, rest = done.stdout.split("\n", 1)
    assert rest == SAID.split("\n", 1)[1]
    assert first.startswith("1 workflow, policy ")


def test_prompts_and_matches_are_said(tmp_path: Path) -> None:
    text = "- seq!: [a]\n  params: {prompt: what time is it}\n- {seq!: [a], match: {}}\n- {seq!: [a]}\n"
    lines = validate(write(tmp_path, "evals.yaml", text)).stdout.splitlines()
    assert [line for line in lines if "Applies" in line] == [
        '  Applies to runs whose last user message is "what time is it".',
        "  Applies to every trace.",
        "  Applies to every trace with an agent, model-call or tool span.",
    ]


def test_patterns_are_said(tmp_path: Path) -> None:
    done = validate(write(tmp_path, "p.yaml", "seq!: [llm, ..., {parallel!: [a, b]}]\nelapsed: {lt!: 50}"))
    assert done.stdout.splitlines()[-2:] == [
        "  - seq: first a model call, then any number of steps, then a and b at the same time; nothing else.",
        "  - elapsed: the run's elapsed is less than 50 ms.",
    ]


def test_plans_are_said(tmp_path: Path) -> None:
    done = validate(write(tmp_path, "p.yaml", "plan!: {id: x, steps: [{step: open, tool: open_ticket}]}"))
    assert '  - plan: Plan "x" has 1 step' in done.stdout


def test_problems_are_printed_with_their_places(tmp_path: Path) -> None:
    path = write(tmp_path, "p.yaml", "seq!: []\nagnet: x\n")
    done = validate(path)
    assert (done.exit_code, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"onpath: {path}:1:1: /seq!: ")
    assert second.startswith(f"onpath: {path}:2:1: /agnet: ")
    assert second.endswith("did you mean `agent`?")


def test_files_are_checked_together(tmp_path: Path) -> None:
    one, two = write(tmp_path, "a.yaml", "name: x\nseq!: [a]"), write(tmp_path, "b.yaml", "name: x\nseq!: [a]")
    assert validate(one).exit_code == validate(two).exit_code == 0
    done = validate(one, two)
    assert done.exit_code == 2
    assert "a second workflow named `x`" in done.stderr
    assert validate(tmp_path).exit_code == 2


def test_warnings_are_printed_beside_the_words(tmp_path: Path) -> None:
    text = "ignore: [a]\nadherence: {expected_steps: [a]}"
    done = validate(write(tmp_path, "p.yaml", text))
    assert done.exit_code == 0
    assert "p.yaml:1:1: /ignore: `a` is ignored" in done.stderr
    assert done.stderr.startswith("onpath: warning: ")


NESTED = "{id: x, steps: [{step: a, tool: t, after: b}, {step: b, tool: t, after: c}, {step: c, tool: t}]}"


def test_plan_faults_end_as_plans_do_and_are_told_in_their_words(tmp_path: Path) -> None:
    compiled = write(tmp_path, "a.yaml", f"plan!: {NESTED}")
    done = validate(compiled)
    assert done.exit_code == 4
    assert done.stderr.splitlines()[0] == (
        'onpath: nested-temporal-clause: plan!.steps[step=a].after: step "b" has an after clause of its own; a chain '
        "is one level deep"
    )
    schema = write(tmp_path, "b.yaml", "plan!: {id: X, steps: []}")
    assert validate(schema).exit_code == 5
    assert validate(compiled, schema).exit_code == 2


def test_undeclared_inputs_may_be_left_out(tmp_path: Path) -> None:
    text = "plan!: {id: x, tools: {t: {input: {}}}, steps: [{step: a, tool: t, input: {k: {matcher: any}}}]}"
    path = write(tmp_path, "p.yaml", text)
    assert validate(path).exit_code == 4
    assert validate(path, "--no-strict-inputs").exit_code == 0


def test_the_schema_for_editors_is_printed() -> None:
    done = validate("--json-schema")
    assert done.exit_code == 0
    Draft202012Validator.check_schema(json.loads(done.stdout))


@pytest.mark.parametrize("arguments", [(), ("--nothing", "x")])
def test_wrong_usage_ends_with_64(arguments: tuple[str, ...]) -> None:
    assert validate(*arguments).exit_code == 64


def test_a_configuration_is_handed_to_who_knows_it(tmp_path: Path) -> None:
    good = write(tmp_path, "good.yaml", "buffer: {settle_delay: 2s}\n")
    done = validate(good)
    assert (done.exit_code, done.stdout) == (0, f"{good}: a good configuration of the collector\n")
    bad = write(tmp_path, "bad.yaml", "buffer: {settle_dely: 2s}\n")
    done = validate(bad)
    assert done.exit_code == 2
    assert "settle_dely" in done.stderr
    assert "did you mean" in done.stderr


def test_the_policy_in_a_configuration_is_checked_in_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, "onpath.yaml", "shutdown_timeout: 5s\npolicy:\n  seq!: [llm]\n  output: {eq: 1}\n")
    done = validate(path)
    assert done.exit_code == 2
    assert f"{path}:4:" in done.stderr
    write(tmp_path, "onpath.yaml", "shutdown_timeout: 5s\npolicy:\n  seq!: [llm]\n")
    done = validate(path)
    assert done.exit_code == 0
    assert "1 workflow, policy " in done.stdout


def test_a_policy_with_a_step_of_such_a_name_is_no_configuration(tmp_path: Path) -> None:
    path = write(tmp_path, "p.yaml", "seq!: [log]\nlog: {status: {eq!: ok}}\n")
    assert "workflow" in validate(path).stdout


def test_what_is_printed_hides_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "p.yaml", 'name: "x\\u202ey"\ndescription: "\\e[31mred"\nseq!: [a]\n')
    done = validate(path)
    assert "x\\u202ey: \\x1b[31mred" in done.stdout
