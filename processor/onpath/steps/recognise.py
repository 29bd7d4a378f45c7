"""The one way in: a trace -> what its spans are -> the scopes that validators judge.

Data flow: spans -> a role each (`conventions`) -> nodes -> one node a logical call -> agents settled -> scopes on
demand. Everything but the scopes is done once, when the trace is recognised.
"""

from __future__ import annotations

from collections.abc import Sequence

from onpath.conventions.shapes import claim_of
from onpath.conventions.table import Claim
from onpath.model import LogRecord, Span, Trace
from onpath.steps.agents import settle_agents
from onpath.steps.calls import merge_model_calls, merge_tool_calls
from onpath.steps.failures import genuine_failure
from onpath.steps.model import Nested, Scope
from onpath.steps.scopes import ScopeMaker
from onpath.steps.sessions import session_of
from onpath.steps.tree import Node, grow
from onpath.steps.why import Why, why


class Recognition:
    """A trace whose spans have their roles. `scopes` may be asked for in several ways."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._claims: dict[Span, Claim] = {span: claim_of(span) for span in trace.spans}
        logs: dict[tuple[str, str], list[LogRecord]] = {}
        for record in trace.logs:
            logs.setdefault((record.trace_id, record.span_id), []).append(record)
        grown = grow(trace, self._claims, logs)
        self.has_agent_activity = bool(grown)
        nodes = merge_model_calls(merge_tool_calls(grown, trace), trace)
        self._nodes: list[Node] = settle_agents(nodes, trace, self._claims, logs)
        session = trace.session or session_of(trace.spans)
        self._smeared = _smeared(self._nodes)
        self._maker = ScopeMaker(trace, self._nodes, self._claims, logs, self._smeared, session)

    def scopes(self, nested: Nested = "agents_as_steps", spans: Sequence[str] = ()) -> tuple[Scope, ...]:
        """All scopes, exactly one of them with `run` set; `spans` are globs on names of other spans that count, too."""
        return self._maker.make(nested, tuple(spans))

    def scopes_of(self, agent: str | None, nested: Nested, spans: Sequence[str] = ()) -> tuple[Scope, ...]:
        """Those of the agent, None for the run scope; no others are made."""
        if agent is None:
            return (self._maker.run(nested, tuple(spans)),)
        return self._maker.of_agent(agent, nested, tuple(spans))

    def unlink(self) -> None:
        """Ends its use. What is linked both ways would else stay in memory until a search for cycles finds it."""
        for node in self._nodes:
            node.parent = None

    @property
    def agents(self) -> frozenset[str]:
        """Names of the agents that took part."""
        return self._maker.agents

    def why(self, span_id: str) -> tuple[Why, ...]:
        """Why the spans with an id are what they are; none for an id that is not in the trace."""
        return tuple(
            why(span, self._claims[span], self._nodes, self._smeared, self._maker.is_step)
            for span in self.trace.spans
            if span.span_id == span_id
        )


def recognise(trace: Trace) -> Recognition:
    """Gives each span its role, once."""
    return Recognition(trace)


def steps_of(trace: Trace, *, nested: Nested = "agents_as_steps", spans: Sequence[str] = ()) -> tuple[Scope, ...]:
    """The scopes of a trace with their steps."""
    return recognise(trace).scopes(nested, spans)


def _smeared(nodes: Sequence[Node]) -> frozenset[str]:
    """Status messages of tool calls that failed beyond doubt: some write them on every span that ends later, too."""
    found = (genuine_failure(n.facts) for n in nodes if n.kind == "tool")
    return frozenset(message for message in found if message is not None)
