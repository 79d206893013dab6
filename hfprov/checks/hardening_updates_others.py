"""Security updates that are declared and never come; upgrades that nobody declared and that do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.hardening_updates import ROLE
from hfprov.checks.registry import Facts, check
from hfprov.evidence.automatic_updates import UPDATES
from hfprov.evidence.text import excerpt
from hfprov.evidence.update_sources import (
    ARCHIVES,
    DISTRIBUTIONS,
    HAS_LISTS,
    MOST_NEVER,
    PINS,
    Archive,
    Pin,
    holding,
    is_allowed,
)
from hfprov.evidence.upgrades_by_others import UPGRADES, of_hooks
from hfprov.regex import regex
from hfprov.verdict import Finding, Impact, NotApplicable, failed, not_applicable, passed

Apt = Mapping[str, tuple[str, ...]]
_EVERYTHING = regex(r"\^?(?:|\.[*+]?|\*|\(\.\*\)|\[[a-z0-9.+-]*\][*+]?\.?\*?)\$?")
"""Patterns of names that every name matches, as far as they are usual."""


@check(
    "hardening.updates.come",
    reads=[UPDATES, ARCHIVES, HAS_LISTS, PINS],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["hardening_security_updates"],
)
def updates_come(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Apt gets security updates from somewhere, and nothing keeps it from installing them."""
    apt = facts.get(UPDATES).apt
    if not baseline["hardening_security_updates"]:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "Automatic updates are not declared.")
        return
    if apt is None:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "The node has no apt.")
        return
    archives, has_lists = facts.get(ARCHIVES), facts.get(HAS_LISTS)
    found = [*_kept_back(apt), *_archives(archives, apt), *_pinned(archives, facts.get(PINS))]
    if not archives and not has_lists:
        reason = "apt knows of no package to install. Has it sources, and do they answer?"
        found.append(failed("lists", observed="none", expected="fetched", reason=reason))
    yield from found
    if not found:
        yield passed(observed="nothing keeps them back", expected="nothing keeps them back")


def _kept_back(apt: Apt) -> Iterator[Finding]:
    """Settings of unattended-upgrade that leave nothing to install, or no time to do it."""
    listed = apt.get("Unattended-Upgrade::Package-Blacklist::", ())
    if all_names := [one for one in listed if _EVERYTHING.fullmatch(one)]:
        yield failed(
            "Unattended-Upgrade::Package-Blacklist",
            observed=f'"{excerpt(all_names[0], 40)}"',
            expected="no pattern for every package",
            reason="Every package is excluded from updates.",
        )
    if only := apt.get("Unattended-Upgrade::Package-Whitelist::", ()):
        yield failed(
            "Unattended-Upgrade::Package-Whitelist",
            observed=", ".join(f'"{excerpt(one, 40)}"' for one in only[:3]),
            expected="none",
            reason="Packages that this list does not name are never updated.",
        )
    if apt.get("Unattended-Upgrade::InstallOnShutdown", ("false",))[-1].lower() in _TRUE:
        yield failed(
            "Unattended-Upgrade::InstallOnShutdown",
            observed="true",
            expected="false",
            reason="Updates wait for a shutdown, and then hold it up.",
        )


_TRUE = ("true", "yes", "with", "on", "enable", "1")
"""What apt takes for true."""


def _archives(archives: tuple[Archive, ...], apt: Apt) -> Iterator[Finding]:
    """Of archives that apt has fetched. A mirror of the site's own may have any name."""
    securities = [one for one in archives if one.is_security]
    if not securities and any(one.origin in DISTRIBUTIONS for one in archives):
        names = sorted({one.codename or one.suite for one in archives})
        yield failed(
            "security archive",
            observed=f"only {', '.join(names[:5])}",
            expected="that of the distribution",
            reason="None of the archives that apt takes packages from is one of security updates.",
        )
    elif securities and not any(is_allowed(one, apt) for one in securities):
        yield failed(
            "security archive",
            observed="not among the allowed origins",
            expected="allowed",
            reason="unattended-upgrade takes nothing from it.",
        )


def _pinned(archives: tuple[Archive, ...], pins: tuple[Pin, ...]) -> Iterator[Finding]:
    pinned = (holding(one, pins) for one in archives if one.is_security)
    for pin in dict.fromkeys(pinned):
        if pin and pin.priority < MOST_NEVER:
            reason = "At this priority no version from there ever replaces an installed one."
            expected = f"no priority below {MOST_NEVER}"
            yield failed(pin.path, observed=pin.statement, expected=expected, reason=reason)


@check(
    "hardening.updates.others",
    reads=[UPDATES, UPGRADES],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["hardening_updates_excluded"],
)
def updates_of_others(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Nobody else upgrades all packages by a timer: those that jobs depend on are excluded."""
    if not baseline["hardening_updates_excluded"]:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "No package is excluded from updates.")
        return
    found = [*facts.get(UPGRADES), *of_hooks(facts.get(UPDATES).apt or {})]
    for one in found:
        reason = (
            "It upgrades every package that is not held, those that 'hardening_updates_excluded' "
            "names too. No role takes it away: a person has to."
        )
        expected = "no upgrade of all packages"
        yield failed(one.where, observed=one.command, expected=expected, reason=reason)
    if not found:
        yield passed(observed="none", expected="no upgrade of all packages")
