"""auditd: the rules in its files, in the kernel, and the daemon."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence import systemd
from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import together
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Result, Source, command, complete_text, glob

FILES = glob("/etc/audit/rules.d/*.rules")
_LIST = command("auditctl", "-l")
_UNIT = together(
    command("systemctl", "show", "--property=LoadState,ActiveState,UnitFileState", "auditd")
)


def parse_rules(text: str) -> tuple[str, ...]:
    """Lines of a file of rules, or of ``auditctl -l``, without comments."""
    lines = (" ".join(line.split()) for line in clean(text).splitlines())
    return tuple(line for line in lines if line and line[0] != "#" and line != "No rules")


def is_blanket(rule: str) -> bool:
    """Whether a rule has the kernel look at system calls of every process, anywhere.

    A rule that names a directory, a path or a user is bounded; one that never records is, too.
    """
    if not re.match(r"-[aA] (always,exit|exit,always|exit,possible)\b", rule):
        return False
    bounded = re.search(r"-F (dir|path|exe|auid|uid|euid|gid|pid|ppid)=", rule)
    return " -S " in rule and bounded is None


class Audit(Struct, frozen=True):
    """What is audited."""

    results: Mapping[str, Result]
    """Files of rules by path."""
    rules: Mapping[str, tuple[str, ...]]
    """Rules by path."""
    unit: Properties


def _parse_audit(seen: Observation, _: Baseline) -> Audit:
    results = {result.name: result for result in seen.each(FILES)}
    (unit,) = systemd.parse(seen.text(_UNIT))
    return Audit(
        results,
        {path: parse_rules(complete_text(FILES, one)) for path, one in results.items()},
        unit,
    )


AUDIT: Source[Audit] = Source("audit", lambda _: (FILES, _UNIT), _parse_audit)

LOADED_RULES: Source[tuple[str, ...]] = Source(
    "rules of the audit in the kernel",
    lambda _: (_LIST,),
    lambda seen, _: parse_rules(seen.text(_LIST)),
)
