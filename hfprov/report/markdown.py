"""A report as Markdown, for a ticket, a merge request or a chat: what is wrong, without the passes.

What nodes said is put into code spans and ours into escaped text: neither can make a link, a
mention, an image, a heading or HTML. CommonMark 0.31 and GitHub's tables and autolinks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TextIO

from hfprov.catalogue.explanations import explanations
from hfprov.report.causes import says_no_more
from hfprov.report.content import Content, HostEntry
from hfprov.report.inert import one_line
from hfprov.report.overview import Overview, counts_text, survey
from hfprov.report.standing import STATE_WORDS
from hfprov.verdict import Outcome, Verdict
from hfprov.words import plural

_SHOWN_HOSTS = 12
_ACTIVE = re.compile(r"@|://|www\.|\w:\S|#\d", re.IGNORECASE)
"""What renderers make links, mentions and references of, escaped or not; not in a code span."""
_PUNCTUATION = re.compile(r"([\\`*_{}\[\]#|~$^=!])")
_FIRST = re.compile(r"^(\d{0,9})([-+.)])")
"""The beginning of a list item."""
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def write_markdown(content: Content, out: TextIO) -> Overview:
    """Write the report of a run or of the fleet; says what it told. Raises RecordError."""
    found = survey(content)
    out.writelines(f"{line}\n" for line in _lines(content, found))
    return found


def escaped(value: object) -> str:
    """A text as running text; as a code span when a renderer would make a link of some of it."""
    text = one_line(value)
    if _ACTIVE.search(text):
        return code(text)
    text = _PUNCTUATION.sub(r"\\\1", text).translate(_HTML)
    return _FIRST.sub(r"\1\\\2", text)


def code(value: object) -> str:
    """A text as a code span, whatever backticks it contains."""
    text = one_line(value)
    if not text:
        return "(empty)"
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _lines(content: Content, found: Overview) -> Iterator[str]:
    yield f"# {escaped(found.headline)}"
    yield ""
    if found.alarm:
        yield f"**{escaped(found.alarm)}**"
        yield ""
    if not found.rows:
        yield "Nothing was checked, so nothing is known to be good."
        yield ""
    yield from _counts(found)
    yield from _untouched(found)
    yield from _causes(found)
    for outcome in (Outcome.UNKNOWN, Outcome.FAIL, Outcome.WARN):
        yield from _hosts(content, outcome)
    yield from _changes(found)
    yield from _conditions(content, found)


def _counts(found: Overview) -> Iterator[str]:
    counts = found.counts
    yield "| " + " | ".join(outcome.value for outcome in counts) + " | hosts |"
    yield "|" + " ---: |" * (len(counts) + 1)
    yield "| " + " | ".join(str(count) for count in counts.values()) + f" | {len(found.rows)} |"
    yield ""


def _untouched(found: Overview) -> Iterator[str]:
    for state, rows in found.untouched.items():
        names = ", ".join(code(row.host) for row in rows[:_SHOWN_HOSTS])
        more = f" and {len(rows) - _SHOWN_HOSTS} more" if len(rows) > _SHOWN_HOSTS else ""
        yield f"- **{plural(len(rows), 'host')} {escaped(STATE_WORDS[state])}**: {names}{more}"
    if found.untouched:
        yield ""


def _causes(found: Overview) -> Iterator[str]:
    if not found.causes.ranked:
        return
    yield "## Causes"
    yield ""
    for cause in found.causes.ranked:
        observed = ", ".join(code(text) for text, _ in cause.observed.most_common(3))
        parts = [f"observed {observed}"] if observed else []
        if cause.check and cause.expected:
            parts.append(f"expected {code(cause.expected)}")
        what = code(cause.check) if cause.check else escaped(cause.subject)
        subject = f" {code(cause.subject)}" if cause.check and cause.subject else ""
        values = f": {', '.join(parts)}" if parts else ""
        names = ", ".join(code(name) for name in list(cause.hosts.values())[:_SHOWN_HOSTS])
        more = len(cause.hosts) - _SHOWN_HOSTS
        rest = f" and {more} more" if more > 0 else ""
        waived = f", waived on {plural(cause.waived, 'host')}" if cause.waived else ""
        yield (
            f"- **{plural(len(cause.hosts), 'host')}, {cause.outcome.value}{waived}**: "
            f"{what}{subject}{values} ({names}{rest})"
        )
    if found.causes.left_out:
        yield f"- and {found.causes.left_out} more; each is shown at its host"
    yield ""


def _hosts(content: Content, outcome: Outcome) -> Iterator[str]:
    for entry in content.hosts():
        if entry.outcome is outcome:
            yield from _host(content, entry)


def _host(content: Content, entry: HostEntry) -> Iterator[str]:
    yield f"## {code(entry.host)}: {entry.outcome.value}"
    yield ""
    yield f"- state: {escaped(STATE_WORDS[entry.state])}; checks: {_summary(entry)}"
    for said in dict.fromkeys((entry.note, entry.reason, entry.not_observed_reason)):
        if said:
            yield f"- {escaped(said)}"
    repeated = [one for one in entry.problems if says_no_more(entry, one)]
    if repeated:
        names = ", ".join(code(one.check) for one in repeated)
        yield f"- **unknown**, because the host was not observed: {names}"
    for verdict in entry.problems:
        if verdict not in repeated:
            yield _verdict(verdict, content.made_at)
    for _, change in content.changes(entry.host):
        yield f"- {escaped(change.item)}: {code(change.role)} {escaped(change.task)}"
    yield ""


def _summary(entry: HostEntry) -> str:
    return escaped(counts_text(entry.judged.summary if entry.judged else None))


def _verdict(verdict: Verdict, now: datetime) -> str:
    finding = verdict.finding
    subject = f" {code(finding.subject)}" if finding.subject else ""
    parts = [f"observed {code(finding.observed)}"] if finding.observed else []
    if finding.expected:
        parts.append(f"expected {code(finding.expected)}")
    values = f": {', '.join(parts)}" if parts else ""
    reason = f" - {escaped(finding.reason)}" if finding.reason else ""
    known = explanations().get(verdict.check)
    remedy = f" *To do:* {escaped(known.remedy[0])}" if known and known.remedy else ""
    waiver = f" **({escaped(finding.waiver.words(now))})**" if finding.waiver else ""
    what = f"{code(verdict.check)}{subject}{values}{reason}"
    return f"- **{finding.outcome.value}** {what}{waiver}{remedy}"


def _changes(found: Overview) -> Iterator[str]:
    if not found.tasks:
        return
    yield "## What the roles changed"
    yield ""
    for (role, task, ending), count in found.tasks.items():
        yield f"- {count} x {escaped(ending)}: {code(role)} {escaped(task)}"
    yield ""


def _conditions(content: Content, found: Overview) -> Iterator[str]:
    yield "## Conditions"
    yield ""
    info = content.info
    if info is None:
        yield "- what was judged last of every host, from whichever run"
        if found.oldest:
            yield f"- oldest judgement: {found.oldest.isoformat(timespec='seconds')}"
    else:
        ended = info.ended_at.isoformat(timespec="seconds") if info.ended_at else "not known"
        yield f"- run {code(info.id)}: {code(' '.join(info.argv))}"
        yield f"- status {info.status.value}, exit code {info.exit_code}"
        yield f"- started {info.started_at.isoformat(timespec='seconds')}, ended {ended}"
        yield f"- hfprov {code(info.version)} on {code(info.controller)}"
    for digest, count in found.baselines.most_common(20):
        yield f"- baseline of {plural(count, 'host')}: {code(digest or 'none recorded')}"
    yield f"- report made {content.made_at.isoformat(timespec='seconds')}"
