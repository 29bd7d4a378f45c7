"""Fenced code blocks, set apart from the text around them (adherence.md section 6)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_MARKDOWN: Final = frozenset({"markdown", "md"})


@dataclass(frozen=True, slots=True)
class Text:
    """`outside`: what stands outside blocks, and in those marked as Markdown. `blocks`: contents of the others."""

    outside: str
    blocks: tuple[str, ...]


def divide(text: str) -> Text:
    """A fence opens with three or more backticks or tildes and closes with as many of the same, or with the text."""
    outside: list[str] = []
    blocks: list[str] = []
    markdown: list[str] = []  # open fences of Markdown blocks
    fence: str | None = None  # open fence of a code block
    start = 0
    for line in _FENCE.finditer(text):
        marks, info = line[1], line[2].strip()
        if fence is not None:
            if not _closes(fence, marks, info):
                continue
            blocks.append(text[start : line.start()])
            fence = None
        elif markdown and _closes(markdown[-1], marks, info):
            outside.append(text[start : line.start()])
            markdown.pop()
        elif marks[0] == "`" and "`" in info:
            continue  # inline code at the beginning of a line
        else:
            outside.append(text[start : line.start()])
            if info.partition(" ")[0].lower() in _MARKDOWN:
                markdown.append(marks)
            else:
                fence = marks
        start = line.end() + 1
    (outside if fence is None else blocks).append(text[start:])
    return Text("\n".join(outside), tuple(blocks))


def _closes(fence: str, marks: str, info: str) -> bool:
    return not info and marks[0] == fence[0] and len(marks) >= len(fence)
