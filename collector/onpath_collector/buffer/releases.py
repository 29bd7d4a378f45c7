"""Makes a Released of a run, or of the sub-trace of a declared root in it."""

from __future__ import annotations

from onpath_collector.buffer.run import Run
from onpath_collector.buffer.settled import Judgement, Settled
from onpath_collector.buffer.subtraces import SubTrace
from onpath_collector.buffer.values import Reason, Released


def awaited(run: Run) -> Judgement | None:
    """An earlier release of a run that is not judged yet: until then nobody knows which revision comes next."""
    declared = run.declared
    subs = () if declared is None else declared.pending.values()
    priors = (run.prior, *(sub.prior for sub in subs))
    return next((p for p in priors if p is not None and p.judging), None)


def whole_of(run: Run, settled: Settled, due: float, reason: Reason) -> Released:
    return Released(
        trace_id=settled.trace_ids[0],
        trace_ids=settled.trace_ids,
        session=run.session,
        reason=reason,
        chunks=tuple(run.chunks),
        evidence=tuple(run.evidence),
        spans=run.spans,
        size=run.bytes,
        traces=run.fresh,
        revision=settled.revision + 1,
        late=run.late,
        duplicates=run.duplicates,
        partial=run.partial,
        opened_at=run.first,
        due_at=due,
        tags=tuple(run.tags),
        without=() if run.declared is None else run.declared.roots,
        judgement=settled,
    )


def part_of(run: Run, sub: SubTrace, judgement: Judgement, due: float, reason: Reason, traces: int) -> Released:
    """Of a run that has declared roots: one trace, no session."""
    assert run.declared is not None
    spans, numbers = run.declared.subtree(sub)
    chunks = tuple(run.chunks[i] for i in numbers)
    (trace_id,) = run.traces
    return Released(
        trace_id=trace_id,
        trace_ids=(trace_id,),
        session=None,
        reason=reason,
        chunks=chunks,
        evidence=tuple(run.evidence),
        spans=len(spans),
        size=sum(map(len, (*chunks, *run.evidence))),
        traces=traces,
        revision=judgement.revision + 1,
        late=sub.late,
        duplicates=run.duplicates,
        partial=run.partial,
        opened_at=run.first,
        due_at=due,
        tags=(),
        root=sub.root,
        judgement=judgement,
    )
