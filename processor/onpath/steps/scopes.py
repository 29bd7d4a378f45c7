"""What belongs to each scope -> `Scope` values (steps.md section 2).

The scopes of agents, and the run scope: the only outermost agent's, else the whole trace with the outermost agents laid
open, one after another in order of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from onpath.conventions.messages import last_text, spoken
from onpath.conventions.table import Claim
from onpath.globs import Glob
from onpath.model import NOT_CAPTURED, STATUS_ERROR, Resource, Span, Trace
from onpath.steps.agents import agent_name
from onpath.steps.asked import recorded
from onpath.steps.build import add_usage, other_span, shown_input, shown_output, usage_of
from onpath.steps.entries import Entry, EntryMaker, Members, in_order, members_of, numbered
from onpath.steps.facts import Facts
from onpath.steps.failures import status_of
from onpath.steps.model import Nested, Scope, Step, StepError, Usage
from onpath.steps.tree import Logs, Node
from onpath.steps.unread import RecordedScope, Unread


class ScopeMaker:
    """Makes the scopes of one trace from its settled nodes, each when it is asked for.

    A scope may hold all that lies below its agent: those of agents deep in each other are of quadratic size together.
    """

    def __init__(
        self,
        trace: Trace,
        nodes: Sequence[Node],
        claims: Mapping[Span, Claim],
        logs: Logs,
        smeared: frozenset[str],
        session: str | None,
    ) -> None:
        self._trace = trace
        self._claims = claims
        self._logs = logs
        self._session = session
        self._smeared = smeared
        self._entry_maker = EntryMaker(nodes, smeared)
        self._nodes = nodes
        self._members = members_of(nodes)
        self._own: dict[Node | None, list[Entry]] = {}
        top = self._members[None]
        self._single = top.agents[0] if len(top.agents) == 1 and not top.calls else None  # its scope is the run scope
        agents = [agent for agent in self._members if agent is not None]
        self._agents = sorted(agents, key=lambda a: (a.start_ns, a.span.span_id))
        self._agent_names: frozenset[str] | None = None
        self._asked: dict[tuple[str, ...], dict[Node | None, list[Entry]]] = {}
        self._made: dict[tuple[Node | None, Nested, tuple[str, ...]], Scope] = {}

    def is_step(self, node: Node) -> bool:
        """Whether a node is a step of some scope."""
        return any(node in m.calls or node in m.agents for m in self._members.values())

    @property
    def agents(self) -> frozenset[str]:
        """Names of the agents that have a scope."""
        if self._agent_names is None:
            self._agent_names = frozenset([name for node in self._agents if (name := agent_name(node)) is not None])
        return self._agent_names

    def make(self, nested: Nested, spans: tuple[str, ...]) -> tuple[Scope, ...]:
        """All agent scopes in order of time, and the run scope first where it is none of them."""
        made = [self._made_of(agent, nested, spans) for agent in self._agents]
        return tuple(made) if self._single is not None else (self._made_of(None, nested, spans), *made)

    def run(self, nested: Nested, spans: tuple[str, ...]) -> Scope:
        """The run scope alone."""
        return self._made_of(self._single, nested, spans)

    def of_agent(self, name: str, nested: Nested, spans: tuple[str, ...]) -> tuple[Scope, ...]:
        """The scopes of an agent, in order of time, and no others."""
        return tuple(self._made_of(node, nested, spans) for node in self._agents if agent_name(node) == name)

    def _made_of(self, agent: Node | None, nested: Nested, spans: tuple[str, ...]) -> Scope:
        """The scope of an agent, or the run scope that is no agent's; made once."""
        key = (agent, nested, spans)
        if key not in self._made:
            if spans not in self._asked:
                self._asked[spans] = self._wanted(spans)
            wanted = self._asked[spans]
            self._made[key] = (
                self._run_scope(nested, wanted)
                if agent is None
                else self._agent_scope(self._members[agent], nested, wanted, run=agent is self._single)
            )
        return self._made[key]

    def _agent_scope(self, members: Members, nested: Nested, wanted: Mapping[Any, list[Entry]], *, run: bool) -> Scope:
        agent = members.agent
        assert agent is not None
        facts = agent.facts
        status, error = status_of(facts, self._smeared)
        return self._scope(
            members,
            self._entries(members, nested, wanted),
            span=agent.span,
            facts=facts,
            agent=agent_name(agent),
            run=run,
            period=(agent.start_ns, agent.end_ns),
            outcome=("unset" if status not in ("ok", "error") else status, error),
        )

    def _run_scope(self, nested: Nested, wanted: Mapping[Any, list[Entry]]) -> Scope:
        """The whole trace: steps outside of any agent, and those of the outermost agents one after another."""
        top = self._members[None]
        entries = list(self._entries(top, "flatten", wanted, then=nested))
        root = self._trace.roots[0] if self._trace.roots else None
        facts = Facts([root], self._logs) if root is not None else None
        roots = self._trace.roots
        ends = [s.end_ns for s in roots]
        period = (
            min((s.start_ns for s in roots), default=None),
            None if None in ends else max((e for e in ends if e is not None), default=None),
        )
        status, error = status_of(facts, self._smeared) if facts is not None else ("unset", None)
        return self._scope(
            top,
            entries,
            span=root,
            facts=facts,
            agent=None,
            run=True,
            period=period,
            outcome=("unset" if status not in ("ok", "error") else status, error),
        )

    def _entries(
        self, members: Members, nested: Nested, wanted: Mapping[Any, list[Entry]], then: Nested | None = None
    ) -> list[Entry]:
        """The entries of a scope. `then` is how agents below the outermost ones count, where these are laid open."""
        found: list[Entry] = []
        pending: list[tuple[Members, Nested]] = [(members, nested)]
        while pending:
            at, how = pending.pop()
            found += self._own_of(at)
            found += wanted.get(at.agent, ())
            name = agent_name(at.agent) if at.agent is not None else None
            for agent in at.agents:
                if how == "flatten":
                    pending.append((self._members[agent], nested if then is None else then))
                else:
                    found.append(self._entry_maker.entry(agent, name))
        return in_order(found)

    def _own_of(self, members: Members) -> list[Entry]:
        if members.agent not in self._own:
            self._own[members.agent] = self._entry_maker.own(members)
        return self._own[members.agent]

    def _scope(
        self,
        members: Members,
        entries: Sequence[Entry],
        *,
        span: Span | None,
        facts: Facts | None,
        agent: str | None,
        run: bool,
        period: tuple[int | None, int | None],
        outcome: tuple[Literal["ok", "error", "unset"], StepError | None],
    ) -> Scope:
        steps = numbered(entries)
        calls = [e.node for e in entries if e.node is not None and e.node.kind == "llm"]
        models = [n.facts for n in calls]
        given = recorded(models, "input_messages")
        put_out = recorded(models, "output_messages")
        return RecordedScope(
            trace_id=span.trace_id if span is not None else self._trace.trace_id,
            span_id=span.span_id if span is not None else "",
            agent=agent,
            run=run,
            session=self._session,
            steps=steps,
            recorded=agent is not None or self._trace.has_root,
            input=Unread(lambda: shown_input(facts)) if facts is not None else NOT_CAPTURED,
            output=Unread(lambda: _output(facts, models)),
            prompt=_unread_prompt(facts, models),
            start_ns=period[0],
            end_ns=period[1],
            status=outcome[0],
            error=outcome[1],
            usage=_usage(entries),
            output_messages=put_out,
            input_messages=given,
            content=content_of(steps, models),
            attributes=span.attributes if span is not None else {},
            resource=span.resource if span is not None else Resource(),
        )

    def _wanted(self, globs: Sequence[str]) -> dict[Node | None, list[Entry]]:
        """Spans asked for by name that are no steps by themselves, by the agent in whose scope they lie."""
        if not globs:
            return {}
        patterns = [Glob(glob) for glob in globs]
        taken = {s for n in self._nodes for s in n.spans}
        owners = {s: n for n in self._nodes if n.kind == "agent" for s in n.spans}
        found: dict[Node | None, list[Entry]] = {}
        for span in self._trace.spans:
            if span in taken or self._claims[span].role == "dropped" or not any(p(span.name) for p in patterns):
                continue
            at: Span | None = span
            while at is not None and at not in owners:
                at = self._trace.parent(at)
            owner = owners[at] if at is not None else None
            name = agent_name(owner) if owner is not None else None
            found.setdefault(owner, []).append(Entry(other_span(span, name)))
        return found


def _output(facts: Facts | None, models: Sequence[Facts]) -> Any:
    """The scope's final output: that of its own span, else the text of its last model call."""
    output = shown_output(facts) if facts is not None else NOT_CAPTURED
    if output is NOT_CAPTURED and models:
        last = models[-1].get("output_messages")
        text = last_text(last, "assistant") if isinstance(last, list) else None
        return NOT_CAPTURED if text is None else text
    return output


def _unread_prompt(facts: Facts | None, models: Sequence[Facts]) -> Any:
    return Unread(lambda: _prompt(facts.get("input") if facts is not None else NOT_CAPTURED, models))


def _prompt(held: Any, models: Sequence[Facts]) -> str | None:
    """The last user message of the scope's input, else of its first model call's; an input that is one text is it."""
    if isinstance(held, str):
        return held
    text = spoken(held, "user")
    if text is None and models:
        text = spoken(models[0].get("input_messages"), "user")
    return text


def _usage(entries: Sequence[Entry]) -> Usage:
    """The sum over the scope's model calls; where none of them counted, that of the loops they were turns of."""
    counted = add_usage([e.step.usage for e in entries if e.step.kind == "llm"])
    if counted:
        return counted
    loops = dict.fromkeys(e.node.loop for e in entries if e.node is not None and e.node.loop is not None)
    return add_usage([usage_of(n.facts, n.facts.text("model")) for n in loops])


def content_of(steps: Sequence[Step], models: Sequence[Facts]) -> Literal["full", "partial", "none"]:
    """How much of what calls were given and gave was recorded; one that failed or goes on need not give."""
    captured: list[bool] = []
    for step in steps:
        if step.kind == "tool":
            captured.append(step.input is not NOT_CAPTURED)
            if step.source == "spans" and not step.failed and step.end_ns is not None:
                captured.append(step.output is not NOT_CAPTURED)
    for facts in models:
        captured += [facts.holds("input_messages"), facts.holds("output_messages") or _failed(facts)]
    if not any(captured):
        return "none"
    return "full" if all(captured) else "partial"


def _failed(facts: Facts) -> bool:
    return any(s.status_code == STATUS_ERROR for s in facts.spans)
