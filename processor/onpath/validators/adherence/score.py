"""The published score and its label, in exact fractions (adherence.md sections 7, 8 and 10)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from onpath.report import Verdict

_WITH_REQUIRED: Final = (6, 3)  # tenths for the order and for the required steps ...
_WITHOUT: Final = (9, 0)
_CLEAN: Final = 1  # ... and for no prohibited one
_NONE: Final = Fraction(0)
_ALL: Final = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the score is made of. `matched` is the length of the LCS, `required` counts different names."""

    expected: int
    extracted: int
    matched: int
    required: int = 0
    missing: int = 0
    prohibits: bool = False
    prohibited_found: bool = False
    strict: bool = False

    @property
    def order(self) -> Fraction:
        if self.strict:
            return _ALL if self.matched == self.expected == self.extracted else _NONE
        return Fraction(self.matched, self.expected)

    @property
    def required_share(self) -> Fraction:
        return Fraction(self.required - self.missing, self.required) if self.missing else _ALL

    @property
    def score(self) -> Fraction:
        return self._score(self.order, self.required_share, self.prohibited_found)

    @property
    def lowest(self) -> Fraction:
        """The least that the score can become when more steps come in."""
        return self._score(_NONE if self.strict else self.order, self.required_share, self.prohibits)

    @property
    def highest(self) -> Fraction:
        """The most that it can become: the strict order can still be met by what is part of it."""
        can_match = not self.strict or self.matched == self.extracted
        return self._score(_ALL if can_match else _NONE, _ALL, self.prohibited_found)

    def label(self, threshold: Fraction, complete: bool) -> Verdict:
        """Of an incomplete trace, what no further step can change."""
        if complete:
            return Verdict.PASS if self.score >= threshold else Verdict.FAIL
        if self.lowest >= threshold:
            return Verdict.PASS
        return Verdict.FAIL if self.highest < threshold else Verdict.UNKNOWN

    def _score(self, order: Fraction, required: Fraction, prohibited: bool) -> Fraction:
        of_order, of_required = _WITH_REQUIRED if self.required else _WITHOUT
        of_clean = 0 if prohibited else _CLEAN
        whole, share = order.denominator * required.denominator, of_order * order.numerator * required.denominator
        share += of_required * required.numerator * order.denominator + of_clean * whole
        return Fraction(share, 10 * whole)
