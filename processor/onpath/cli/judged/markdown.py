"""Markdown for job summaries and comments: a table of the results, and each failure folded below it.

Names come from outside: they stand in code spans, where no markup, mention or link begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from onpath.cli.judged import EvaluationJson, Judged, ResultJson, details, score_text
from onpath.cli.text import printable

_MARKS: Final = {"pass": "✅ pass", "fail": "❌ fail", "unknown": "❔ unknown"}
_ADVICE: Final = {"same": "", "missing": "add", "extra": "not expected here", "moved": "out of place"}


def render(judged: Judged) -> bytes:
    return "\n".join([f"**onpath** {judged.summary}", *_table(judged), *_failures(judged)]).encode()


def _table(judged: Judged) -> Iterator[str]:
    if not judged.results:
        return
    yield from ("", "| verdict | workflow | agent | trace | checks |", "|---|---|---|---|---|")
    for result in judged.results:
        checks = "<br>".join(_check(e) for e in result["evaluations"]).replace("|", "\\|")
        names = map(_cell, (result["workflow"], result["agent"] or result["service"], result["trace_id"]))
        yield "| " + " | ".join((_MARKS[result["verdict"]], *names, checks)) + " |"


def _check(evaluation: EvaluationJson) -> str:
    return " ".join(p for p in (_code(evaluation["name"]), evaluation["label"], score_text(evaluation["score"])) if p)


def _failures(judged: Judged) -> Iterator[str]:
    for result in judged.results:
        if result["verdict"] == "pass":
            continue
        yield from ("", f"<details><summary>{_MARKS[result['verdict']]} {_html(result['workflow'])}</summary>", "")
        yield from _place(judged, result)
        for evaluation in result["evaluations"]:
            if evaluation["label"] != "pass":
                yield from _evaluation(evaluation)
        yield "</details>"


def _place(judged: Judged, result: ResultJson) -> Iterator[str]:
    file = judged.file_of(result)
    where = f"trace {_code(result['trace_id'])}, span {_code(result['span_id'])}"
    yield where + (f", {_code(file)}" if file else "")
    yield ""


def _evaluation(evaluation: EvaluationJson) -> Iterator[str]:
    yield from (_check(evaluation), "")
    yield from _block(details(evaluation))
    if evaluation["label"] != "fail":
        return
    for finding in evaluation["findings"]:
        spans = f" (span {', '.join(map(_code, finding['span_ids']))})" if finding["span_ids"] else ""
        yield f"- {_code(finding['message'])}{spans}"
    if evaluation["alignment"]:
        yield from ("", "| expected | seen | |", "|---|---|---|")
        for row in evaluation["alignment"]:
            yield f"| {_cell(row['expected'])} | {_cell(row['seen'])} | {_ADVICE[row['move']]} |"
    yield ""


def _block(lines: list[str]) -> Iterator[str]:
    text = [printable(line) for line in lines]
    if text:
        fence = "`" * max(3, _longest_run(" ".join(text)) + 1)
        yield from (f"{fence}text", *text, fence, "")


def _code(text: str | None) -> str:
    """A code span."""
    shown = printable(text or "")
    if not shown:
        return ""
    ticks = "`" * (_longest_run(shown) + 1)
    space = " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def _cell(text: str | None) -> str:
    """A code span in a table."""
    return _code(text).replace("|", "\\|")


def _html(text: str) -> str:
    shown = printable(text)
    return "<code>" + "".join(f"&#{ord(c)};" if not c.isalnum() and c not in " -_." else c for c in shown) + "</code>"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
