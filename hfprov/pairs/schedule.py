"""Who is tested against whom, and when. Pure.

For few hosts every pair is tested, in rounds in which nobody is in two pairs: the circle method of
round-robin tournaments. An even number of hosts takes ``n - 1`` rounds, an odd one ``n``, and each
host sits out once. For a fleet some of these rounds are enough: each gives every host another
partner, and a few partners tell whose fault a bad pair is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Pair = tuple[str, str]
Round = tuple[Pair, ...]


WHOLE_RACK = 64
"""Up to so many hosts every pair is tested."""


def rounds_for(names: Sequence[str], partners: int) -> Iterator[Round]:
    """Every pair of a rack; of a fleet, ``partners`` others for each host."""
    return rounds(names) if len(names) <= WHOLE_RACK else covering_rounds(names, partners)


def rounds(names: Sequence[str]) -> Iterator[Round]:
    """Rounds of disjoint pairs in which every pair of ``names`` occurs exactly once."""
    return (_round(names, number) for number in range(_count(names)))


def covering_rounds(names: Sequence[str], partners: int) -> Iterator[Round]:
    """As many of these rounds as give every host ``partners`` others, far apart in the order.

    All rounds when there are no more. Neighbours in an inventory share a switch; rounds are spread
    so that pairs within and across switches both occur.
    """
    if partners <= 0:
        return
    total = _count(names)
    # For an odd number each host sits out one round.
    wanted = min(total, partners + len(names) % 2)
    for number in range(wanted):
        yield _round(names, number * total // wanted)


def _count(names: Sequence[str]) -> int:
    """How many rounds all pairs take; one host, or none, has no pair."""
    return len(names) - 1 + len(names) % 2 if len(names) > 1 else 0


def _round(names: Sequence[str], number: int) -> Round:
    """Seats in a circle: the first host stays, the others have moved on by ``number`` seats."""
    others: list[str | None] = [*names[1:], *([None] if len(names) % 2 else [])]
    cut = len(others) - number
    circle = [names[0], *others[cut:], *others[:cut]]
    half = len(circle) // 2
    facing = zip(circle[:half], reversed(circle[half:]), strict=True)
    return tuple((a, b) for a, b in facing if a is not None and b is not None)
