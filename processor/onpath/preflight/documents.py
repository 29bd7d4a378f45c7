"""The JSON files of the offline commands as models: observations, traces, probes, verdicts, scoring policies.

Each `*_of` takes a parsed document and gives values, or raises PlanFault with the path that plan.md section 9 speaks
of: the argument as it is called there, then the field at fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from onpath.policy.plan_schema import Name, SeverityWord, binding_of, expression_of, schema_fault, validated
from onpath.policy.schema import Strict, kind_of
from onpath.steps.model import NOT_CAPTURED
from onpath.validators.plan.calls import Call, as_input, in_sequence
from onpath.validators.plan.expressions import UNKNOWN_FIELD
from onpath.validators.plan.model import Binding, Leg
from onpath.validators.plan.pointers import KIND_OF_INPUT
from onpath.validators.plan.relate import Expression

ProbeClass = Literal["defect", "gameability", "zero-action", "canary"]


class ObservationModel(Strict):
    """A call as plan.md section 3 lists its fields; `input` and `output` that are absent were not captured."""

    span_id: Name
    name: str
    interface: str | None = None
    input: Any = None
    output: Any = None
    status: Literal["ok", "error", "unset"] = "unset"
    http_status: int | None = None
    exit_code: int | None = None
    principal: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    position: int | None = None
    turn: int | None = None
    leg: str | None = None

    def build(self) -> Call:
        given = self.model_fields_set
        return Call(
            **self.model_dump(exclude={"input", "output"}),
            input=as_input(self.input) if "input" in given else NOT_CAPTURED,
            output=self.output if "output" in given else NOT_CAPTURED,
        )


class TraceModel(Strict):
    trace_id: Name
    observations: list[ObservationModel]
    incomplete: str | None = None


class WitnessModel(Strict):
    legId: Name
    interfaceId: Name
    operationId: Name
    inputs: dict[str, Any] | None
    relation: Any
    witnessId: Any = None
    channel: Any = None


class SignatureModel(Strict):
    operationId: Name
    interfaceId: Name | None = None
    selector: dict[str, Any] | None = None
    predicate: Any


class DefectModel(Strict):
    defectId: Name
    manifestationWitness: WitnessModel | None = None
    defectSignature: SignatureModel | None = None


class ProbeModel(Strict):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    probeId: Name
    kind: ProbeClass = Field("defect", alias="class")
    expectedClean: bool = False
    oracleId: Name | None = None
    defects: list[DefectModel] = Field([])


class PreflightVerdictModel(Strict):
    """What `score` reads of a pre-flight's verdict file."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    passed: bool
    fixtureDigest: str
    contractDigest: str | None = None
    runId: str | None = None


class ScoringPolicyModel(Strict):
    severityFloor: SeverityWord = "material"
    confidenceThreshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    minimumTrialCount: Annotated[int, Field(ge=0)] = 3
    reExecutionCap: Any = None
    remediationCap: Any = None
    regexMatchStepBudget: Any = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One recorded run. `complete` is False where it was released early."""

    trace_id: str
    calls: tuple[Call, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Manifestation:
    """The request that shows a planted fault, and what is then true of the answer."""

    leg: Leg
    interface: str
    operation: str
    relation: Expression


@dataclass(frozen=True, slots=True)
class Signature:
    """How a defect shows in a run: the predicate over a home call, one that the selector admits."""

    operation: str
    interface: str | None
    selector: tuple[Binding, ...]
    predicate: Expression


@dataclass(frozen=True, slots=True)
class Defect:
    id: str
    manifestation: Manifestation | None
    signature: Signature | None


@dataclass(frozen=True, slots=True)
class Probe:
    id: str
    kind: ProbeClass
    expected_clean: bool
    check: str | None
    defects: tuple[Defect, ...]


def observation(raw: object, path: str = "observations") -> Call:
    return validated(ObservationModel, raw, path).build()


def observations_of(raw: object) -> tuple[Call, ...]:
    """`{"observations": [...]}` in sequence."""
    found = _only(raw, "observations")
    return in_sequence(observation(item, f"observations[{i}]") for i, item in enumerate(found))


def trials_of(raw: object, argument: str = "trials") -> list[Trial]:
    """`{"traces": [...]}`, or the list itself."""
    found = raw if isinstance(raw, list) else _only(raw, "traces")
    trials = []
    for i, item in enumerate(found):
        model = validated(TraceModel, item, f"{argument}[{i}]")
        calls = in_sequence(observed.build() for observed in model.observations)
        trials.append(Trial(model.trace_id, calls, model.incomplete is None))
    return trials


def _only(raw: object, field: str) -> list[Any]:
    if not isinstance(raw, Mapping) or not isinstance(raw.get(field), list):
        raise schema_fault(field, f"expected an object with a list of {field}")
    for key in raw:
        if key != field:
            raise schema_fault(str(key), UNKNOWN_FIELD)
    return list(raw[field])


def refuse_repeats(trials: Sequence[Trial], argument: str = "trials") -> None:
    """Raises a fault where two trials have one trace id, or where there is none."""
    if not trials:
        raise schema_fault(argument, "expected at least one trace")
    ids = [trial.trace_id for trial in trials]
    for i, trace_id in enumerate(ids):
        if trace_id in ids[:i]:
            raise schema_fault(f"{argument}.trace_id", f'trace "{trace_id}" is given twice')


def probes_of(raw: object) -> list[Probe]:
    """One probe, a list, or `{probes: [...]}`."""
    found = raw["probes"] if isinstance(raw, Mapping) and set(raw) == {"probes"} else raw
    if not isinstance(found, list):
        return [probe_of(found, "probes" if isinstance(raw, list) else "probe")]
    return [probe_of(item, _named("probes", "probeId", item, i)) for i, item in enumerate(found)]


def probe_of(raw: object, argument: str = "probe") -> Probe:
    model = _checked_defects(raw, argument)
    return Probe(
        model.probeId,
        model.kind,
        model.expectedClean,
        model.oracleId,
        tuple(_defect(defect, f"{argument}.defects[defectId={defect.defectId}]") for defect in model.defects),
    )


def _checked_defects(raw: object, argument: str) -> ProbeModel:
    """The probe as a model; a fault in a defect names it by its id."""
    if isinstance(raw, Mapping) and isinstance(raw.get("defects"), list):
        for i, defect in enumerate(raw["defects"]):
            validated(DefectModel, defect, _named(f"{argument}.defects", "defectId", defect, i))
    return validated(ProbeModel, raw, argument)


def _named(path: str, field: str, item: object, index: int) -> str:
    name = item.get(field) if isinstance(item, Mapping) else None
    return f"{path}[{field}={name}]" if isinstance(name, str) else f"{path}[{index}]"


def _defect(model: DefectModel, path: str) -> Defect:
    return Defect(
        model.defectId,
        _manifestation(model.manifestationWitness, f"{path}.manifestationWitness")
        if model.manifestationWitness
        else None,
        _signature(model.defectSignature, f"{path}.defectSignature") if model.defectSignature else None,
    )


def _manifestation(model: WitnessModel, path: str) -> Manifestation:
    relation = expression_of(model.relation, f"{path}.relation", (), short=False)
    return Manifestation(Leg(model.legId, model.inputs or {}), model.interfaceId, model.operationId, relation)


def _signature(model: SignatureModel, path: str) -> Signature:
    predicate = expression_of(model.predicate, f"{path}.predicate", (), short=False)
    return Signature(
        model.operationId, model.interfaceId, _selector(model.selector or {}, f"{path}.selector"), predicate
    )


_SELECTING: Final = ("literal", "matcher")


def _selector(raw: Mapping[str, Any], path: str) -> tuple[Binding, ...]:
    """An input binding of literals and matchers; channels may be left out."""
    found = []
    for channel, bound in raw.items():
        where = f"{path}.{channel}"
        if channel not in KIND_OF_INPUT:
            raise schema_fault(where, UNKNOWN_FIELD)
        if bound is None:
            continue
        if not isinstance(bound, Mapping) or not bound:
            raise schema_fault(where, f"expected null or an object of keys to binding values, got {kind_of(bound)}")
        for key, value in sorted(bound.items()):
            if not isinstance(value, Mapping) or not set(value) <= set(_SELECTING):
                raise schema_fault(f'{where}["{key}"]', "a selector is made of literals and matchers")
            found.append(binding_of(channel, key, value, f'{where}["{key}"]', (), short=False))
    return tuple(found)


def preflight_verdict_of(raw: object) -> PreflightVerdictModel:
    return validated(PreflightVerdictModel, raw, "preflightVerdict")


def scoring_policy_of(raw: object) -> ScoringPolicyModel:
    return validated(ScoringPolicyModel, raw, "policy")
