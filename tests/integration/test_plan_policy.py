"""A plan is compiled when its policy is loaded: a collector with a bad one does not start, or keeps the one it has."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from onpath.cli import main
from tests.support.collector import Collector, Result
from tests.support.onpath import onpath
from tests.support.waiting import until

GOOD = """
version: 1
workflows:
  - name: tickets
    plan!:
      id: ticket-read-back
      tools:
        open_ticket: {mutates: true, input: {title: string}, output: {id: string, ok: boolean}}
        read_ticket: {input: {id: string}, output: {title: string}}
      steps:
        - {step: open, tool: open_ticket, input: {title: {matcher: any}}}
        - {step: check, tool: read_ticket, input: {id: {captured: /open/output/id}}, after: open}
      checks:
        - {id: O-001, severity: critical, equality: [/check/output/title, /open/input/title]}
"""
OTHER_TYPE = GOOD.replace("/open/output/id", "/open/output/ok")
UNKNOWN_FIELD = GOOD.replace("after: open", "afer: open")

COMPILE = (
    'onpath: unreachable-check-evidence: plan!.steps[step=check].input["id"]: captured pointer "/open/output/ok" '
    'resolves to a declared "boolean", which is not the "string" the bound arguments parameter "id" is declared as'
)
SCHEMA = "onpath: schema-parse-failure: plan!.steps[1].afer: this field is not known"


def refused_start(policy: Path) -> tuple[int, str]:
    done = onpath("collector", "--policy", str(policy), "--grpc", "127.0.0.1:0")
    assert done.stdout == ""
    return done.returncode, done.stderr


def validated(policy: Path) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["validate", str(policy)])
    return done.exit_code, done.stderr


@pytest.mark.parametrize(
    ("text", "code", "first"),
    [
        (OTHER_TYPE, 4, COMPILE),
        (UNKNOWN_FIELD, 5, SCHEMA),
        (OTHER_TYPE + UNKNOWN_FIELD.partition("workflows:\n")[2].replace("name: tickets", "name: more"), 2, COMPILE),
        (OTHER_TYPE + "    elapsed: {lt!: soon}\n", 2, COMPILE),
    ],
    ids=["compile", "schema", "both", "beside-another-problem"],
)
def test_a_collector_with_a_bad_plan_does_not_start(tmp_path: Path, text: str, code: int, first: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(text, encoding="utf-8")
    told = refused_start(policy)
    assert told == validated(policy)
    assert (told[0], told[1].splitlines()[0]) == (code, first)
    assert str(policy) in told[1].splitlines()[1]


def test_neither_does_one_with_a_bad_contract_file(tmp_path: Path) -> None:
    contract, policy = tmp_path / "contract.json", tmp_path / "policy.yaml"
    step = {"stepId": "a", "operationId": "open_ticket", "inputBinding": {"arguments": {}}, "after": None}
    contract.write_text(
        json.dumps({"permittedInterfaces": [], "interactionPlan": [{**step, "cardinality": "any"}]}), encoding="utf-8"
    )
    policy.write_text("plan!: {contract: contract.json}\n", encoding="utf-8")
    told = refused_start(policy)
    assert told == validated(policy)
    line = (
        "onpath: schema-parse-failure: EvalContract.interactionPlan[0].inputBinding.arguments: "
        "an input-binding channel names at least one parameter; an unbound channel is null"
    )
    assert (told[0], told[1].splitlines()[0]) == (5, line)
    assert str(contract) in told[1].splitlines()[1]


def ticket_run(collector: Collector, title_read: str = "Broken") -> Result:
    """The result of an agent that opens a ticket and reads it back."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=collector.endpoint, insecure=True)))
    tracer = provider.get_tracer("agent")
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("open_ticket", {"title": "Broken"}, {"id": "T-1", "ok": True}),
        ("read_ticket", {"id": "T-1"}, {"title": title_read}),
    ]
    with tracer.start_as_current_span("invoke_agent desk") as root:
        root.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"})
        for name, sent, got in calls:
            with tracer.start_as_current_span(f"execute_tool {name}") as span:
                span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name})
                span.set_attribute("gen_ai.tool.call.arguments", json.dumps(sent))
                span.set_attribute("gen_ai.tool.call.result", json.dumps(got))
    provider.shutdown()
    trace_id = f"{root.get_span_context().trace_id:032x}"
    [result] = collector.wait_for(lambda result: result["trace_id"] == trace_id)
    return result


def said(collector: Collector) -> list[str]:
    return [str(json.loads(line)["message"]) for line in collector.process.lines]


def test_a_reload_with_a_bad_plan_keeps_the_one_before(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(GOOD, encoding="utf-8")
    with Collector(policy, tmp_path, "--log-format", "json") as collector:
        before = ticket_run(collector)
        for text, line in ((OTHER_TYPE, COMPILE), (UNKNOWN_FIELD, SCHEMA)):
            policy.write_text(text, encoding="utf-8")
            os.kill(collector.process.pid, signal.SIGHUP)
            until(lambda line=line: line in said(collector), lambda: f"the fault; it said\n{collector.output}")
            at = said(collector).index(line)
            lines = said(collector)[at : at + 2]
            assert validated(policy)[1].splitlines() == lines
        kept = ticket_run(collector, title_read="")
        policy.write_text(GOOD.replace("critical", "low"), encoding="utf-8")
        os.kill(collector.process.pid, signal.SIGHUP)
        collector.process.wait_for_line("policy reloaded: 1 workflow")
        after = ticket_run(collector, title_read="")
    assert [result["verdict"] for result in (before, kept, after)] == ["pass", "fail", "pass"]
    assert before["policy_fingerprint"] == kept["policy_fingerprint"] != after["policy_fingerprint"]
