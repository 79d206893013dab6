"""What is read later than the role's files, and takes back what they say. A person's to repair."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.kernel import PACKAGES
from hfprov.checks.kernel_declared import (
    GRUB_FILE,
    LOCKS_FILE,
    PREFERENCES_FILE,
    ROLE,
    declared,
    left_to_host,
    parameters,
)
from hfprov.checks.registry import Facts, check
from hfprov.evidence.apt_preferences import PREFERENCES, statements
from hfprov.evidence.boot_loader import GRUB_DEFAULTS, LOADER, name_of
from hfprov.verdict import Finding, Impact, failed, passed


@check(
    "kernel.rivals",
    reads=[*PACKAGES, GRUB_DEFAULTS, PREFERENCES, LOADER],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["kernel_parameters"],
)
def rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Nothing that is read later takes back what the role writes, or prefers another kernel."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    problems = [*_later_settings(facts, baseline), *_other_preferences(facts, baseline)]
    word = "It sets a default entry of its own while the node boots."
    problems += [(path, word) for path in facts.get(LOADER).customs]
    for path, reason in problems:
        yield failed(path, observed="overrides the role", expected="no rival", reason=reason)
    if not problems:
        yield passed(observed="no rival", expected="no rival")


def _later_settings(facts: Facts, baseline: Baseline) -> Iterator[tuple[str, str]]:
    ours = {name_of(one) for one in parameters(baseline)}
    for one in facts.get(GRUB_DEFAULTS).after(GRUB_FILE):
        if one.name == "GRUB_DEFAULT":
            yield one.path, f"It sets GRUB_DEFAULT to '{one.value}', after the role's file."
        elif one.name == "GRUB_CMDLINE_LINUX_DEFAULT" and not one.keeps:
            yield one.path, "It drops the parameters of all files before it."
        elif one.name == "GRUB_CMDLINE_LINUX_DEFAULT":
            again = {name_of(word) for word in one.value.split()} & ours
            if again:
                yield one.path, f"It sets '{', '.join(sorted(again))}' again, after the role's."


def _other_preferences(facts: Facts, baseline: Baseline) -> Iterator[tuple[str, str]]:
    found = declared(facts, baseline)
    for path, result in facts.get(PREFERENCES).items():
        if path in (PREFERENCES_FILE, LOCKS_FILE):
            continue
        for line in statements(result.text):
            key, _, value = line.partition(":")
            if key == "Package" and {found.image, found.headers} & set(value.split()):
                yield path, "It has a preference of its own for the kernel's packages."
