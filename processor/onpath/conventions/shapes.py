"""What a span can say, by the attribute keys that it has: its role and, for `steps.facts`, where each fact stands.

A program writes spans of few kinds, so what follows from keys alone is worked out once for each set of known keys and
kept: attributes -> known keys, in order -> `Shape`. Keys that no convention knows change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from onpath.conventions.base import GENERIC, Fact, Flattened, Own, Role, RoleReader, UsageReader
from onpath.conventions.table import (
    MARKERS,
    NAMED,
    NO_CLAIM,
    PLACEHOLDERS,
    SOURCES,
    USAGE,
    USAGE_JSON,
    WORDED,
    Claim,
    Marker,
    Source,
)
from onpath.model import Attributes, Span
from onpath.usage import canonical

_MARKS: Final = [m for found in SOURCES.values() for _, (_, _, r) in found if isinstance(r, Own) for m in r.marks]
_MOST: Final = 4096  # shapes, and sets of keys, that are kept
_LONGEST: Final = 2048  # characters of the keys of a span, all together, that are kept
_KNOWN: Final = frozenset((*MARKERS, *PLACEHOLDERS, *SOURCES, *USAGE, *_MARKS, *(key for key, _ in USAGE_JSON))) - {""}
_FLATTENED: Final = tuple(f"\n{r.prefix}." for _, (_, _, r) in SOURCES[""] if isinstance(r, Flattened))


@dataclass(frozen=True, slots=True)
class Shape:
    """What spans with certain `keys` can say; the empty key, the last, stands for keys that begin as flattened ones do.

    `placeholders`: key, family, and the test that is true for a span that stands for nothing. `markers`: what may give
    the role, in the order in which they are asked. `sources`: where each fact may stand, best first. `usage`: for each
    family that counts flatly, best first, metrics and the keys to read them from, best first. `usage_json`: keys with a
    whole usage object.
    """

    keys: tuple[str, ...]
    placeholders: tuple[tuple[str, str, Callable[[Any, Span], bool]], ...]
    markers: tuple[Marker, ...]
    sources: Mapping[Fact, tuple[Source, ...]]
    usage: tuple[tuple[tuple[str, str], ...], ...]
    usage_json: tuple[tuple[str, UsageReader], ...]


def shape_of(attributes: Attributes) -> Shape:
    keys = tuple(attributes)
    found = _met.get(keys)
    if found is None:
        found = _shape_of(attributes)
        if sum(map(len, keys)) <= _LONGEST:
            if len(_met) >= _MOST:
                _met.clear()
            _met[keys] = found
    return found


_met: Final[dict[tuple[str, ...], Shape]] = {}  # by all keys, known or not, of ordinary spans


def _shape_of(attributes: Attributes) -> Shape:
    keys = tuple(filter(_is_known, attributes))
    if len(keys) < len(attributes):
        written = "\n" + "\n".join(
            attributes
        )  # one look at all keys; one with a line break in it costs a look too many
        for start in _FLATTENED:
            if start in written:
                return _shape((*keys, ""))
    return _shape(keys)


def joined(outer: Shape, inner: Shape) -> Shape:
    """What spans can say that have the keys of both; the outer one itself where that is all it could say before."""
    known = frozenset(outer.keys)
    if known.issuperset(inner.keys):
        return outer
    keys = dict.fromkeys((*inner.keys, *outer.keys))
    flattened = ("",) if keys.pop("", keys) is None else ()
    return _shape((*keys, *flattened))


_is_known: Final = _KNOWN.__contains__


@lru_cache(maxsize=_MOST)
def _shape(keys: tuple[str, ...]) -> Shape:
    markers = [marker for key in keys for marker in MARKERS.get(key, ())]
    sources: dict[Fact, list[Source]] = {}
    for key in keys:
        for fact, source in SOURCES.get(key, ()):
            if isinstance(source.reader, Own) and source.reader.marks.isdisjoint(keys):
                continue
            sources.setdefault(fact, []).append(source)
    return Shape(
        keys=keys,
        placeholders=tuple((key, *PLACEHOLDERS[key]) for key in keys if key in PLACEHOLDERS),
        markers=tuple(sorted(markers, key=lambda m: m.rank)),
        sources={fact: tuple(sorted(found, key=lambda s: s.rank)) for fact, found in sources.items()},
        usage=_usage(keys),
        usage_json=tuple((key, reader) for key, reader in USAGE_JSON if key in keys),
    )


def _usage(keys: tuple[str, ...]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Of two spellings of a metric the canonical one goes first, of two keys with one spelling the later one."""
    ranks: dict[int, dict[str, list[str]]] = {}
    for key in reversed(keys):
        if key in USAGE:
            rank, metric = USAGE[key]
            ranks.setdefault(rank, {}).setdefault(metric, []).append(key)
    return tuple(
        tuple((canonical(metric), key) for metric in by_spelling(metrics) for key in metrics[metric])
        for _, metrics in sorted(ranks.items())
    )


def by_spelling(metrics: Mapping[str, Any]) -> list[str]:
    """Names of metrics, the canonical spellings first."""
    return sorted(metrics, key=lambda m: (canonical(m) != m, m))


def claim_of(span: Span) -> Claim:
    """A span's role. A name decides only where no attribute did."""
    attributes = span.attributes
    shape = shape_of(attributes)
    for key, family, test in shape.placeholders:
        if test(attributes[key], span):
            return Claim("dropped", family, key)
    generic: Claim | None = None
    for marker in shape.markers:
        role = _role(marker.rule, attributes[marker.key], span)
        if role is None:
            continue
        if role not in GENERIC:
            return Claim(role, marker.name, marker.key)
        generic = generic or Claim(role, marker.name, marker.key)
    named = NAMED.get(span.scope_name) or WORDED.get(span.name.partition(".")[0])
    if named is not None and named.named is not None:
        role = named.named(span)
        if role is not None and (generic is None or role not in GENERIC):
            return Claim(role, named.name)
    return generic or NO_CLAIM


def _role(rule: Mapping[str, Role] | RoleReader, value: Any, span: Span) -> Role | None:
    if callable(rule):
        return rule(value, span)
    return rule.get(value.lower()) if isinstance(value, str) else None
