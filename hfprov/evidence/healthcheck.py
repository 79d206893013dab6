"""Logs of Oracle's GPU health checks (oci-hpc): host set-up, active check, pairwise NCCL scout.

"Finished" at the end of a log is not success: only items that say "Passed" or "Succeeded" are. In
the active check a failed or crashed test is only a WARNING.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_ENTRY = regex(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:,\d+)? - (DEBUG|INFO|WARNING|ERROR|CRITICAL) - (.*)"
)
_ITEM = regex(r"(.{1,300}?) ?: (Passed|Failed|Skipped|Warning)\b[ :.-]*(.*)", re.IGNORECASE)
_TEST = regex(r"(?:(\S+) - )?(.{1,200}? Test) (Succeeded|Failed|Skipped): ?(.*)", re.IGNORECASE)
_STARTED = regex(r"Started (.*?)(?: check| healthcheck)? at: (\S+)")
_FINISHED = regex(r"Finished .* at: (\S+)")
_PROMPT = regex(r"\S+@\S+:\S*[$#]")
_BANDWIDTH = regex(r"bandwidth is ([0-9]{1,9}(?:\.[0-9]{1,9})?)")
_PAIR = regex(r"\s*(\S+) <-> (\S+?)(?::|\.\.\.) ?(.*)")
_UNPAIRED = regex(r"Testing unpaired node (\S+) with (\S+?)\.\.\. ?(.*)")
_GBYTES = regex(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) GB/s")
_COUNT = regex(r"(Total nodes provided|Reachable nodes|Unreachable nodes|Good nodes|Bad nodes)")
_SCOUT = regex(r"^Running NCCL test on \d+ nodes|COMPREHENSIVE NODE ACCOUNTING", re.MULTILINE)
_LONGEST = 2000


class HealthcheckItem(Struct, frozen=True):
    name: str
    status: str
    """``pass``, ``warn``, ``fail``, ``skip`` or ``crash``."""
    message: str = ""
    bandwidth_gbytes_s: float | None = None


class HealthcheckLog(Struct, frozen=True):
    """A run of ``check_gpu_setup.py`` or ``active_healthcheck.py``."""

    name: str
    items: tuple[HealthcheckItem, ...]
    started_at: str = ""
    finished: bool = False
    problems: tuple[str, ...] = ()
    """Warnings and errors that are not the result of a named item."""
    incomplete: str = ""

    @property
    def judged(self) -> int:
        """How many items passed, warned, failed or crashed. A log with none proves nothing."""
        return sum(1 for item in self.items if item.status != "skip")


class ScoutPair(Struct, frozen=True):
    one: str
    other: str
    bandwidth_gbytes_s: float | None
    """None when the test gave no number; ``result`` says what it gave."""
    result: str = ""


class NcclScout(Struct, frozen=True):
    """A run of ``ncclscout.py``: nodes tested in pairs."""

    pairs: tuple[ScoutPair, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    """``total nodes provided``, ``reachable nodes``, ``good nodes``, ``bad nodes``, …"""
    threshold_gbytes_s: float | None = None
    good_nodes: tuple[str, ...] = ()
    bad_nodes: tuple[str, ...] = ()
    incomplete: str = ""


def parse(text: str) -> HealthcheckLog | NcclScout:
    """Items of a health check's log.

    Raises NotUnderstoodError when the text is neither of the logs nor the scout's output.
    """
    text = clean(text)
    lines = [line[:_LONGEST].rstrip() for line in text.split("\n") if line.strip()]
    if not lines:
        raise NotUnderstoodError("The log of the health check is empty.")
    if _SCOUT.search(text):
        return _scout(lines)
    entries = [match for line in lines if (match := _ENTRY.match(line))]
    if not entries:
        raise NotUnderstoodError(
            "No line has the form 'YYYY-MM-DD HH:MM:SS,mmm - LEVEL - …'; the first is "
            f"'{excerpt(lines[0])}'."
        )
    return _log(entries)


def _log(entries: list[re.Match[str]]) -> HealthcheckLog:
    items: list[HealthcheckItem] = []
    problems: list[str] = []
    name = started = ""
    finished = False
    for entry in entries:
        level, message = entry.group(2), entry.group(3).strip()
        start = _STARTED.match(message)
        item = _item(message, level)
        if start:
            name, started = start.group(1), start.group(2)
        elif _FINISHED.match(message):
            finished = True
        elif item:
            items.append(item)
        elif level in ("WARNING", "ERROR", "CRITICAL"):
            problems.append(message)
    incomplete = "" if finished else "The log does not end with 'Finished'."
    if not items:
        incomplete = incomplete or "The log has no result of any item."
    return HealthcheckLog(name, tuple(items), started, finished, tuple(problems), incomplete)


def _item(message: str, level: str) -> HealthcheckItem | None:
    test = _TEST.fullmatch(message)
    if test:
        _, name, word, rest = test.groups()
        bandwidth = _BANDWIDTH.search(rest)
        crashed = "crashed" in rest.lower()
        return HealthcheckItem(
            name.strip(),
            "crash" if crashed else _status(word, level),
            rest.strip(),
            float(bandwidth.group(1)) if bandwidth else None,
        )
    item = _ITEM.fullmatch(message)
    if item:
        name, word, rest = item.groups()
        return HealthcheckItem(name.strip(), _status(word, level), rest.strip())
    return None


def _status(word: str, level: str) -> str:
    status = {
        "passed": "pass",
        "succeeded": "pass",
        "failed": "fail",
        "skipped": "skip",
        "warning": "warn",
    }[word.lower()]
    # "Passed" at level ERROR contradicts itself; it does not pass.
    return "fail" if status == "pass" and level in ("ERROR", "CRITICAL") else status


def _scout(lines: list[str]) -> NcclScout:
    pairs: dict[frozenset[str], ScoutPair] = {}
    counts: dict[str, int] = {}
    threshold: float | None = None
    listed: dict[str, list[str]] = {"good": [], "bad": []}
    section = ""
    done = False
    for line in lines:
        unpaired = _UNPAIRED.search(line)
        pair = unpaired or _PAIR.match(line.removeprefix("Testing "))
        count = _COUNT.search(line)
        if pair:
            found = _pair(pair)
            pairs[frozenset({found.one, found.other})] = found
        elif count:
            limit = _GBYTES.search(line)
            threshold = float(limit.group(1)) if limit else threshold
            number = line.rpartition(":")[2].strip()
            if number.isascii() and number.isdigit():
                counts[count.group(1).lower()] = int(number[:9])
        heading = re.match(r"(Good|Bad|Unreachable) Nodes \(", line)
        if heading:
            section = heading.group(1).lower()
        elif section in listed and line.startswith("   "):
            listed[section].extend(word.strip() for word in line.split(",") if word.strip())
        else:
            section = ""
        done = done or line.startswith("Test completed at")
    return NcclScout(
        tuple(pairs.values()),
        counts,
        threshold,
        tuple(listed["good"]),
        tuple(listed["bad"]),
        "" if done else "The output does not end with 'Test completed at'.",
    )


def _pair(match: re.Match[str]) -> ScoutPair:
    one, other, rest = match.groups()
    speed = _GBYTES.match(rest.strip())
    return ScoutPair(one, other, float(speed.group(1)) if speed else None, rest.strip())
