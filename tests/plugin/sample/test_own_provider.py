"""An application that sets a global provider of its own, before any test of it runs."""

from __future__ import annotations

from typing import Any

import agent
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())


def test_the_applications_own_global_provider_passes(onpath: Any) -> None:
    agent.refund("look_up", "check", "pay")
    assert onpath.check().passed
