"""The adherence check: declared steps against the steps of a run (adherence.md).

Data flow: scope -> `extraction` (what the run shows) -> `lcs`, exact scores -> labels, also of what an incomplete trace
can still become -> `repair`, findings, `explanation` -> Evaluations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from onpath.report import AlignmentRow, Evaluation, Finding, Verdict, aligned, one_line
from onpath.steps.model import Nested, Scope
from onpath.validators.adherence import explanation, extraction
from onpath.validators.adherence.explanation import Facts
from onpath.validators.adherence.extraction import Extraction
from onpath.validators.adherence.formats import Format
from onpath.validators.adherence.lcs import longest_common
from onpath.validators.adherence.names import Names, Normalisation, default_normalise
from onpath.validators.adherence.order import undetermined
from onpath.validators.adherence.repair import OTHER, Change, alignment, repair
from onpath.validators.adherence.score import Counts
from onpath.validators.base import Context
from onpath.validators.remembered import Outline

Gate: TypeAlias = Literal["required", "prohibited"]

GATES: Final[tuple[Gate, ...]] = ("required", "prohibited")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adherence:
    """Names are those of the file, checked by `policy.adherence`; a threshold is the exact decimal.

    `agent` and `nested` are the scope of this check alone, None where it is the workflow's.
    """

    expected_steps: tuple[str, ...]
    required_steps: tuple[str, ...] = ()
    prohibited_steps: tuple[str, ...] = ()
    strict_order: bool = False
    extract_from: Literal["output", "tool_calls"] = "output"
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    normalise: tuple[Normalisation, ...] | None = None  # None: by what the steps are read from
    format: Format | None = None
    threshold: Fraction = Fraction(1, 2)
    count_failed: bool = False
    gates: tuple[Gate, ...] = GATES
    agent: str | None = None
    nested: Nested | None = None
    _names: Names = field(init=False, repr=False, compare=False)
    _expected: tuple[str, ...] = field(init=False, repr=False, compare=False)  # the lists as they are shown, sets
    _required: tuple[str, ...] = field(init=False, repr=False, compare=False)  # without their copies
    _prohibited: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        loose = self.extract_from == "output"
        normalise = default_normalise(loose) if self.normalise is None else self.normalise
        configured = (*self.expected_steps, *self.required_steps, *self.prohibited_steps)
        names = Names.of(configured, self.aliases, normalise, nfc=loose)
        put = partial(object.__setattr__, self)
        put("_names", names)
        put("_expected", tuple(names.shown(n) for n in self.expected_steps))
        put("_required", tuple(dict.fromkeys(names.shown(n) for n in self.required_steps)))
        put("_prohibited", tuple(dict.fromkeys(names.shown(n) for n in self.prohibited_steps)))

    @property
    def evaluation_names(self) -> tuple[str, ...]:
        """What the evaluations are called, in order."""
        lists = {"required": self._required, "prohibited": self._prohibited}
        return ("workflow_adherence", *(f"{gate}_steps" for gate in GATES if gate in self.gates and lists[gate]))

    def meant_by(self, name: str) -> str | None:
        """The configured name that a name of a step is, or is an alias of; None for any other."""
        return self._names.configured(name)

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        if self.extract_from == "output":
            found = extraction.from_output(scope, self._names, self.format)
        else:
            found = extraction.from_calls(scope, self._names, self._prohibited, self.count_failed)
        return _Judged(self, found, context).evaluations()

    def outline(self, scope: Scope) -> Outline | None:
        """See `remembered`: of calls that went well, one behind the other, names are all."""
        if self.extract_from == "output":
            return None
        calls = [step for step in scope.steps if step.kind == "tool"]
        started = ended = -1
        for call in calls:
            start, end = call.start_ns, call.end_ns
            if start is None or end is None or start <= started or start < ended or end < start:
                return None
            if call.failed or not call.ran or call.source != "spans":
                return None
            started, ended = start, end
        return Outline(tuple([call.name for call in calls]), calls) if calls else None


class _Judged:
    """One run, judged: what was found of each list, the scores and the labels."""

    def __init__(self, check: Adherence, found: Extraction, context: Context) -> None:
        self.check = check
        self.found = found
        self.context = context
        present = frozenset(found.names)
        self.required = check._required
        self.missing = tuple(name for name in self.required if name not in present)
        self.prohibited_found = _prohibited_found(found, present.intersection(check._prohibited))
        self._made: dict[tuple[str, str], Finding] = {}
        self.hides = check.extract_from == "output" and not context.capture_content
        self._spellings = frozenset(check._names.spellings.values())

    def show(self, name: str) -> str:
        """A name as it may leave: of a name that is not configured, in an answer, only that it is there."""
        return OTHER if self.hides and name not in self._spellings else name

    def evaluations(self) -> tuple[Evaluation, ...]:
        if self.found.reason is not None:
            return tuple(self._without_scores(self.found.reason))
        return tuple(self._with_scores())

    # ---------------------------------------------------------------- what is known although not all is

    def _without_scores(self, reason: extraction.Reason) -> Iterator[Evaluation]:
        """All unknown; but a prohibited call seen is one, and required ones that are all there are there."""
        made = self.check.evaluation_names
        data = {
            **self._data(),
            "lcs": None,
            "missing_required": (),
            "extra_steps": None,
            "order_undetermined": False,
            "repair": (),
        }
        said = " ".join(s for s in (explanation.unknown(reason), explanation.incomplete(self.context.complete)) if s)
        yield Evaluation(name="workflow_adherence", label=Verdict.UNKNOWN, reason=reason, explanation=said, data=data)
        names_only = reason == "tool_names_not_captured"
        facts = self._facts((), False)
        if "required_steps" in made:
            if names_only and not self.missing:
                yield self._gate("required_steps", Fraction(1), Verdict.PASS, explanation.required(facts))
            else:
                yield Evaluation(name="required_steps", label=Verdict.UNKNOWN, reason=reason, explanation=said)
        if "prohibited_steps" in made:
            if names_only and self.prohibited_found:
                yield self._gate("prohibited_steps", Fraction(0), Verdict.FAIL, explanation.prohibited(facts))
            else:
                yield Evaluation(name="prohibited_steps", label=Verdict.UNKNOWN, reason=reason, explanation=said)

    def _data(self) -> dict[str, Any]:
        return {
            "extracted": self.found.names,
            "format": self.found.format,
            "source": self.found.source,
            "prohibited_found": tuple(self.prohibited_found),
            "prohibited_spans": self.prohibited_found,
            "failed": tuple(entry.name for entry in self.found.failed),
            "waiting": self.found.waiting,
            "retries": self.found.retries,
            "complete": self.context.complete,
        }

    # ---------------------------------------------------------------- scores and labels

    def _with_scores(self) -> Iterator[Evaluation]:
        check, found, complete = self.check, self.found, self.context.complete
        self.lcs = longest_common(check._expected, found.names)
        unsettled = found.source == "spans" and undetermined(check._expected, found.entries, check.strict_order)
        unwanted = frozenset(check._prohibited)
        changes = repair(check._expected, found, self.lcs, self.missing, unwanted, check.strict_order)
        facts = self._facts(changes, unsettled)
        counts = self._counts()
        label = counts.label(check.threshold, complete)
        yield Evaluation(
            name="workflow_adherence",
            label=label,
            score=counts.score,
            explanation=one_line(explanation.explain(facts)),
            reason="incomplete" if label is Verdict.UNKNOWN else None,
            findings=tuple(self._findings(changes)) if label is Verdict.FAIL else (),
            alignment=alignment(check._expected, found, self.lcs, changes, self.show),
            order_undetermined=unsettled,
            data={
                **self._data(),
                "lcs": len(self.lcs),
                "missing_required": self.missing,
                "extra_steps": len(found.names) - len(self.lcs),
                "order_undetermined": unsettled,
                "repair": changes,
            },
        )
        if "required_steps" in check.evaluation_names:
            label = Verdict.PASS if not self.missing else Verdict.FAIL if complete else Verdict.UNKNOWN
            yield self._gate("required_steps", counts.required_share, label, explanation.required(facts))
        if "prohibited_steps" in check.evaluation_names:
            label = Verdict.FAIL if self.prohibited_found else Verdict.PASS if complete else Verdict.UNKNOWN
            score = Fraction(0 if self.prohibited_found else 1)
            yield self._gate("prohibited_steps", score, label, explanation.prohibited(facts))

    def _counts(self) -> Counts:
        return Counts(
            expected=len(self.check._expected),
            extracted=len(self.found.names),
            matched=len(self.lcs),
            required=len(self.required),
            missing=len(self.missing),
            prohibits=bool(self.check._prohibited),
            prohibited_found=bool(self.prohibited_found),
            strict=self.check.strict_order,
        )

    # ---------------------------------------------------------------- findings

    def _facts(self, changes: tuple[Change, ...], unsettled: bool) -> Facts:
        check = self.check
        return Facts(
            found=self.found,
            expected=check._expected,
            lcs=self.lcs if self.found.reason is None else longest_common((), ()),
            strict=check.strict_order,
            required=self.required,
            missing=self.missing,
            prohibited=check._prohibited,
            prohibited_found=self.prohibited_found,
            changes=changes,
            order_undetermined=unsettled,
            complete=self.context.complete,
            show=self.show,
        )

    def _gate(self, name: str, score: Fraction, label: Verdict, said: str) -> Evaluation:
        found = self._required_findings() if name == "required_steps" else self._prohibited_findings()
        rows = self._required_rows() if name == "required_steps" else self._prohibited_rows()
        return Evaluation(
            name=name,
            label=label,
            score=score,
            explanation=one_line(" ".join(s for s in (said, explanation.incomplete(self.context.complete)) if s)),
            reason="incomplete" if label is Verdict.UNKNOWN else None,
            findings=tuple(found) if label is Verdict.FAIL else (),
            alignment=tuple(rows),
        )

    def _findings(self, changes: tuple[Change, ...]) -> Iterator[Finding]:
        """Of a failed `workflow_adherence`, in order of the repair; with those of evaluations that are not made."""
        planned = frozenset(self.check._expected)
        for change in changes:
            name = self.show(change.name)
            if change.op == "insert" and change.name in planned:
                yield self._finding("missing_step", name, f"expected step {name} is missing")
            elif change.op == "move" and change.step is not None:
                ids = self.found.span_ids(change.step - 1)
                yield self._finding("moved_step", name, f"step {name} is out of order", ids)
            elif change.op == "delete" and change.step is not None and self.check.strict_order:
                ids = self.found.span_ids(change.step - 1)
                yield self._finding("extra_step", name, f"step {name} is not expected", ids)
        made = self.check.evaluation_names
        if "required_steps" not in made:
            yield from self._required_findings()
        if "prohibited_steps" not in made:
            yield from self._prohibited_findings()

    def _finding(self, rule: str, name: str, message: str, ids: tuple[str, ...] = ()) -> Finding:
        """Those without spans are made once: an answer may hold the same thing very often."""
        if ids:
            return Finding(rule=rule, severity=self.context.severity, step=name, message=message, span_ids=ids)
        known = self._made.get((rule, name))
        if known is None:
            known = Finding(rule=rule, severity=self.context.severity, step=name, message=message)
            self._made[rule, name] = known
        return known

    def _required_findings(self) -> Iterator[Finding]:
        for name in self.missing:
            how = "was attempted and failed" if self._tried(name) else "is missing"
            yield self._finding("required_missing", name, f"required step {name} {how}", self._failed_spans(name))

    def _prohibited_findings(self) -> Iterator[Finding]:
        for name, ids in self.prohibited_found.items():
            yield self._finding("prohibited_called", name, f"prohibited step {name} was taken", ids)

    def _tried(self, name: str) -> bool:
        return any(entry.name == name for entry in self.found.failed)

    def _failed_spans(self, name: str) -> tuple[str, ...]:
        return tuple(i for entry in self.found.failed if entry.name == name for i in entry.span_ids)

    def _required_rows(self) -> Iterator[AlignmentRow]:
        places = {name: i for i, name in reversed(list(enumerate(self.found.names)))} if self.found.entries else {}
        for name in self.required:
            if name in self.missing:
                yield AlignmentRow(move="missing", expected=name, span_ids=self._failed_spans(name))
            else:
                ids = self.found.span_ids(places[name]) if name in places else ()
                yield aligned("same", name, name, ids)

    def _prohibited_rows(self) -> Iterator[AlignmentRow]:
        return (AlignmentRow(move="extra", seen=name, span_ids=ids) for name, ids in self.prohibited_found.items())


def _prohibited_found(found: Extraction, names: frozenset[str | None]) -> dict[str, tuple[str, ...]]:
    """Prohibited names in order of first appearance, each with the span ids of all attempts."""
    spans: dict[str, list[str]] = {}
    for position, name in enumerate(found.names) if names else ():
        if name in names and name is not None:
            spans.setdefault(name, []).extend(found.span_ids(position))
    return {name: tuple(ids) for name, ids in spans.items()}
