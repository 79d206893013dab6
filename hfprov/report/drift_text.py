"""A drift sweep for people: causes as they are first seen, then all of them, new ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from hfprov.report.causes import Cause, of_the_host
from hfprov.report.costs import COSTS
from hfprov.report.documents import summary
from hfprov.report.drift import WHOLE_HOST, Drift, Drifted
from hfprov.report.inert import one_line
from hfprov.report.progress import Shown
from hfprov.report.terminal import STYLES, console, outcome_text, print_odd, verdict_line
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Finding, Outcome, Verdict, badness
from hfprov.words import plural

_NAMES = 6
_MEANWHILE = 4
_MOST_STREAMED = 20
_MOST_CAUSES = 50
_MOST_HOST_LINES = 20
_BAD = (Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN)


def host_names(hosts: Sequence[str], most: int = _NAMES) -> str:
    """``a, b, c and 34 more``."""
    more = f" and {len(hosts) - most} more" if len(hosts) > most else ""
    return ", ".join(one_line(host, 80) for host in hosts[:most]) + more


class Streamed(Shown):
    """Tells each cause on stderr as soon as the first host shows it; the rest is only counted."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._told: set[tuple[str, str, Outcome, str]] = set()
        self._streaming = True

    def on_wave(self, number: int, hosts: Sequence[str]) -> None:
        self._streaming = False
        super().on_wave(number, hosts)

    def on_host(self, view: HostVerdicts) -> None:
        if self._streaming and not view.reachable:
            reason = of_the_host(view.host, view.reason)
            self._once(("", "", Outcome.UNKNOWN, reason), view.host, reason)
        elif self._streaming:
            bad = [one for one in view.verdicts if one.outcome in _BAD]
            for one in sorted(bad, key=lambda one: -badness(one.outcome)):
                key = (one.check, one.subject, one.outcome, one.finding.expected)
                self._once(key, view.host, verdict_line(one).plain.strip())
        super().on_host(view)

    def _once(self, key: tuple[str, str, Outcome, str], host: str, text: str) -> None:
        if key in self._told or len(self._told) > _MOST_STREAMED:
            return
        self._told.add(key)
        if len(self._told) > _MOST_STREAMED:
            self._line(f"More is found. The end tells up to {_MOST_CAUSES} causes, worst first.")
        else:
            self._line(f"{host}: {text}", style=STYLES[key[2]])


def print_drift(found: Drift, hints: Mapping[str, str] | None = None) -> None:
    """New causes, those of before, and what is good again.

    ``hints`` says, by host, what to do about hosts that were not observed.
    """
    out = console()
    new = [one for one in found.causes if one.new]
    old = [one for one in found.causes if not one.new]
    _print_some(out, "New since the sweep before:", new, found.hosts, hints or {})
    first = found.first_time == found.hosts
    _print_some(out, "Found:" if first or not new else "As before:", old, found.hosts, hints or {})
    if found.left_out:
        out.print(Text(f"{plural(found.left_out, 'finding')} more, too different to be grouped."))
    if found.cured:
        out.print(Text("Good again:", style="bold"))
    for (check, subject), hosts in found.cured.items():
        if (check, subject) == WHOLE_HOST:
            out.print(Text(f"  reached again: {host_names(hosts)}"))
            continue
        what = f"{check} {one_line(subject)}".strip()
        out.print(Text(f"  {what} - {plural(len(hosts), 'host')}: {host_names(hosts)}"))


def print_hosts(views: Mapping[str, HostVerdicts]) -> None:
    """Which host is the odd one, how each of a few stands, and how many stand how."""
    out = console()
    print_odd(views)
    if len(views) <= _MOST_HOST_LINES:
        for view in views.values():
            out.print(Text(view.host, style="bold"), outcome_text(view.outcome))
    counts = summary(views.values())
    out.print(Text("  ".join(f"{name}: {number}" for name, number in counts.items())))


def _print_some(
    out: Console, title: str, some: Sequence[Drifted], hosts: int, hints: Mapping[str, str]
) -> None:
    if not some:
        return
    out.print(Text(title, style="bold"))
    for one in some[:_MOST_CAUSES]:
        for line in cause_lines(one, hosts, hints):
            out.print(line)
    rest = some[_MOST_CAUSES:]
    if rest:
        counts = Counter(one.cause.outcome.value for one in rest)
        kinds = ", ".join(f"{number} {name}" for name, number in counts.items())
        more = f"and {plural(len(rest), 'more cause')}, none of them worse ({kinds})"
        out.print(Text(f"  {more}; '--json' has them all"))


def cause_lines(one: Drifted, hosts: int, hints: Mapping[str, str] | None = None) -> list[Text]:
    """What it is, on which hosts, since when and with what, and how it is repaired."""
    cause = one.cause
    told = list(cause.hosts.values())
    many = f"{len(told)} of {plural(hosts, 'host')}: " if hosts > 1 else ""
    spread = f"; new on {host_names(one.new)}" if one.new and len(one.new) < len(told) else ""
    lines = [_what(cause), Text(f"           {many}{host_names(told)}{spread}")]
    for waiver, count in cause.waivers.most_common(_NAMES):
        words = f"{plural(count, 'host')} {waiver.words(datetime.now(UTC))}"
        lines.append(Text(f"           {one_line(words)}", style="cyan"))
    # What to do about hosts that were not observed, each advice once.
    advice = dict.fromkeys(filter(None, ((hints or {}).get(host) for host in told)))
    below = (_since(one), _repair(one), "" if one.observed else one_line(" ".join(advice)))
    return lines + [Text(f"           {text}", style="dim") for text in below if text]


def _what(cause: Cause) -> Text:
    if not cause.check:
        line = Text("  ")
        line.append(f"{cause.outcome.value:<8} ", style=STYLES[cause.outcome])
        return line.append(f"{cause.expected}: {one_line(cause.subject)}")
    observed, reason = (_usual(texts) for texts in (cause.observed, cause.reasons))
    finding = Finding(cause.outcome, cause.subject, observed, cause.expected, reason)
    return verdict_line(Verdict(cause.check, finding))


def _usual(texts: Mapping[str, int]) -> str:
    if not texts:
        return ""
    text = max(texts, key=lambda one: texts[one])
    more = len(texts) - 1
    return f"{text} (and {plural(more, 'other value')})" if more else text


def _since(one: Drifted) -> str:
    trace, good, saw = one.trace, "seen good", "saw it good"
    if not one.observed:
        good, saw = "reached", "saw it reached"
    if trace.first_bad is None:
        return "Since when is not known."
    if trace.last_good is None:
        return f"First seen {_day(trace.first_bad)}; the record never {saw}."
    text = f"Since {_day(trace.first_bad)}; {good} until {_day(trace.last_good)}."
    if trace.never_good:
        text += f" On {plural(trace.never_good, 'host')} the record never {saw}."
    usual = [
        what if times == trace.traced else f"{what} ({plural(times, 'host')})"
        for what, times in trace.meanwhile.most_common(_MEANWHILE)
    ]
    meanwhile = one_line("; ".join(usual)) or "nothing that is recorded"
    return f"{text} Changed in between: {meanwhile}."


def _day(when: datetime) -> str:
    here = when.astimezone()
    today = datetime.now(UTC).astimezone().date()
    return f"today {here:%H:%M}" if here.date() == today else f"{here:%a %Y-%m-%d %H:%M}"


def _repair(one: Drifted) -> str:
    check, told = one.cause.check, len(one.cause.hosts)
    explain = f"'hfprov explain {check}'."
    if not check:
        return "" if one.observed else "hfprov cannot repair what it does not reach."
    if one.beside:
        where = "there" if one.beside == told else f"on {one.beside} of {told} hosts"
        runs = f"Role '{one.role}' runs {where} for other causes"
        return f"{runs}; what it leaves of this a person repairs: {explain}"
    if not one.level or one.impact is None:
        return f"A person repairs it: {explain}"
    if one.cause.outcome is Outcome.WARN:
        return f"A warning: role '{one.role}' does not run for it; {explain}"
    costs = COSTS[one.impact]
    return f"Role '{one.role}' repairs it ('--repair --only {one.level}'); {costs}."
