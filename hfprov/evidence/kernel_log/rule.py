"""What makes a kernel message an event: one row per kind, what it is about and how bad it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hfprov.evidence.xid import Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """Messages of one kind. Named groups of the pattern become the event's details."""

    category: str
    severity: Severity
    hint: str
    """A piece of text that every matching message contains: the look at harmless lines is cheap."""
    pattern: re.Pattern[str] = field(compare=False)


def rule(category: str, severity: Severity, hint: str, pattern: str = "") -> Rule:
    """A rule for messages with ``hint`` that match ``pattern``, or for all with it."""
    return Rule(category, severity, hint, re.compile(pattern or re.escape(hint)))


PROBE_FAILED = r"\bprobe (?:of|with driver) \S+ failed with error"
"""Of every driver; until Linux 6.6 with the device, then with the driver's name."""
