"""Every kind of fault in a policy, all at once, each with its place and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from onpath.policy.load import PolicyError, load_data, load_policy
from onpath.policy.problems import Problem, Problems, pointer
from tests.support.policy_text import load_text

EVERYTHING_WRONG = """\
version: 1
default: {}
defaults: {nestd: flatten, sample: 2}
workflows:
  - name: refund
    match: {servce: refund-*, attributes: {tenant: {patern!: "^eu-"}}, input: {}}
    agnet: refund
    nested: flat
    spans: db.*
    ignore: [get_time, 5]
    aliases: {verify: [kyc, kyc2], other: [kyc], kyc2: [z]}
    principal: {attributes: [enduser.id], labels: {alice: u_1}}
    severity: high
    sample: 1.5
    capture_content: "yes"
    adherence:
      expected_step: [a]
      prohibited_steps: [b, ""]
      treshold: 1
    seq!: [llm, ..., verify, 3..1]
    parallel!: {tolerence: 100, spans: [a, b]}
    plan!: {id: X, steps: []}
    elapsed: {lt!: soon}
    checks:
      - {seq!: [a]}
      - {name: twice, seq!: [a], parallel!: [b, c], any!: {}}
      - {name: mine, agent: x, output: {contains!: a}}
      - {name: empty}
      - 5
  - name: refund
    seq!: [a]
  - {name: "two\\nlines", seq!: [a]}
  - 7
"""

TOLD = """\
p.yaml:2:1: /default: this key is not known; did you mean `defaults`?
p.yaml:3:12: /defaults/nestd: this key is not known; did you mean `nested`?
p.yaml:3:28: /defaults/sample: expected a number of at most 1, got 2
p.yaml:6:13: /workflows/0/match/servce: this key is not known; did you mean `service`?
p.yaml:6:53: /workflows/0/match/attributes/tenant/patern!: no validator is named `patern!`; did you mean `pattern!`?
p.yaml:6:72: /workflows/0/match/input: expected a mapping of validators and parts; this one is empty
p.yaml:7:5: /workflows/0/agnet: this key is not known, and was taken for the name of a step: expected a mapping with \
input, output, elapsed, usage, status, error, attempt; did you mean `agent`?
p.yaml:8:5: /workflows/0/nested: expected 'agents_as_steps' or 'flatten', got "flat"
p.yaml:9:5: /workflows/0/spans: expected a list, got text
p.yaml:10:24: /workflows/0/ignore/1: expected text, got a number
p.yaml:11:29: /workflows/0/aliases/verify/1: `kyc2` has aliases of its own, so it can't be one
p.yaml:11:44: /workflows/0/aliases/other/0: `kyc` is an alias of `verify` already
p.yaml:12:17: /workflows/0/principal/attributes: this key is not known; did you mean `attribute`?
p.yaml:12:52: /workflows/0/principal/labels/alice: expected a list, got text
p.yaml:13:5: /workflows/0/severity: expected 'low', 'material' or 'critical', got "high"
p.yaml:14:5: /workflows/0/sample: expected a number of at most 1, got 1.5
p.yaml:15:5: /workflows/0/capture_content: expected true or false, got text
p.yaml:16:5: /workflows/0/adherence/expected_steps: expected a list that is not empty
p.yaml:17:7: /workflows/0/adherence/expected_step: this key is not known; did you mean `expected_steps`?
p.yaml:18:29: /workflows/0/adherence/prohibited_steps/1: a name is not blank
p.yaml:19:7: /workflows/0/adherence/treshold: this key is not known; did you mean `threshold`?
p.yaml:20:30: /workflows/0/seq!/3: '3..1': the least number is greater than the most
p.yaml:21:17: /workflows/0/parallel!/tolerence: expected `tolerance` and `spans`
schema-parse-failure: plan!.id: expected lower-case letters and digits, in words joined by single hyphens
  at p.yaml:22:13 /workflows/0/plan!/id
p.yaml:23:15: /workflows/0/elapsed/lt!: `lt!` wants a number here
p.yaml:25:9: /workflows/0/checks/0: `name` is required
p.yaml:26:53: /workflows/0/checks/1/any!: `any!` can't stand here; it belongs in `seq!`
p.yaml:27:22: /workflows/0/checks/2/agent: `agent` belongs to the workflow, not to one of its checks
p.yaml:28:9: /workflows/0/checks/3: nothing is asked here; give it a validator, such as `adherence` or `seq!`
p.yaml:29:9: /workflows/0/checks/4: expected a mapping, got a number
p.yaml:30:5: /workflows/1/name: a second workflow named `refund` (the first is in p.yaml:5)
p.yaml:32:6: /workflows/2/name: a name has no line breaks
p.yaml:33:5: /workflows/3: expected a workflow, that is a mapping, got a number"""


def refused(text: str, name: str = "p.yaml", folder: Path | None = None) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        load_text(text, name, folder)
    return caught.value


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    error = refused(EVERYTHING_WRONG)
    assert str(error) == TOLD
    assert error.exit_code == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "p.yaml: expected a policy, a workflow or a list of workflows, got an empty file"),
        ("# nothing", "p.yaml: expected a policy, a workflow or a list of workflows, got an empty file"),
        ("just words", "p.yaml:1:1: expected a policy, a workflow or a list of workflows, got text"),
        ("[]", "p.yaml:1:1: expected a list of workflows that is not empty"),
        ("{}", "p.yaml:1:1: nothing is asked here; give it a validator, such as `adherence` or `seq!`"),
        ("name: x\nagent: y", "p.yaml:1:1: nothing is asked here; give it a validator, such as `adherence` or `seq!`"),
        ("workflows: []", "p.yaml:1:1: /workflows: expected a list that is not empty"),
        ("workflows:", "p.yaml:1:1: /workflows: expected a list, got null"),
        ("version: 1", "p.yaml:1:1: `workflows` is required"),
        ("version: 2\nworkflows: [{seq!: [a]}]", "p.yaml:1:1: /version: expected 1, got 2"),
        ("version: yes\nworkflows: [{seq!: [a]}]", "p.yaml:1:1: /version: expected 1, got true or false"),
        ("workflow: [{seq!: [a]}]", "p.yaml:1:1: /workflow: this key is not known; did you mean `workflows`?"),
        ("- seq!: [a]\n- 5", "p.yaml:2:3: /1: expected a workflow, that is a mapping, got a number"),
        ("seq!: [a]\nseq!: [b]", "p.yaml:2:1: /seq!: this key is given twice in one mapping (first on line 1)"),
        ("seq!: [a]\nagent:", "p.yaml:2:1: /agent: expected text, got null"),
        ("seq!: [a]\nmatch: null", "p.yaml:2:1: /match: expected a mapping, got null"),
        ("seq!: [a]\nchecks: {}", "p.yaml:2:1: /checks: expected a list of checks, got a mapping"),
        ("checks: []", "p.yaml:1:1: nothing is asked here; give it a validator, such as `adherence` or `seq!`"),
        (f"seq!: [a]\nname: {'x' * 101}", "p.yaml:2:1: /name: expected at most 100 characters, got 101"),
        ("seq!: [a]\nname: ''", "p.yaml:2:1: /name: expected text that is not empty"),
        ('seq!: [a]\nname: "a\\u2028b"', "p.yaml:2:1: /name: a name has no line breaks"),
        ("expected_steps: [a]\nstrict: 1", "p.yaml:2:1: /strict: this key is not known; did you mean `strict_order`?"),
        ("expected_steps: [a]\nadherence: {expected_steps: [b]}", "p.yaml:2:1: /adherence: this key is not known"),
        ("seq!: [a]\nadherance: {expected_steps: [a]}",
         "p.yaml:2:13: /adherance/expected_steps: `expected_steps` can't stand here: expected a mapping with input, "
         "output, elapsed, usage, status, error, attempt; did you mean `adherence`?"),
        ("seq!: [a]\nfoo: bar",
         "p.yaml:2:1: /foo: this key is not known, and was taken for the name of a step: expected a mapping with "
         "input, output, elapsed, usage, status, error, attempt"),
        ("id: x\nsteps: [{tool: a}]",
         "p.yaml:1:1: /id: this key is not known, and was taken for the name of a step: expected a mapping with "
         "input, output, elapsed, usage, status, error, attempt; `id` of a plan belongs under `plan!`\n"
         "p.yaml:2:10: /steps/0/tool: `tool` can't stand here: expected a mapping with input, output, elapsed, usage, "
         "status, error, attempt; `steps` of a plan belongs under `plan!`"),
        ("- expected_steps: [a]",
         "p.yaml:1:20: /0/expected_steps/0: expected a mapping with input, output, elapsed, usage, status, error, "
         "attempt; `expected_steps` belongs under `adherence`"),
        ("- seq!: [a]\n  params: {prompt: [x]}",
         "p.yaml:2:12: /0/params/prompt: expected text, got a list; an entry whose prompt is no text says by `match` "
         "what it is for"),
    ],
)  # fmt: skip
def test_one_fault_has_one_line(text: str, told: str) -> None:
    assert str(refused(text)) == told


@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r.yaml"])
@pytest.mark.parametrize(
    "text", ['{"resourceSpans": []}', '{"resourceLogs":[]}\n{"resourceSpans":[]}', '[{"resourceSpans":[]}]']
)
def test_a_recording_is_no_policy(text: str, name: str) -> None:
    assert (
        str(refused(text, name))
        == f"{name}:1:1: this is a recording (OTLP/JSON), no policy; see it with `onpath steps`"
    )


def test_two_evaluations_of_one_name_are_refused() -> None:
    error = refused(
        """\
seq!: [x]
seq: {status: {eq!: ok}}
required_steps: {status: {eq!: ok}}
adherence: {expected_steps: [q], required_steps: [q]}
checks:
  - {name: seq, seq!: [x]}
  - {name: c, seq!: [x], parallel!: [x, y]}
  - {name: c.seq, output: {eq!: 1}}
"""
    )
    assert str(error).splitlines() == [
        "p.yaml:2:1: /seq: a second evaluation named `seq` (the first is of /seq!)",
        "p.yaml:4:1: /adherence: a second evaluation named `required_steps` (the first is of /required_steps)",
        "p.yaml:6:5: /checks/0: a second evaluation named `seq` (the first is of /seq!)",
        "p.yaml:8:5: /checks/2: a second evaluation named `c.seq` (the first is of /checks/1)",
    ]


COMPILES_NOT = "{id: x, steps: [{step: a, tool: t, after: b}, {step: b, tool: t, after: c}, {step: c, tool: t}]}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"plan!: {COMPILES_NOT}", 4),
        ("plan!: {id: X, steps: []}", 5),
        (f"plan!: {COMPILES_NOT}\nchecks: [{{name: n, plan!: {{id: X, steps: []}}}}]", 2),
        (f"plan!: {COMPILES_NOT}\nagent: 5", 2),
        ("seq!: []", 2),
    ],
)
def test_the_exit_code_tells_what_kind_of_faults_there_are(text: str, code: int) -> None:
    assert refused(text).exit_code == code


def test_the_message_of_a_plan_fault_is_the_one_that_plans_have() -> None:
    told = str(refused(f"plan!: {COMPILES_NOT}"))
    assert told == (
        'nested-temporal-clause: plan!.steps[step=a].after: step "b" has an after clause of its own; a chain is one '
        "level deep\n  at p.yaml:1:43 /plan!/steps/0/after"
    )


def test_plans_may_name_inputs_that_they_did_not_declare_when_asked_not_to_mind() -> None:
    text = "plan!: {id: x, tools: {t: {input: {}}}, steps: [{step: a, tool: t, input: {k: {matcher: any}}}]}"
    assert [p.kind for p in refused(text).problems] == ["plan-compile"]
    assert len(load_text(text, "p.yaml", strict_inputs=False).workflows) == 1


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError) as caught:
        load_policy([tmp_path / "none.yaml", tmp_path / "bytes.yaml"])
    assert [p.message for p in caught.value.problems] == [
        "can't be read: No such file or directory",
        "not UTF-8 text at byte 0",
    ]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(PolicyError, match=r"no policy file"):
        load_policy([empty])
    (tmp_path / "good.yaml").write_text("seq!: [a]")
    with pytest.raises(PolicyError, match=r"empty: no policy file"):
        load_policy([empty, tmp_path / "good.yaml"])
    with pytest.raises(PolicyError, match=r"no policy file"):
        load_policy([])


def test_data_without_a_text_is_told_by_pointer() -> None:
    with pytest.raises(PolicyError) as caught:
        load_data({"version": 1, "workflows": [{"name": "x", "seq!": []}]}, "settings")
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.file, problem.line) == ("/workflows/0/seq!", "settings", None)


def test_data_that_no_file_could_hold_is_refused() -> None:
    with pytest.raises(PolicyError) as caught:
        load_data({"seq!": ["a"], 5: None, "output": {"eq!": {1, 2}}, "elapsed": (1,)})
    assert [(p.pointer, p.message) for p in caught.value.problems] == [
        ("/output/eq!", "set is no JSON value"),
        ("/elapsed", "tuple is no JSON value"),
        ("/5", "a key must be text"),
    ]
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(PolicyError, match="nested more than 100 deep"):
        load_data({"seq!": endless})


def test_warnings_stop_nothing() -> None:
    text = "ignore: [a]\nadherence:\n  expected_steps: [a]\n  gates: [required]\n"
    policy = load_text(text, "p.yaml")
    assert [str(warning) for warning in policy.warnings] == [
        "p.yaml:1:1: /ignore: `a` is ignored, so the adherence check that names it never sees it",
        "p.yaml:4:11: /adherence/gates/0: `required_steps` is empty, so there is nothing to gate",
    ]
    assert [str(w) for w in refused(text + "  threshold: 2\nagent: 3").warnings] == [
        "p.yaml:4:11: /adherence/gates/0: `required_steps` is empty, so there is nothing to gate"
    ]


def test_problems_gather_what_was_found_below() -> None:
    outer, inner = Problems(), Problems()
    inner.error(pointer("a/b", 0), "wrong")
    inner.warn("", "odd")
    inner.errors.append(Problem("/x", "elsewhere", file="contract.json"))
    outer.absorb(inner, "/workflows/1")
    assert [p.pointer for p in outer.errors] == ["/workflows/1/a~1b/0", "/x"]
    assert [p.pointer for p in outer.warnings] == ["/workflows/1"]
