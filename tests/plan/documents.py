"""Hypothesis strategies: small plans in the short form with records to judge, and JSON of any kind."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TOOLS = ("save", "load")
KEYS = ("x", "y")
VALUES = st.sampled_from([1, 1, 1.0, 1, True, "u", "u", None, {"k": 1}, {}])  # few, so that calls often fit


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Plans of up to four steps. They have no circle; anchors and types are drawn freely, so not all compile."""
    names = [f"s{i}" for i in range(draw(st.integers(1, 4)))]
    steps: list[dict[str, Any]] = []
    for i, name in enumerate(names):
        step: dict[str, Any] = {"step": name, "tool": draw(st.sampled_from(TOOLS))}
        bindings = {key: draw(_bindings(names[:i])) for key in KEYS if draw(st.integers(0, 2)) == 0}
        if bindings:
            step["input"] = bindings
        if draw(st.booleans()):
            anchors = [other["step"] for other in steps if other.get("after", "nobody") == "nobody"]
            step["after"] = draw(st.sampled_from([*anchors, *anchors, *names[:i], "nobody"]))
        step["cardinality"] = draw(st.sampled_from(["exactly-one", "at-most-one", "any", "any", "any"]))
        steps.append(step)
    plan: dict[str, Any] = {"id": "drawn", "strict": False, "principals": ["p", "q"]}
    plan["steps"] = draw(st.permutations(steps))
    plan["order"] = draw(st.sampled_from(["start", "after_end"]))
    if draw(st.booleans()):
        types = {key: draw(st.sampled_from(["number", "string", "unknown"])) for key in KEYS if draw(st.booleans())}
        plan["tools"] = {draw(st.sampled_from(TOOLS)): {"input": types}}
    return plan


@st.composite
def _bindings(draw: st.DrawFn, earlier: list[str]) -> dict[str, Any]:
    kinds = (
        ["literal", "any", "any", "any", "type-violating", "principal"]
        + ["captured"] * 4 * bool(earlier)
        + ["distinct"] * 2 * bool(earlier)
    )
    kind = draw(st.sampled_from(kinds))
    if kind == "literal":
        return {"literal": draw(VALUES)}
    if kind in ("any", "type-violating"):
        return {"matcher": kind}
    if kind == "principal":
        return {"principal": draw(st.sampled_from(["p", "q"]))}
    source = draw(st.sampled_from(earlier))
    if kind == "captured":
        return {"captured": f"/{source}/output/{draw(st.sampled_from(KEYS))}"}
    side = draw(st.sampled_from(["/output", "/output/x", "/input/x", "/input/y"]))
    return {"distinct_from": f"/{source}{side}"}


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Two to six calls, all with times or all without."""
    timed = draw(st.integers(0, 3)) > 0
    record = []
    for i in range(draw(st.integers(2, 6))):
        call: dict[str, Any] = {"span_id": f"c{i}", "name": draw(st.sampled_from(TOOLS))}
        if draw(st.integers(0, 7)):
            call["input"] = draw(st.none() | _objects()) if draw(st.integers(0, 4)) == 0 else draw(_objects())
        if draw(st.integers(0, 7)):
            call["output"] = draw(VALUES) if draw(st.integers(0, 4)) == 0 else draw(_objects())
        call["principal"] = draw(st.sampled_from(["p", "p", "q", None]))
        call |= draw(_times()) if timed else draw(_turns(i))
        record.append(call)
    return draw(st.permutations(record))


def _objects() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={"x": VALUES, "y": VALUES}) | st.just({"x": 1, "y": 1})


@st.composite
def _times(draw: st.DrawFn) -> dict[str, Any]:
    start = draw(st.integers(0, 5))
    return {"start_ns": start, "end_ns": start + draw(st.integers(-1, 3))}


@st.composite
def _turns(draw: st.DrawFn, position: int) -> dict[str, Any]:
    turn = draw(st.sampled_from([None, position // 2, position]))
    return {"start_ns": None, "end_ns": None, "position": position, "turn": turn}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 20)
    | st.floats()
    | st.sampled_from(["", "a", "any", "/s0/output", "@/x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """The document with one place taken out or replaced by any JSON."""
    if isinstance(document, dict) and document and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(document)))
        if draw(st.integers(0, 9)) == 0:
            return {name: value for name, value in document.items() if name != key}
        return {**document, key: draw(changed(document[key]))}
    if isinstance(document, list) and document and draw(st.integers(0, 5)):
        index = draw(st.integers(0, len(document) - 1))
        return [*document[:index], draw(changed(document[index])), *document[index + 1 :]]
    return draw(JSON)
