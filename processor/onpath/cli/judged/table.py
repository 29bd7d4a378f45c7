"""The view for people: one row a result, then each failure with what was expected beside what was seen."""

from __future__ import annotations

from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onpath.cli.judged import EvaluationJson, Judged, ResultJson, details, score_text
from onpath.cli.report_view import alignment_table
from onpath.cli.text import printable

_STYLES: Final = {"pass": "green", "fail": "bold red", "unknown": "yellow"}


def show(judged: Judged, console: Console) -> None:
    if judged.results:
        console.print(_overview(judged))
    for result in judged.results:
        if judged.failed(result["verdict"]) or result["verdict"] == "unknown":
            console.print(_details(judged, result))
            console.print()
    console.print(Text(judged.summary))


def _overview(judged: Judged) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("verdict")
    table.add_column("workflow", overflow="fold")
    table.add_column("trace", no_wrap=True)
    table.add_column("agent", overflow="fold")
    table.add_column("checks", overflow="fold")
    for result in judged.results:
        table.add_row(
            _verdict(result["verdict"]),
            _text(result["workflow"]),
            _text(result["trace_id"]),
            _text(result["agent"] or result["service"]),
            Text("\n").join(_check(e) for e in result["evaluations"]),
        )
    return table


def _details(judged: Judged, result: ResultJson) -> Group:
    head = Text.assemble(_verdict(result["verdict"]), f"  {printable(result['workflow'])}", style="bold")
    place = f"trace {result['trace_id']}, span {result['span_id']}"
    if result["agent"]:
        place += f", agent {printable(result['agent'])}"
    file = judged.file_of(result)
    if file:
        place += f", {printable(file)}"
    blocks = [_evaluation(judged, e) for e in result["evaluations"] if e["label"] != "pass"]
    return Group(head, Text(place, style="dim"), *(_indented(block) for block in blocks))


def _evaluation(judged: Judged, evaluation: EvaluationJson) -> Group:
    parts: list[RenderableType] = [_check(evaluation)]
    parts += [_indented(Text(printable(line))) for line in details(evaluation)]
    if evaluation["label"] == "fail":
        parts += [_indented(_finding(f["message"], f["span_ids"])) for f in evaluation["findings"]]
        if evaluation["alignment"]:
            parts.append(_indented(alignment_table(evaluation["alignment"])))
        if evaluation["key"] in judged.time_lines:
            parts.append(_indented(judged.time_lines[evaluation["key"]]))
    return Group(*parts)


def _indented(block: RenderableType) -> Padding:
    return Padding(block, (0, 0, 0, 2), expand=False)


def _finding(message: str, span_ids: list[str]) -> Text:
    spans = f"  (span {', '.join(span_ids)})" if span_ids else ""
    return Text.assemble((f"! {printable(message)}", "red"), (spans, "dim"))


def _check(evaluation: EvaluationJson) -> Text:
    label = evaluation["label"]
    score = score_text(evaluation["score"])
    return Text.assemble((f"{label:<8}", _STYLES[label]), printable(evaluation["name"]), f" {score}" if score else "")


def _verdict(verdict: str) -> Text:
    return Text(verdict, style=_STYLES[verdict])


def _text(text: str | None) -> Text:
    return Text(printable(text or "-"))
