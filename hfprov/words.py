"""Numbers of things, in words as people write them."""

from __future__ import annotations


def be(number: int) -> str:
    """The verb that goes with a number of things."""
    return "is" if number == 1 else "are"


def plural(number: int, noun: str) -> str:
    """``1 host``, ``2 hosts``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def at_work(number: int) -> str:
    """``1 container or job is at work``, ``2 containers or jobs are at work``."""
    what = "container or job" if number == 1 else "containers or jobs"
    return f"{number} {what} {be(number)} at work"
