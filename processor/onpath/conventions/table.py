"""The one table that orders the families, and the look-ups made of it.

Rows stand in the order in which families decide a span's role when several meet on one span; the number is the order
in which their facts are read. To add a family: one module that makes a `Family`, and one row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from onpath.conventions import (
    adk,
    claude_code,
    codex,
    genai,
    genai_old,
    genkit,
    haystack,
    langfuse,
    langsmith,
    logfire,
    mastra,
    mcp,
    mlflow,
    openinference,
    strands,
    traceloop,
    vercel,
)
from onpath.conventions.base import (
    CallReader,
    EventReader,
    Fact,
    Family,
    Flattened,
    Own,
    Reader,
    Role,
    RoleReader,
    UsageReader,
)
from onpath.model import Span

TABLE: Final[tuple[tuple[Family, int], ...]] = (
    (openinference.FAMILY, 6),
    (langfuse.FAMILY, 7),
    (langsmith.FAMILY, 9),
    (mlflow.FAMILY, 8),
    (mastra.FAMILY, 5),
    (genai.FAMILY, 1),
    (mcp.FAMILY, 2),
    (claude_code.FAMILY, 12),
    (codex.FAMILY, 13),
    (vercel.FAMILY, 3),
    (genkit.FAMILY, 10),
    (haystack.FAMILY, 11),
    (traceloop.FAMILY, 14),
    (adk.FAMILY, 4),
    (strands.FAMILY, 16),
    (genai_old.FAMILY, 15),
    (logfire.FAMILY, 17),
)

FAMILIES: Final[tuple[Family, ...]] = tuple(family for family, _ in TABLE)
_BY_VALUE: Final[tuple[Family, ...]] = tuple(family for family, _ in sorted(TABLE, key=lambda row: row[1]))


class Claim(NamedTuple):
    """A span's role, the family that gave it, and by what: an attribute key, or empty for the span's name."""

    role: Role
    family: str = ""
    key: str = ""


class Marker(NamedTuple):
    """What may give a span its role: a value under a key. The family with the lowest rank decides."""

    rank: int
    name: str
    key: str
    rule: Mapping[str, Role] | RoleReader


def _markers() -> dict[str, tuple[Marker, ...]]:
    found: dict[str, tuple[Marker, ...]] = {}
    for rank, family in enumerate(FAMILIES):
        for key, rule in family.roles.items():
            found[key] = (*found.get(key, ()), Marker(rank, family.name, key, rule))
    return found


NO_CLAIM: Final = Claim("other")
MARKERS: Final = _markers()
PLACEHOLDERS: Final = {key: (family.name, test) for family in FAMILIES for key, test in family.placeholders.items()}
NAMED: Final = {scope: family for family in reversed(FAMILIES) for scope in family.scopes}
WORDED: Final = {word: family for family in reversed(FAMILIES) for word in family.words}


class Source(NamedTuple):
    """Where a fact may stand: its place in the order of the fact's keys, the key, and how to read it."""

    rank: int
    key: str
    reader: Reader


READERS: Final[Mapping[Fact, tuple[tuple[str, Reader], ...]]] = {
    fact: tuple((k, r) for family in _BY_VALUE for k, r in family.facts.get(fact, {}).items())
    for fact in {f for family in FAMILIES for f in family.facts}
}
# By attribute key, so that one pass over a span's attributes finds all that is to be read.
SOURCES: Final[Mapping[str, tuple[tuple[Fact, Source], ...]]] = {
    key: tuple(
        (fact, Source(rank, k, reader))
        for fact, readers in READERS.items()
        for rank, (k, reader) in enumerate(readers)
        if k == key
    )
    for key in {k for readers in READERS.values() for k, _ in readers}
}
USAGE: Final[Mapping[str, tuple[int, str]]] = {
    key: (rank, metric) for rank, family in enumerate(_BY_VALUE) for key, metric in family.usage.items()
}
USAGE_JSON: Final[tuple[tuple[str, UsageReader], ...]] = tuple(
    (key, reader) for family in _BY_VALUE for key, reader in family.usage_json.items()
)
EVENTS: Final[Mapping[str, EventReader]] = {name: read for family in _BY_VALUE for name, read in family.events.items()}
CALLS: Final[Mapping[str, CallReader]] = {name: read for family in _BY_VALUE for name, read in family.calls.items()}
FAILS_BARE: Final = {scope: start for family in FAMILIES for scope, start in family.fails_bare}
LOSES_FAILED: Final = frozenset(scope for family in FAMILIES for scope in family.loses_failed)
DELEGATES: Final = frozenset(tool for family in FAMILIES for tool in family.delegates)
# The longest first: what says more about a name goes before what says less.
AFFIXES: Final = tuple(
    sorted({p for family in FAMILIES for p in family.name_affixes}, key=lambda p: (-len(p[0] + p[1]), p))
)


def explain(claim: Claim, span: Span) -> str:
    """The rule that made a claim, in words."""
    if not claim.family:
        return "no convention known here"
    if not claim.key:
        return f"{claim.family}: span name {shortened(span.name)} in scope {shortened(span.scope_name)}"
    return f"{claim.family}: {claim.key} = {shortened(span.attributes.get(claim.key))}"


_READ: Final = frozenset(
    [k for readers in READERS.values() for k, r in readers if not isinstance(r, Own)]
    + [k for k, _ in USAGE_JSON]
    + [*USAGE, *MARKERS]
)


def unread(span: Span) -> tuple[str, ...]:
    """Keys of a span's attributes that no family reads."""
    return tuple(sorted(k for k in span.attributes if not _is_read(k, span)))


def _is_read(key: str, span: Span) -> bool:
    if key in _READ or key.startswith(_FLAT):
        return True
    return any(isinstance(s.reader, Own) and s.reader.applies(span.attributes) for _, s in SOURCES.get(key, ()))


_FLAT: Final = tuple(r.prefix + "." for rs in READERS.values() for _, r in rs if isinstance(r, Flattened))


def shortened(value: Any) -> str:
    """A value as it is shown to a person."""
    shown = repr(value[:60] if isinstance(value, str) else value)
    return shown if len(shown) <= 62 else shown[:59] + "..."
