"""Holds the spans of each trace, as bytes, until the trace is complete or its time is over. Pure: time is an argument.

    push, attach, complete -> Run (one trace, or all traces of a session) -> deadline -> tick -> Released -> judged
                                        ^                                                                      |
                                        +------- late spans, within `late_window` <- Settled <- settle --------+

`now` is everywhere a monotonic clock in float seconds. One owner, one event loop: nothing here is locked.

Conservation, at any time: `counts.traces_started == counts.traces_released + open_traces`. A trace counts when it is
first opened and when it is first released (`Released.traces`, 0 for a trace opened again); the owner weighs what
becomes of a Released by that number, so that started = judged + dropped + open, where open includes what is being
judged. Every Released is given back by `settle`, whatever became of it: until then it weighs on the memory limit and
its trace is not released again.
"""

from onpath_collector.buffer.core import TraceBuffer
from onpath_collector.buffer.values import LATENESS, BufferSettings, Counts, Evidence, Reason, Released, Spans

__all__ = ["LATENESS", "BufferSettings", "Counts", "Evidence", "Reason", "Released", "Spans", "TraceBuffer"]
