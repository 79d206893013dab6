"""What is wrong on some hosts in the same way: told once, with the names of the hosts."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from hfprov.report.content import HostEntry
from hfprov.report.inert import one_line
from hfprov.verdict import Outcome, Verdict, Waived, badness

SHOWN = 100
"""Causes that a page shows; the hosts tell the rest."""
_MOST_CAUSES = 2000
"""Causes told apart. Hosts that each invent a subject must not fill the controller's memory."""
_MOST_TEXTS = 50
_MANY_PROBLEMS = 5000
"""Above this many verdicts that are not good, a page would be too long to be sent."""
_MANY_HOSTS = 20

NOT_OBSERVED = "Not observed"
"""What the cause of hosts that were not observed has as ``expected``."""

_Key = tuple[str, str, Outcome, str]


@dataclass(slots=True)
class Cause:
    """One thing that is wrong in the same way on some hosts."""

    outcome: Outcome
    check: str
    """Empty: it is not a check that says so; ``subject`` then is the sentence that does, and
    ``expected`` a title for it."""
    subject: str
    expected: str
    hosts: dict[int, str] = field(default_factory=dict)
    """Names by the number of the host in the report."""
    observed: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    waivers: Counter[Waived] = field(default_factory=Counter)
    """Who answers for it, for a time, on how many hosts."""

    @property
    def waived(self) -> int:
        """Hosts on which somebody answers for it."""
        return self.waivers.total()

    @property
    def uniform(self) -> bool:
        """Whether all hosts were told the same, so that one of them stands for all."""
        told = len(self.hosts)
        return all(
            not texts or list(texts.values()) == [told] for texts in (self.observed, self.reasons)
        )


class Causes:
    """Collects the causes of many hosts' problems, one host after the other."""

    def __init__(self) -> None:
        self._by_key: dict[_Key, Cause] = {}
        self._problems = 0
        self.left_out = 0
        """Verdicts whose cause was one too many to tell apart."""
        self.ranked: list[Cause] = []
        """Worst first, then by the number of hosts."""
        self._told: dict[_Key, int] = {}

    def add(self, number: int, entry: HostEntry) -> None:
        """Add the problems of a host."""
        beyond = _beyond_verdicts(entry)
        if beyond:
            outcome = entry.outcome if entry.observed else Outcome.UNKNOWN
            self._add(("", beyond, outcome, _title(entry)), number, entry.host, None)
        for one in entry.problems:
            self._problems += 1
            if not says_no_more(entry, one):
                self._add(_key(one), number, entry.host, one)

    def rank(self) -> None:
        """Bring the causes into their order, when all hosts are in."""
        items = sorted(
            self._by_key.items(),
            key=lambda item: (-badness(item[1].outcome), -len(item[1].hosts), item[1].check),
        )
        self.ranked = [cause for _, cause in items]
        if self._problems > _MANY_PROBLEMS:
            self._told = {
                key: number
                for number, (key, cause) in enumerate(items[:SHOWN], start=1)
                if len(cause.hosts) >= _MANY_HOSTS and cause.uniform
            }

    def told_by(self, verdict: Verdict) -> int | None:
        """The number (from 1) of the cause that says all of a verdict, in a long report only."""
        # A host with a waiver says so itself.
        return None if verdict.finding.waiver else self._told.get(_key(verdict))

    def _add(self, key: _Key, number: int, host: str, verdict: Verdict | None) -> None:
        check, subject, outcome, expected = key
        if key not in self._by_key:
            if len(self._by_key) >= _MOST_CAUSES:
                self.left_out += 1
                return
            self._by_key[key] = Cause(outcome, check, subject, expected)
        cause = self._by_key[key]
        cause.hosts[number] = host
        if verdict is not None:
            _count(cause.observed, verdict.finding.observed)
            _count(cause.reasons, verdict.finding.reason)
            waiver = verdict.finding.waiver
            if waiver is not None and (waiver in cause.waivers or len(cause.waivers) < _MOST_TEXTS):
                cause.waivers[waiver] += 1


def _key(verdict: Verdict) -> _Key:
    return (verdict.check, verdict.subject, verdict.outcome, verdict.finding.expected)


def _count(texts: Counter[str], text: str) -> None:
    if text and (text in texts or len(texts) < _MOST_TEXTS):
        texts[text] += 1


def says_no_more(entry: HostEntry, verdict: Verdict) -> bool:
    """Whether a verdict only repeats that the host was not observed."""
    finding = verdict.finding
    return (
        not entry.observed
        and finding.outcome is Outcome.UNKNOWN
        and finding.reason == entry.not_observed_reason
        and not finding.subject
        and not finding.observed
    )


def _beyond_verdicts(entry: HostEntry) -> str:
    """What is wrong with a host beside its verdicts, in the same words for all such hosts."""
    if entry.observed and not entry.note:
        return ""
    reason = entry.not_observed_reason or entry.reason or entry.note
    return of_the_host(entry.host, reason) or "It was not observed."


def of_the_host(host: str, reason: str) -> str:
    """What is said of a host without its name, and without the address that follows its name."""
    own = re.escape(f"'{host}'")
    reason = re.sub(rf"(?:\bhost )?{own} \([^()]*\)", "the host", reason)
    reason = re.sub(rf"\bhost {own}", "host", reason)
    told = one_line(reason.replace(f"'{host}'", "the host"))
    return f"The host{told[8:]}" if told.startswith("the host") else told


def _title(entry: HostEntry) -> str:
    if not entry.observed:
        return NOT_OBSERVED
    return "Not finished" if entry.outcome is Outcome.UNKNOWN else "Not done"
