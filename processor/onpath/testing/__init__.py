"""For tests of agents and of onpath itself: builders of traces and steps, a clock that stands still, an in-memory sink.

    trace(tool("lookup_user"), together(tool("check_balance"), tool("check_fraud")), tool("pay"), agent="refund")

The pytest plugin (`onpath.pytest_plugin`) is loaded by pytest itself.
"""

from __future__ import annotations

from onpath.testing.builders import Part, agent, llm, scope, span, step, together, tool, trace
from onpath.testing.clock import FakeClock
from onpath.testing.sink import MemorySink

__all__ = ["FakeClock", "MemorySink", "Part", "agent", "llm", "scope", "span", "step", "together", "tool", "trace"]
