"""``ethtool`` in all its forms: recognises what was asked from what was printed.

:func:`parse` returns the facts of one run; of several runs in one text (``for i in …; do ethtool
…``), a tuple of them. What ethtool could not tell is an
:class:`~hfprov.evidence.ethtool.failure.EthtoolFailure`, which is evidence too.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool.failure import EthtoolFailure, failure_in, join_split_sentences
from hfprov.evidence.ethtool.fec import Fec, parse_fec
from hfprov.evidence.ethtool.json_forms import JsonFacts, parse_json
from hfprov.evidence.ethtool.link import LinkSettings, parse_link
from hfprov.evidence.ethtool.pairs import Section
from hfprov.evidence.ethtool.settings import (
    Channels,
    Coalescing,
    DriverInfo,
    Features,
    Pause,
    PermanentAddress,
    PrivateFlags,
    Rings,
    parse_address,
    parse_coalescing,
    parse_driver,
    parse_features,
    parse_pause,
    parse_private_flags,
    parse_sizes,
)
from hfprov.evidence.ethtool.statistics import COUNTER, Statistics, parse_statistics
from hfprov.evidence.ethtool.timestamping import TimeStamping, parse_time_stamping
from hfprov.evidence.ethtool.transceiver import Transceiver, parse_transceiver
from hfprov.evidence.net_lines import empty, lines_of, starts_like_json
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

Facts = (
    LinkSettings
    | DriverInfo
    | Rings
    | Channels
    | Pause
    | Coalescing
    | Features
    | PrivateFlags
    | PermanentAddress
    | TimeStamping
    | Transceiver
    | Fec
    | Statistics
    | EthtoolFailure
    | JsonFacts
)

_HEADINGS = (
    (regex(r"\s*Settings for (?P<name>\S+):"), "link"),
    (regex(r"Ring parameters for (?P<name>\S+):"), "-g"),
    (regex(r"Channel parameters for (?P<name>\S+):"), "-l"),
    (regex(r"Coalesce parameters for (?P<name>\S+):"), "-c"),
    (regex(r"Pause parameters for (?P<name>\S+):"), "-a"),
    (regex(r"(?:Features|Offload parameters) for (?P<name>\S+):"), "-k"),
    (regex(r"Private flags for (?P<name>\S+):"), "--show-priv-flags"),
    (regex(r"FEC parameters for (?P<name>\S+):"), "--show-fec"),
    (regex(r"Time stamping parameters for (?P<name>\S+):"), "-T"),
    (regex(r"NIC statistics:"), "-S"),
    (regex(r"Standard stats for (?P<name>\S+):"), "-S"),
)
_FIRST_LINES = (
    # Forms without a heading: their first line is an answer already.
    (regex(r"driver: .*"), "-i"),
    (regex(r"Permanent address: .*"), "-P"),
    (regex(r"\s*Identifier\s+: .*"), "-m"),
)
_DRIVER_LINE = regex(r"(?:driver|version|firmware-version|bus-info): ?.*")

_PARSERS: dict[str, Callable[[Section], Facts]] = {
    "link": parse_link,
    "-i": parse_driver,
    "-g": lambda section: parse_sizes(section, Rings),
    "-l": lambda section: parse_sizes(section, Channels),
    "-a": parse_pause,
    "-c": parse_coalescing,
    "-k": parse_features,
    "--show-priv-flags": parse_private_flags,
    "--show-fec": parse_fec,
    "-T": parse_time_stamping,
    "-P": parse_address,
    "-m": parse_transceiver,
    "-S": parse_statistics,
}
_KEEPS_FAILURES = frozenset({"link", "-k", "-m"})
"""Forms whose facts hold failures beside values: one refused part does not spoil the rest."""


def parse(text: str) -> Facts | tuple[Facts, ...]:
    """Facts of one run of ethtool, or a tuple for several. Raises NotUnderstoodError."""
    if starts_like_json(text):
        return parse_json(text)
    lines = join_split_sentences(lines_of(text))
    if any(line.strip() == "Operational Info" for line in lines):
        raise NotUnderstoodError(
            "This is output of mlxlink, whose state of the link is not read.",
            hint="Record 'ethtool DEV' and 'ethtool -m DEV', or keep the part 'Module Info'.",
        )
    if not any(line.strip() for line in lines):
        raise empty("ethtool")
    before, sections = _sections(lines)
    failures = [found for line in before if (found := failure_in(line)) is not None]
    if not sections:
        return _without_heading(lines, failures)
    if len(sections) == 1:
        return _one(sections[0], failures)
    if failures or any(_failures(section) for section in sections[:-1]):
        raise NotUnderstoodError(
            "ethtool: answers and failures of several runs are mixed; which belongs to which "
            "cannot be told.",
            hint="Run ethtool once per interface, with its error output kept apart.",
        )
    return tuple(_one(section, []) for section in sections)


def _sections(lines: list[str]) -> tuple[list[str], list[Section]]:
    """The lines before the first heading, and one section per heading."""
    starts: list[tuple[int, int, str, str | None]] = []
    for at, line in enumerate(lines):
        for pattern, form in _HEADINGS:
            match = pattern.fullmatch(line)
            if match is not None:
                starts.append((at, at + 1, form, match.groupdict().get("name")))
                break
        else:
            starts += [
                (at, at, form, None) for pattern, form in _FIRST_LINES if pattern.fullmatch(line)
            ]
    if not starts:
        return lines, []
    ends = [start[0] for start in starts[1:]] + [len(lines)]
    sections = [
        Section(form, name, tuple(lines[first:end]), first + 1)
        for (_, first, form, name), end in zip(starts, ends, strict=True)
    ]
    return lines[: starts[0][0]], sections


def _failures(section: Section) -> list[EthtoolFailure]:
    if section.form in _KEEPS_FAILURES:
        return []
    return [found for _, line in section.numbered() if (found := failure_in(line)) is not None]


def _one(section: Section, before: list[EthtoolFailure]) -> Facts:
    """Facts of one section. A failure beside it is the answer: it outranks half a list."""
    failures = before + _failures(section)
    if failures and section.form not in _KEEPS_FAILURES:
        return replace(failures[0], interface=section.interface)
    if not any(line.strip() for line in section.lines) and failures:
        return replace(failures[0], interface=section.interface)
    facts = _PARSERS[section.form](section)
    if before and isinstance(facts, (LinkSettings, Features, Transceiver)):
        return replace(facts, failures=(*before, *facts.failures))
    return facts


def _without_heading(lines: list[str], failures: list[EthtoolFailure]) -> Facts:
    """A failure alone, or an excerpt (``| grep``) of counters or of driver information."""
    if failures:
        return failures[0]
    spoken = [line for line in lines if line.strip()]
    if all(COUNTER.fullmatch(line) for line in spoken):
        return parse_statistics(Section("-S", None, tuple(lines), 1), whole=False)
    if all(_DRIVER_LINE.fullmatch(line) for line in spoken):
        return parse_driver(Section("-i", None, tuple(lines), 1))
    raise NotUnderstoodError(
        f"ethtool: '{excerpt(spoken[0])}' does not begin any form of its output that is known."
    )
