"""How a report is shown to people: the alignment of what was expected beside what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from onpath.cli.text import printable

# move -> mark before the row, what to do about it, style
_MOVES: Final = {
    "same": (" ", "", ""),
    "missing": ("-", "add", "red"),
    "extra": ("+", "not expected here", "yellow"),
    "moved": ("~", "out of place", "yellow"),
}


def alignment_table(rows: Sequence[Mapping[str, Any]], indent: int = 0) -> Table:
    """Expected beside seen, one row a step, as the JSON of a report has them (results.md section 1).

    `indent` is a part of the table: rich would measure one that is put into a padding twice.
    """
    table = Table(box=None, padding=(0, 2), show_edge=False, pad_edge=True)
    table.add_column("")
    table.add_column("expected", header_style="dim")
    table.add_column("seen", header_style="dim")
    table.add_column("")
    for row in rows:
        mark, advice, style = _MOVES[row["move"]]
        table.add_row(
            " " * indent + mark,
            Text(printable(row["expected"] or "")),
            Text(printable(row["seen"] or "")),
            advice,
            style=style,
        )
    return table
