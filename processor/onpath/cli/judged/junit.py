"""JUnit XML: a suite for each workflow, a case for each evaluation of each scope; unknown is skipped."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree

from onpath.cli.judged import EvaluationJson, Judged, ResultJson, details, score_text, what_failed
from onpath.cli.text import printable

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, `Char`


def render(judged: Judged) -> bytes:
    root = ElementTree.Element("testsuites", name="onpath", time="0")
    suites: dict[str, ElementTree.Element] = {}
    for result in judged.results:
        workflow = result["workflow"]
        if workflow not in suites:
            suites[workflow] = ElementTree.SubElement(root, "testsuite", name=_line(workflow), time="0")
            suites[workflow].set("timestamp", result["judged_at"][:19])
        for evaluation in result["evaluations"]:
            suites[workflow].append(_case(judged, result, evaluation))
    for suite in root:
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(count, str(sum(case.find(tag) is not None for case in suite)))
        suite.set("tests", str(len(suite)))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _case(judged: Judged, result: ResultJson, evaluation: EvaluationJson) -> ElementTree.Element:
    name = f"{evaluation['name']} [{result['trace_id']} {result['span_id']}]"
    case = ElementTree.Element("testcase", name=_line(name), classname=_line(result["workflow"]), time="0")
    if evaluation["label"] == "pass":
        return case
    said = _line(what_failed(evaluation))
    if "error_type" in evaluation:
        _put(case, "error", said, evaluation, judged.file_of(result))
    elif judged.failed(evaluation["label"]):
        _put(case, "failure", said, evaluation, judged.file_of(result))
    else:
        ElementTree.SubElement(case, "skipped", message=said)
    return case


def _put(case: ElementTree.Element, tag: str, message: str, evaluation: EvaluationJson, file: str | None) -> None:
    kind = evaluation.get("error_type") or evaluation["label"]
    element = ElementTree.SubElement(case, tag, message=message, type=_line(kind))
    element.text = "\n".join(_line(line) for line in _lines(evaluation, file))


def _lines(evaluation: EvaluationJson, file: str | None) -> list[str]:
    score = score_text(evaluation["score"])
    lines = [f"in {file}"] if file else []
    lines += [f"score {score}"] if score else []
    lines += details(evaluation)
    for finding in evaluation["findings"]:
        spans = f" (span {', '.join(finding['span_ids'])})" if finding["span_ids"] else ""
        lines.append(f"{finding['rule']}: {finding['message']}{spans}")
    lines += (f"{row['move']:<8}{row['expected'] or '-'} | {row['seen'] or '-'}" for row in evaluation["alignment"])
    return lines


def _line(text: str) -> str:
    """Without what XML forbids, and with what could deceive a reader as escapes."""
    return printable(_FORBIDDEN.sub("", text))
