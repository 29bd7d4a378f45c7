"""A peer's word: patterns as process trees, matched by the alignments of pm4py. `pytest -m peers`, where pm4py is
installed.

Overlap is no part of a process tree, so in these runs all steps are under way together; alignments cost nothing
exactly where the pattern matches.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from onpath.flow.pattern import AnyOf, Chain, Gap, Item, Named
from onpath.steps.model import Step
from tests.flow import cases

pytestmark = pytest.mark.peers


def leaf(name: str | None) -> Any:
    from pm4py.objects.process_tree.obj import ProcessTree

    return ProcessTree(label=name)


def node(operator: str, *children: Any) -> Any:
    from pm4py.objects.process_tree.obj import Operator, ProcessTree

    if len(children) == 1 and operator != "LOOP":
        return children[0]
    tree = ProcessTree(operator=Operator[operator], children=list(children))
    for child in children:
        child.parent = tree
    return tree


def one_of(names: list[str]) -> Any:
    return node("XOR", *(leaf(name) for name in names))


def repeated(names: list[str], least: int, most: int | None) -> Any:
    """A number of steps of any of these names; None where there is no end."""
    parts = [one_of(names) for _ in range(least)]
    if most is None:
        parts.append(node("LOOP", leaf(None), one_of(names)))
    else:
        parts += [node("XOR", leaf(None), one_of(names)) for _ in range(most - least)]
    return node("SEQUENCE", *parts) if parts else leaf(None)


def tree_of(item: Item) -> Any:
    if isinstance(item, Named):
        return leaf(item.name.text)
    if isinstance(item, Gap):
        return repeated(list(cases.NAMES), item.minimum, item.maximum)
    if isinstance(item, AnyOf):
        listed = [name.text for name in item.contains] or list(cases.NAMES)
        allowed = [name for name in listed if name not in [other.text for other in item.not_contains]]
        return repeated(allowed, item.minimum, item.maximum) if allowed else leaf(None)
    return node("PARALLEL", *(branch(entry) for entry in item.entries))


def branch(entry: Named | Chain) -> Any:
    if isinstance(entry, Named):
        return leaf(entry.name.text)
    return node("SEQUENCE", *(leaf(item.name.text) for item in entry.items))


def aligns(items: tuple[Item, ...], names: list[str]) -> bool:
    from pm4py.algo.conformance.alignments.petri_net import algorithm
    from pm4py.objects.conversion.process_tree import converter
    from pm4py.objects.log.obj import Event, Trace

    net, initial, final = converter.apply(node("SEQUENCE", *map(tree_of, items)))
    trace = Trace([Event({"concept:name": name}) for name in names])
    return bool(algorithm.apply_trace(trace, net, initial, final)["fitness"] == 1.0)


def without_values(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    key, below = next(iter(item.items()))
    if key == "any!":
        return {key: {**{k: v for k, v in below.items() if k != "contains_all"}}}
    if key == "seq!":
        return {key: [without_values(link) for link in below]}
    if key == "parallel!":
        entries = below["spans"] if isinstance(below, dict) else below
        return {key: [without_values(entry) for entry in entries]}
    return key


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning", "ignore::DeprecationWarning")  # its own, of numpy
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases.patterns_with_runs(most=8), st.booleans())
def test_a_process_tree_fits_where_the_pattern_matches(case: tuple[list[Any], list[Step]], swap: bool) -> None:
    pytest.importorskip("pm4py")
    written = [without_values(item) for item in case[0]]
    items = cases.sequence_of(written)
    assume(items is not None)
    assert items is not None
    assume(not any(isinstance(item, AnyOf) and item.minimum and not _takes_any(item) for item in items))
    names = [str(step.name) for step in case[1]]
    if swap and len(names) > 1:
        names[0], names[-1] = names[-1], names[0]
    assume(names)
    run = [
        Step(kind="tool", name=name, start_ns=at, end_ns=1000, span_ids=(f"{at:02}",)) for at, name in enumerate(names)
    ]
    assert (cases.judged({"seq!": written}, run).label == "pass") is aligns(items, names)


def _takes_any(item: AnyOf) -> bool:
    barred = [name.text for name in item.not_contains]
    return any(name not in barred for name in ([n.text for n in item.contains] or cases.NAMES))
