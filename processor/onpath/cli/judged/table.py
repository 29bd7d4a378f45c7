"""The view for people: one row a result, then each failure with what was expected beside what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onpath.cli.judged import EvaluationJson, Judged, ResultJson, details, score_text
from onpath.cli.report_view import alignment_table
from onpath.cli.text import printable

_Block: TypeAlias = tuple[int, RenderableType]  # with its indent; not nested, which rich would measure at each level
_LISTED: Final = 1_000  # results; of more, what passed is not listed
_STYLES: Final = {"pass": "green", "fail": "bold red", "unknown": "yellow"}


def show(judged: Judged, console: Console) -> None:
    many = len(judged.results) > _LISTED
    listed = [r for r in judged.results if not many or r["verdict"] != "pass"]
    if listed:
        console.print(_overview(listed))
    for result in judged.results:
        if judged.failed(result["verdict"]) or result["verdict"] == "unknown":
            for indent, block in _details(judged, result):
                console.print(Padding(block, (0, 0, 0, indent), expand=False) if indent else block)
            console.print()
    if len(listed) < len(judged.results):
        console.print(Text(f"What passed is not listed: there are more than {_LISTED:,} results."))
    console.print(Text(judged.summary))


def _overview(results: Iterable[ResultJson]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("verdict")
    table.add_column("workflow", overflow="fold")
    table.add_column("trace", no_wrap=True)
    table.add_column("agent", overflow="fold")
    table.add_column("checks", overflow="fold")
    for result in results:
        table.add_row(
            _verdict(result["verdict"]),
            _text(result["workflow"]),
            _text(result["trace_id"]),
            _text(result["agent"] or result["service"]),
            Text("\n").join(_check(e) for e in result["evaluations"]),
        )
    return table


def _details(judged: Judged, result: ResultJson) -> Iterator[_Block]:
    yield 0, Text.assemble(_verdict(result["verdict"]), f"  {printable(result['workflow'])}", style="bold")
    place = f"trace {result['trace_id']}, span {result['span_id']}"
    if result["agent"]:
        place += f", agent {printable(result['agent'])}"
    file = judged.file_of(result)
    if file:
        place += f", {printable(file)}"
    yield 0, Text(place, style="dim")
    for evaluation in result["evaluations"]:
        if evaluation["label"] != "pass":
            yield from _evaluation(judged, evaluation)


def _evaluation(judged: Judged, evaluation: EvaluationJson) -> Iterator[_Block]:
    yield 2, _check(evaluation)
    for line in details(evaluation):
        yield 4, Text(printable(line))
    if evaluation["label"] == "fail":
        for finding in evaluation["findings"]:
            yield 4, _finding(finding["message"], finding["span_ids"])
        if evaluation["alignment"]:
            yield 0, alignment_table(evaluation["alignment"], indent=4)
        if evaluation["key"] in judged.time_lines:
            yield 4, judged.time_lines[evaluation["key"]]


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
