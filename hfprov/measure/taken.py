"""What a tool said in all of its runs, on one host or from one host to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hfprov.measure.statistics import summarise
from hfprov.measure.tool import Figure, Tool

Curve = tuple[tuple[float, float], ...]


@dataclass(slots=True)
class Taken:
    """What one tool said on one host, or from one host to another."""

    tool: Tool
    host: str
    peer: str = ""
    rail: str = ""
    argv: tuple[str, ...] = ()
    figures: dict[str, Figure] = field(default_factory=dict)
    """By test, with the values of all repeats."""
    problem: str = ""
    """Why there are no figures, or why they do not count."""
    raw: bytes = b""
    """The output of the last run."""
    alone: bool = False
    """Whether nothing else was measured at the same time."""
    hosts: tuple[str, ...] = ()
    """All that took part, where it is more than both ends."""
    retried: list[str] = field(default_factory=list)
    """Of each run that was made anew: why the tool could not measure it."""
    curve_problem: str = ""
    """Why there is no curve; the figures count without one."""

    @property
    def fewest(self) -> int:
        """The fewest values of a test; 0 without any."""
        return min((len(one.values) for one in self.figures.values()), default=0)

    @property
    def steady(self) -> bool:
        """Whether the repeats of every test agree with each other."""
        return all(
            summarise(one.values).variation <= one.tolerance.unstable
            for one in self.figures.values()
        )

    def add(self, found: Sequence[Figure]) -> None:
        """Take over one run's figures."""
        for one in found:
            known = self.figures.get(one.test)
            values = (*(known.values if known else ()), *one.values)
            self.figures[one.test] = replace(one, values=values)

    def draw(self, points: Sequence[Figure], message_bytes: int) -> None:
        """Take over a run of a curve: many sizes, or the one of ``message_bytes``."""
        for one in points:
            if known := self.figures.get(one.test):
                found = one.curve or ((float(message_bytes), one.values[0]),)
                curve = tuple(sorted({**dict(known.curve), **dict(found)}.items()))
                self.figures[one.test] = replace(known, curve=curve)
