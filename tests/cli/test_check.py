"""`onpath check`: exit codes, the formats, and names that try to deceive whoever reads them."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from onpath.cli import main

EXPECTED = ["lookup", "pay"]
HOSTILE = "wipe\u202e|`x`\x00[red]<b>@you\ud800\x1b[31m\u2028\nend"

Write = Callable[[str, Any], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(name: str, value: Any) -> str:
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return str(path)

    return put


def check(*args: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["check", *args], input=stdin)


def policy(**adherence: Any) -> dict[str, Any]:
    return {
        "workflows": [
            {
                "name": "refund",
                "match": {"service": "refund-*"},
                "severity": "critical",
                "adherence": {"expected_steps": EXPECTED, "extract_from": "tool_calls", **adherence},
            }
        ]
    }


def run(tools: Sequence[str], trace: int = 1, service: str = "refund-agent", **agent: Any) -> dict[str, Any]:
    """One OTLP/JSON request: an agent and the tools it called, one after another."""
    root = _span(trace, 1, None, 0, 100, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot", **agent})
    called = [
        _span(trace, i, 1, 5 * i, 5 * i + 2, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name})
        for i, name in enumerate(tools, 2)
    ]
    resource = {"attributes": _attributes({"service.name": service})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [root, *called]}]}]}


def _span(
    trace: int, span: int, parent: int | None, start: int, end: int, attributes: dict[str, Any]
) -> dict[str, Any]:
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{trace * 100 + span:016x}",
        **({"parentSpanId": f"{trace * 100 + parent:016x}"} if parent else {}),
        "name": "span",
        "startTimeUnixNano": str(start * 10**6),
        "endTimeUnixNano": str(end * 10**6),
        "attributes": _attributes(attributes),
    }


def _attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()]


# ------------------------------------------------------------------ exit codes


@pytest.mark.parametrize(
    ("recordings", "options", "code"),
    [
        ([run(EXPECTED)], [], 0),
        ([run(EXPECTED), run([], trace=2)], [], 0),  # what is unknown stands beside a pass
        ([run(EXPECTED), run([], trace=2)], ["--strict"], 1),
        ([run(["lookup"], trace=2), run(EXPECTED)], [], 1),
        ([run([])], [], 3),
        ([run([])], ["--strict"], 1),
        ([run(EXPECTED, service="other")], [], 3),
        ([run(EXPECTED, service="other")], ["--strict"], 3),
        ([], [], 3),
    ],
)
@pytest.mark.parametrize("form", ["table", "json", "junit", "sarif", "markdown"])
def test_exit_codes(write: Write, recordings: list[Any], options: list[str], code: int, form: str) -> None:
    lines = "\n".join(map(json.dumps, recordings))
    rules = write("policy.yaml", policy(threshold=1))
    got = check("--policy", rules, write("run.jsonl", lines), "--format", form, *options)
    assert got.exit_code == code
    if code == 3 and form != "table":
        assert got.stderr.startswith("onpath: nothing passed or failed; ")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("workflows: []", 2),
        ("workflows: [{name: x, adherence: {expected_steps: [], threshold: 2}}]", 2),
        ("workflows: [{name: x, plan!: {}}]", 5),
        ("{", 2),
    ],
)
def test_a_refused_policy(write: Write, text: str, code: int) -> None:
    got = check("--policy", write("policy.yaml", text), write("run.jsonl", run(EXPECTED)))
    assert got.exit_code == code
    assert got.stdout == ""
    assert got.stderr.startswith("onpath: ")
    assert "policy.yaml" in got.stderr


def test_a_policy_that_is_not_there(write: Write, tmp_path: Path) -> None:
    assert check("--policy", str(tmp_path / "none.yaml"), write("run.jsonl", run(EXPECTED))).exit_code == 2


@pytest.mark.parametrize(
    "args", [[], ["run.jsonl"], ["--policy", "p"], ["--policy", "p", "--format", "pdf", "f"], ["--polici", "p", "f"]]
)
def test_wrong_usage(args: list[str]) -> None:
    assert check(*args).exit_code == 64


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ('{"resourceSpans": ', "not JSON"),
        ('{"spans": []}', "expected OTLP/JSON"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_a_recording_that_cannot_be_read(write: Write, tmp_path: Path, content: str | None, said: str) -> None:
    file = str(tmp_path / "run\x1b.jsonl") if content is None else write("run\x1b.jsonl", content)
    got = check("--policy", write("policy.yaml", policy()), file)
    assert (got.exit_code, got.stdout) == (2, "")
    assert len(got.stderr.splitlines()) == 1
    assert said in got.stderr
    assert "\x1b" not in got.stderr


def test_a_folder_is_no_recording(write: Write, tmp_path: Path) -> None:
    got = check("--policy", write("policy.yaml", policy()), str(tmp_path))
    assert got.exit_code == 2
    assert len(got.stderr.splitlines()) == 1


# ------------------------------------------------------------------ what is read


def test_standard_input_and_gz(write: Write, tmp_path: Path) -> None:
    rules = write("policy.yaml", policy())
    assert check("--policy", rules, "-", stdin=json.dumps(run(EXPECTED))).exit_code == 0
    packed = tmp_path / "run.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(run(EXPECTED)).encode()))
    assert check("--policy", rules, str(packed)).exit_code == 0


def test_several_files_are_one_recording_and_policies_one_policy(write: Write) -> None:
    whole = run(EXPECTED)
    spans = whole["resourceSpans"][0]["scopeSpans"][0]["spans"]
    halves = []
    for name, part in (("a.jsonl", spans[:2]), ("b.jsonl", spans[2:])):
        request = run([])
        request["resourceSpans"][0]["scopeSpans"][0]["spans"] = part
        halves.append(write(name, request))
    other = {"workflows": [{**policy()["workflows"][0], "name": "second"}]}
    rules = [write("one.yaml", policy(threshold=1)), write("two.yaml", other)]
    got = check("--policy", rules[0], "--policy", rules[1], *halves, "--format", "json")
    assert got.exit_code == 0
    assert [json.loads(line)["workflow"] for line in got.stdout.splitlines()] == ["refund", "second"]


def test_traces_of_a_session_are_judged_as_one(write: Write) -> None:
    recorded = "\n".join(
        json.dumps(run([tool], trace=number, **{"session.id": "s1"})) for number, tool in enumerate(EXPECTED, 1)
    )
    rules, file = write("policy.yaml", policy(threshold=1)), write("run.jsonl", recorded)
    assert check("--policy", rules, file).exit_code == 1
    together = check("--policy", rules, file, "--group-by", "session.id", "--format", "json")
    assert together.exit_code == 0
    assert json.loads(together.stdout)["session"] == "s1"


def test_warnings_of_a_policy_are_told(write: Write) -> None:
    rules = write("policy.yaml", policy(required_steps=["pay", "pay"]))
    got = check("--policy", rules, write("run.jsonl", run(EXPECTED)))
    assert got.exit_code == 0
    assert got.stderr.startswith("onpath: warning: ")


# ------------------------------------------------------------------ formats


@pytest.fixture
def hostile(write: Write) -> Callable[[str], Result]:
    """A run that took a step of a name made to deceive, and one that can't be judged."""
    recorded = f"{json.dumps(run(['lookup', HOSTILE]))}\n{json.dumps(run([], trace=2))}"
    rules = write("policy.yaml", policy(strict_order=True, required_steps=["pay"]))
    file = write("run \x7f.jsonl", recorded)

    def show(form: str, *options: str) -> Result:
        got = check("--policy", rules, file, "--format", form, *options)
        assert got.exit_code == 1
        return got

    return show


def test_no_format_lets_control_characters_through(hostile: Callable[[str], Result]) -> None:
    for form in ("table", "json", "junit", "sarif", "markdown"):
        text = hostile(form).stdout
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", text)


BREAKING = "pay\r\n::error::paid\u2028##[error]\x85::stop-commands::x"


@pytest.mark.parametrize("form", ["table", "junit", "sarif", "markdown"])
def test_no_name_begins_a_line_of_its_own(write: Write, form: str) -> None:
    """Lines that begin so are orders to some CI systems."""
    adherence = {"extract_from": "tool_calls", "expected_steps": ["lookup"], "prohibited_steps": [BREAKING]}
    checks = {"adherence": adherence, "seq!": ["lookup"]}
    rules = write("p.json", {"workflows": [{"name": "w", "agent": "bot", **checks}]})
    got = check("--policy", rules, write("run.jsonl", run([BREAKING])), "--format", form)
    assert got.exit_code == 1
    assert "::error::paid" in got.stdout
    assert not [line for line in got.stdout.splitlines() if line.strip().startswith(("::", "##"))]


def test_a_bar_in_a_name_is_escaped_where_it_would_end_a_cell(write: Write) -> None:
    adherence = {"extract_from": "tool_calls", "expected_steps": ["a|b"]}
    rules = write("p.json", {"workflows": [{"name": "w", "agent": "bot", "adherence": adherence}]})
    lines = check("--policy", rules, write("run.jsonl", run(["c|d"])), "--format", "markdown").stdout.splitlines()
    assert "- `expected step a|b is missing`" in lines
    assert "| `a\\|b` |  | add |" in lines


def test_the_table_shows_expected_beside_seen(hostile: Callable[[str], Result]) -> None:
    lines = [" ".join(line.split()) for line in hostile("table").stdout.splitlines()]
    assert "lookup lookup" in lines
    assert "- pay add" in lines
    assert any(line.startswith("+ wipe\\u202e|`x`\\x00[red]<b>@you") for line in lines)
    assert any(line.startswith("Unknown: ") for line in lines)
    assert lines[-1] == "2 traces: 1 fail, 1 unknown"


def timed(*tools: tuple[str, int, int]) -> dict[str, Any]:
    """A run whose tools ran from and to these milliseconds."""
    made = run([])
    made["resourceSpans"][0]["scopeSpans"][0]["spans"] += [
        _span(1, i, 1, start, end, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name})
        for i, (name, start, end) in enumerate(tools, 2)
    ]
    return made


def test_a_time_line_of_what_should_have_been_parallel(write: Write) -> None:
    rules = write("p.json", {"workflows": [{"name": "w", "agent": "bot", "parallel!": ["a", "q"]}]})
    file = write("run.jsonl", timed(("a", 5, 20), ("q", 26, 45)))
    got = check("--policy", rules, file)
    assert got.exit_code == 1
    lines = [" ".join(line.split()) for line in got.stdout.splitlines()]
    at = lines.index("a a")
    assert lines[at + 1 : at + 5] == [
        "~ q q out of place",
        f"a {'█' * 18}{'·' * 30} 0 to 15 ms",
        f"q {'·' * 25}{'█' * 23} 21 to 40 ms",
        "apart by 6 ms",
    ]
    assert got.stdout.count("never at the same time") == 1


@pytest.mark.parametrize(
    ("tools", "drawn"),
    [
        ([("a", 5, 20), ("b", 20, 30)], "not apart: the last begins when the first one ends"),
        ([("a", 5, 20), ("b", 22, 22)], "apart by 2 ms"),
        ([("a", 5, 5), ("b", 5, 5), ("c", 5, 5)], None),  # the run takes one step more: no matter of time
    ],
)
def test_a_time_line_of_a_sequence(write: Write, tools: list[tuple[str, int, int]], drawn: str | None) -> None:
    rules = write("p.json", {"workflows": [{"name": "w", "agent": "bot", "seq!": [{"parallel!": ["a", "b"]}]}]})
    got = check("--policy", rules, write("run.jsonl", timed(*tools)))
    assert got.exit_code == 1
    assert (drawn or "!") in got.stdout
    assert ("█" in got.stdout) == (drawn is not None)


def test_json_is_one_result_a_line(hostile: Callable[[str], Result]) -> None:
    failed, unknown = map(json.loads, hostile("json").stdout.splitlines())
    assert [failed["verdict"], unknown["verdict"]] == ["fail", "unknown"]
    assert HOSTILE.replace("\ud800", "?") in [row["seen"] for row in failed["evaluations"][0]["alignment"]]


def test_junit(hostile: Callable[[str], Result]) -> None:
    root = ElementTree.fromstring(hostile("junit").stdout)
    assert root.tag == "testsuites"
    assert {k: root.get(k) for k in ("tests", "failures", "errors")} == {"tests": "4", "failures": "2", "errors": "0"}
    (suite,) = root
    assert (suite.tag, suite.get("name"), suite.get("skipped")) == ("testsuite", "refund", "2")
    assert set(suite.attrib) == {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
    for case in suite:
        assert case.tag == "testcase"
        assert set(case.attrib) == {"name", "classname", "time"}
        assert [child.tag for child in case] in ([], ["failure"], ["skipped"])
    failure = suite[0][0]
    assert set(failure.attrib) == {"message", "type"}
    assert "missing_step: expected step pay is missing" in (failure.text or "")
    assert "wipe\\u202e|`x`[red]<b>@you" in (failure.text or "")


def test_junit_with_strict_has_no_skipped_cases(hostile: Callable[..., Result]) -> None:
    root = ElementTree.fromstring(hostile("junit", "--strict").stdout)
    assert root.get("failures") == "4"


def test_sarif(hostile: Callable[..., Result]) -> None:
    log = json.loads(hostile("sarif").stdout)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    driver, results = log["runs"][0]["tool"]["driver"], log["runs"][0]["results"]
    assert driver["name"] == "onpath"
    assert [r["id"] for r in driver["rules"]] == ["missing_step", "extra_step", "required_missing"]
    for result in results:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert (result["level"], result["kind"]) == ("error", "fail")
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"].endswith("/run%20%7F.jsonl")
        assert "\x00" not in result["message"]["text"]
    assert len({r["partialFingerprints"]["onpath/v1"] for r in results}) == len(results)
    (notified, _) = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert notified["level"] == "warning"
    strict = json.loads(hostile("sarif", "--strict").stdout)
    assert "unknown" in [r["ruleId"] for r in strict["runs"][0]["results"]]


def test_a_name_is_no_link_in_sarif(write: Write) -> None:
    rules = write("p.json", {"workflows": [{"name": "w", "agent": "bot", "seq!": ["lookup"]}]})
    got = check("--policy", rules, write("run.jsonl", run(["[pay](https://evil.example)"])), "--format", "sarif")
    (result,) = json.loads(got.stdout)["runs"][0]["results"]
    assert "[pay] (https://evil.example)" in result["message"]["text"]


def test_markdown(hostile: Callable[[str], Result]) -> None:
    text = hostile("markdown").stdout
    assert "| ❌ fail | `refund` | `bot` |" in text
    assert "| `pay` |  | add |" in text
    row = next(line for line in text.splitlines() if line.startswith("|  | ``wipe"))
    assert row.startswith("|  | ``wipe\\u202e\\|`x`\\x00[red]<b>@you")
    assert text.count("<details>") == text.count("</details>") == 2


def test_as_a_process(write: Write) -> None:
    rules, file = write("policy.yaml", policy(prohibited_steps=["wipe"])), write("run.jsonl", run([*EXPECTED, "wipe"]))
    done = subprocess.run(
        [sys.executable, "-m", "onpath.cli", "check", "--policy", rules, file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "Prohibited: found wipe" in done.stdout
