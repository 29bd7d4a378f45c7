"""What the collector says of itself: the addresses it got, the policy it has, that it is ready."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from onpath.policy.model import Policy
from onpath.results import version
from onpath_collector.config import Settings

log: Final = logging.getLogger("onpath")
_NAMES: Final = {"grpc": "OTLP/gRPC on", "http": "OTLP/HTTP on", "admin": "admin on"}


def named(addresses: Mapping[str, str]) -> str:
    return ", ".join(f"{_NAMES[transport]} {address}" for transport, address in addresses.items())


def ready(settings: Settings, policy: Policy | None, addresses: Mapping[str, str]) -> str:
    judged = told(policy) if policy is not None else "no policy"
    onward = settings.forward.endpoint or "nowhere"
    asked = f", judged values go to {settings.judge.destination}" if settings.judge.destination else ""
    return f"onpath {version()} ready: {named(addresses)}, {judged}, forwarding to {onward}{asked}"


def told(policy: Policy) -> str:
    return f"{len(policy.workflows)} workflow{'s' * (len(policy.workflows) != 1)}"


def warn(policy: Policy) -> None:
    """What `onpath validate` warns of: a policy that loads may ask for something else than was meant."""
    for warning in policy.warnings:
        log.warning("%s", warning)
