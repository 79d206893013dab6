"""The kernel's messages are kept where they are looked for, beyond the next reboot.

A node that lost an accelerator is rebooted, and then its log is all that tells of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.journal_settings import (
    JOURNAL_SETTINGS,
    JOURNAL_UNIT,
    LEVEL,
    READ_KERNEL,
    STORAGE,
    UNIT,
)
from hfprov.evidence.systemd import property_of
from hfprov.verdict import Finding, Impact, compared, failed, passed, warned

_OFF = ("no", "false", "off", "n", "f", "0")
_ERRORS = ("emerg", "alert", "crit", "err", "0", "1", "2", "3")
"""Levels that leave out warnings, and what drivers say without a level."""
_LEVELS = (*_ERRORS, "warning", "notice", "4", "5")
_EXPECTED = "all of the kernel's messages, on a disk"


@check("boot.journal", reads=[JOURNAL_SETTINGS, JOURNAL_UNIT], impact=Impact.MANUAL)
def journal(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The journal is at work, and stores what the kernel says."""
    unit = facts.get(JOURNAL_UNIT)
    state = "masked" if unit.get("LoadState") == "masked" else property_of(unit, "ActiveState")
    # A reload or a restart by its watchdog takes a moment.
    state = "active" if state in ("reloading", "activating") else state
    reason = "Nothing that the kernel or a service says is kept."
    yield compared(UNIT, observed=state, expected="active", reason=reason)
    found = list(_settings(facts))
    yield from found
    if not found:
        yield passed(observed="nothing left out", expected=_EXPECTED)


def _settings(facts: Facts) -> Iterator[Finding]:
    settings = facts.get(JOURNAL_SETTINGS)
    for name, one in sorted(settings.items()):
        subject, observed = f"{one.where} {name}", f"{name}={one.value}"
        if name == STORAGE and one.value == "none":
            reason = "The journal throws everything away: what happened is not told after a reboot."
        elif name == STORAGE and one.value == "volatile":
            reason = "It is kept in memory: what happened before a reboot is not told after it."
            yield warned(subject, observed=observed, expected=_EXPECTED, reason=reason)
            continue
        elif name == READ_KERNEL and one.value in _OFF:
            reason = (
                "The journal does not read the kernel's messages: errors of devices are missing."
            )
        elif name == LEVEL and one.value in _ERRORS:
            reason = "Warnings are thrown away, and what drivers say without a level with them."
        elif name == LEVEL and one.value in _LEVELS:
            reason = "What is below this level is thrown away, resets of devices perhaps."
            yield warned(subject, observed=observed, expected=_EXPECTED, reason=reason)
            continue
        else:
            continue
        yield failed(subject, observed=observed, expected=_EXPECTED, reason=reason)
