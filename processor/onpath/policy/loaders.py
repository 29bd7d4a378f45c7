"""Finds what says a flow check in words; until that is part of the build, the check's key stands for it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from onpath.policy.model import Check


def describe_flow(check: Check) -> list[str]:
    if find_spec("onpath.policy.words") is None:
        return [f"`{check.key}`."]
    said: list[str] = import_module("onpath.policy.words").describe(check)
    return said
