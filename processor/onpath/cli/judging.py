"""Judges a batch of recordings: what `onpath check` does in each of its processes.

Data flow: Batch -> spans -> traces that stand in it alone -> reports -> `Outcome`: a line of JSON for each result. The
spans of other traces go back as bytes, and come again with what the other batches have of them (`judge_parts`).
"""

from __future__ import annotations

import json
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from onpath.cli.recorded import BATCH, Batch
from onpath.cli.timeline_view import TimeLine, time_line
from onpath.evaluate import evaluate
from onpath.model import Trace
from onpath.policy.model import Policy
from onpath.recordings import Recording, traces_of
from onpath.results import result_json

Place: TypeAlias = tuple[int, float, str, str]
"""Sorts the traces of a run of the command: start, end and id of the earliest span, id of the trace."""

_PICKLE: Final = 5
_LARGE: Final = 4 * BATCH  # a single document: what is made of lines is not much over one


@dataclass(frozen=True, slots=True)
class Setup:
    """What is the same for all batches.

    `draws`: whether time lines are wanted beside the results. `spreads`: whether what a large document holds is to go
    back, to be judged by several.
    """

    policy: Policy
    judged_at_ns: int
    group_by: str | None = None
    draws: bool = False
    spreads: bool = False


@dataclass(slots=True)
class TraceTold:
    """The results of one trace, as JSON, with their verdicts."""

    place: Place
    lines: list[bytes]
    verdicts: list[str]


@dataclass(slots=True)
class Outcome:
    """`files`: trace id to the file in which it stands first. `parts`: what there is here of traces that go on."""

    traces: list[TraceTold] = field(default_factory=list)
    unmatched: Counter[str] = field(default_factory=Counter)
    time_lines: dict[str, TimeLine] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    parts: dict[str, bytes] = field(default_factory=dict)


def judge_batch(batch: Batch, setup: Setup) -> Outcome:
    """Raises RecordingError."""
    outcome = Outcome()
    own = Recording()
    shared: defaultdict[str, Recording] = defaultdict(Recording)
    spread = setup.spreads and any(len(part.data) > _LARGE for part in batch.parts)
    for part in batch.parts:
        found = part.read()
        for span in found.spans:
            if part.file is not None:
                outcome.files.setdefault(span.trace_id, part.file)
            (shared[span.trace_id] if spread or span.trace_id in batch.shared else own).spans.append(span)
        for record in found.logs:
            (shared[record.trace_id] if spread or record.trace_id in batch.shared else own).logs.append(record)
    _judge(traces_of(own, setup.group_by), setup, outcome)
    outcome.parts = {trace_id: pickle.dumps(part, _PICKLE) for trace_id, part in shared.items()}
    return outcome


def judge_parts(parts: Iterable[bytes], setup: Setup) -> Outcome:
    """Traces of which all parts are together."""
    recording = Recording()
    for part in parts:
        recording.extend(pickle.loads(part))
    outcome = Outcome()
    _judge(traces_of(recording), setup, outcome)
    return outcome


def _judge(traces: Iterable[Trace], setup: Setup, outcome: Outcome) -> None:
    for trace in traces:
        report = evaluate(trace, setup.policy)
        told: list[dict[str, Any]] = []
        for result in report.results:
            made = result_json(report, result, setup.judged_at_ns)
            told.append(made)
            if setup.draws:
                for written, evaluation in zip(made["evaluations"], result.evaluations, strict=True):
                    line = time_line(evaluation, result.steps)
                    if line is not None:
                        outcome.time_lines[written["key"]] = line
        outcome.traces.append(
            TraceTold(
                place=(*trace.spans[0].order, trace.trace_id),
                lines=[json.dumps(made).encode() for made in told],
                verdicts=[made["verdict"] for made in told],
            )
        )
        outcome.unmatched.update(report.unmatched)
