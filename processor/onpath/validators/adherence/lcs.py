"""Longest common subsequence of the extracted steps and the expected ones, and which one is reported.

The suffixes of the expected list are laid against the extracted list from its end: `reach[i][k]` is the last position
from which the extracted list still holds k of the expected steps i, i+1, ... in order. Only the occurrences of expected
names are ever looked at, so the work grows with the expected list and not with what a run did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]  # position among the expected steps, position among the extracted ones; from 0


@dataclass(frozen=True, slots=True)
class Lcs:
    """`pairs` is the reported subsequence; `reach` is kept for questions about parts of the extracted list."""

    pairs: tuple[Pair, ...]
    reach: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def rest(self, expected_from: int, extracted_from: int) -> int:
        """The LCS of what is left of both lists from two positions on."""
        row = self.reach[expected_from]
        low, high = 0, len(row)
        while low < high:  # the row falls: the entries that are not before the position stand first
            middle = (low + high) // 2
            if row[middle] >= extracted_from:
                low = middle + 1
            else:
                high = middle
        return low - 1


def longest_common(expected: Sequence[str], extracted: Sequence[str | None]) -> Lcs:
    """The LCS whose expected positions, as a list, are smallest, then whose extracted positions are.

    O(N + E * L * log N) for E expected steps, N extracted ones and a result of length L.
    """
    places = _places(expected, extracted)
    reach: list[tuple[int, ...]] = [(len(extracted),)]
    for name in reversed(expected):
        reach.append(_with_one_more(reach[-1], places[name]))
    reach.reverse()
    rows = tuple(reach)
    return Lcs(tuple(_smallest(expected, places, rows)), rows)


def _places(expected: Sequence[str], extracted: Sequence[str | None]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {name: [] for name in expected}
    for position, name in enumerate(extracted):
        if name in places:
            places[name].append(position)
    return places


def _with_one_more(row: tuple[int, ...], places: list[int]) -> tuple[int, ...]:
    """The row of the suffix that has one more expected step in front, whose name stands at `places`."""
    longer = [row[0]]
    for k in range(1, len(row) + 1):
        before = bisect_left(places, row[k - 1])
        taken = places[before - 1] if before else -1
        kept = row[k] if k < len(row) else -1
        best = max(taken, kept)
        if best < 0:
            break
        longer.append(best)
    return tuple(longer)


def _smallest(
    expected: Sequence[str], places: Mapping[str, list[int]], rows: tuple[tuple[int, ...], ...]
) -> list[Pair]:
    pairs: list[Pair] = []
    left = len(rows[0]) - 1
    at = 0
    for i, name in enumerate(expected):
        if not left:
            break
        candidates = places[name]
        first = bisect_left(candidates, at)
        if first == len(candidates):
            continue
        after = rows[i + 1]
        # the first occurrence leaves the most behind it, so it is feasible if any is
        if len(after) > left - 1 and after[left - 1] > candidates[first]:
            pairs.append((i, candidates[first]))
            at, left = candidates[first] + 1, left - 1
    return pairs
