"""Sets of places as whole numbers, bit p for place p: a row of a match is one number, however many steps there are.

A mask of steps has bit p where the step between places p and p + 1 is allowed; a reach has bit p where a block may
begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def places(mask: int) -> Iterator[int]:
    """From the lowest."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def of_places(found: Iterable[int], size: int) -> int:
    """The set of places, each less than size."""
    flags = bytearray(b"0") * size
    for place in found:
        flags[size - 1 - place] = 49  # "1"
    return int(flags, 2) if size else 0


def flags(mask: int, size: int) -> str:
    """A character a place: "1" where it is in the set."""
    return f"{mask:0{size}b}"[::-1] if size else ""


def mirrored(mask: int, size: int) -> int:
    """Place p becomes size - 1 - p."""
    return int(flags(mask, size), 2) if size else 0


def runs(mask: int, length: int) -> int:
    """Places from which `length` allowed steps follow one another; every place for none."""
    if length == 0:
        return -1
    have = 1
    while have < length:
        step = min(have, length - have)
        mask &= mask >> step
        have += step
    return mask


def stretch(reach: int, mask: int, most: int) -> int:
    """Places reached by 0 to `most` allowed steps."""
    covered, run = 0, mask
    while covered < most:
        step = min(covered + 1, most - covered)
        run = run if step == covered + 1 else runs(mask, step)
        reach |= (reach & run) << step
        covered += step
        run &= run >> step
    return reach


def flood(reach: int, mask: int) -> int:
    """Places reached by any number of allowed steps: the carry of an addition runs through each run of ones."""
    return reach | ((mask + (reach & mask)) ^ mask)


def advance(reach: int, mask: int, least: int, most: int | None, size: int) -> int:
    """Places reached by `least` to `most` allowed steps among `size`."""
    if least > size:
        return 0
    reach = (reach & runs(mask, least)) << least
    return flood(reach, mask) if most is None else stretch(reach, mask, min(most, size) - least)
