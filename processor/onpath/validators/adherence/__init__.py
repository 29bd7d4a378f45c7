"""Workflow adherence: the steps a run took against the steps declared (adherence.md)."""

from onpath.validators.adherence.check import Adherence

__all__ = ["Adherence"]
