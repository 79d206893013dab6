"""Which kernel boots by default with which parameters, and whether that is what runs now.

What the role sets right by itself costs nothing (``NONE``): it writes the menu. What is set right
and waits for a reboot is ``REBOOT``. A single boot of another entry that somebody asked for is his.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.kernel import PACKAGES
from hfprov.checks.kernel_declared import (
    GRUB_FILE,
    ROLE,
    STATE_FILE,
    declared,
    left_to_host,
    parameters,
    runs_hosts_kernel,
)
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.boot_loader import (
    GRUB_DEFAULTS,
    LOADER,
    BootLoader,
    booted_difference,
    command_line_words,
    made_of,
    missing_parameters,
)
from hfprov.evidence.boot_parameters import RECORDED
from hfprov.evidence.kernel_packages import Manager
from hfprov.evidence.system import KERNEL, MACHINE
from hfprov.evidence.text import clean
from hfprov.verdict import Finding, Impact, compared, failed, passed

PARAMETERS = ("kernel_parameters",)
WHICH = ("kernel_stream", "kernel_version")
_SHOWN = 6


def _shell_statements(text: str) -> list[str]:
    lines = (line.strip() for line in clean(text).splitlines())
    return [line for line in lines if line and line[0] != "#"]


@check(
    "kernel.settings",
    reads=[*PACKAGES, GRUB_DEFAULTS, LOADER, RECORDED],
    role=ROLE,
    impact=Impact.NONE,
    judges=PARAMETERS,
)
def settings(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's file of what the menu is made of; on EL, what it remembers of its parameters."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    found, words = declared(facts, baseline), parameters(baseline)
    if found.packages.manager is Manager.RPM:
        recorded = facts.get(RECORDED)
        yield judge_written_file(STATE_FILE, recorded, wanted=words, statements=_shell_statements)
        return
    entry = facts.get(LOADER).of_release(found.required_release())
    wanted = []
    if words:
        wanted.append(f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {" ".join(words)}"')
    if entry:
        wanted.append(f'GRUB_DEFAULT="{entry.path}"')
    result = facts.get(GRUB_DEFAULTS).results.get(GRUB_FILE)
    yield judge_written_file(GRUB_FILE, result, wanted=wanted, statements=_shell_statements)


@check("kernel.default", reads=[*PACKAGES, LOADER], role=ROLE, impact=Impact.NONE, judges=WHICH)
def default(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The entry that boots whenever nobody asks for another has the declared kernel."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    release = declared(facts, baseline).required_release()
    choice = facts.get(LOADER).default
    yield compared(
        "",
        observed=choice.entry.release or f"no kernel: '{choice.entry.title}'",
        expected=release,
        reason=f"The boot loader takes {choice.words}.",
    )


@check("kernel.next_boot", reads=[*PACKAGES, LOADER], role=ROLE, impact=Impact.MANUAL, judges=WHICH)
def next_boot(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Nobody asked for a single boot of another kernel."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    release = declared(facts, baseline).required_release()
    loader = facts.get(LOADER)
    asked = loader.environment.get("next_entry", "")
    if not asked or loader.next.entry.release == release:
        yield passed(observed=asked or "the default entry", expected="no other entry")
    else:
        reason = f"The next boot takes {loader.next.words}, once; 'grub-reboot' asked for it."
        yield failed("", observed=asked, expected="no other entry", reason=reason)


@check(
    "kernel.menu",
    reads=[*PACKAGES, LOADER, GRUB_DEFAULTS],
    role=ROLE,
    impact=Impact.NONE,
    judges=PARAMETERS,
)
def menu(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The default entry has the declared parameters, and no other ones than the settings say."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    choice = facts.get(LOADER).default
    yield _judge_parameters("default entry", choice.entry.arguments, baseline)
    if declared(facts, baseline).packages.manager is Manager.RPM:
        return
    wanted = made_of(facts.get(GRUB_DEFAULTS))
    words = [one for one in choice.entry.arguments if "$" not in one]
    if wanted and words[-len(wanted) :] != wanted:
        reason = "The menu was not written since the settings were changed, or by hand."
        observed, expected = " ".join(words[-len(wanted) :]), " ".join(wanted)
        yield failed("made of", observed=observed, expected=expected, reason=reason)
    else:
        yield passed("made of", observed="the present settings", expected="the present settings")


def _judge_parameters(subject: str, words: tuple[str, ...], baseline: Baseline) -> Finding:
    wanted = parameters(baseline)
    missing = missing_parameters(wanted, words)
    expected = " ".join(wanted) or "no parameter of the role"
    if missing:
        reason = f"'{' '.join(missing)}' is missing, or a later one of that name wins."
        return failed(subject, observed=" ".join(words)[-200:], expected=expected, reason=reason)
    return passed(subject, observed="has them", expected=expected)


@check(
    "kernel.running",
    reads=[*PACKAGES, KERNEL, LOADER],
    role=ROLE,
    impact=Impact.REBOOT,
    judges=WHICH,
)
def running(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The kernel that runs is the declared one."""
    if elsewhere := runs_hosts_kernel(facts):
        yield elsewhere
        return
    release, kernel = declared(facts, baseline).required_release(), facts.get(KERNEL)
    if kernel.release == release:
        yield passed(observed=release, expected=release)
    else:
        reason = _why_not_booted(facts.get(LOADER), release)
        yield failed("", observed=kernel.release, expected=release, reason=reason)


def _why_not_booted(loader: BootLoader, release: str) -> str:
    choice = loader.next
    if choice.entry.release == release:
        return "It is installed and boots by default: a reboot is needed."
    return f"A reboot would not bring it: the boot loader takes {choice.words}."


@check(
    "kernel.cmdline",
    reads=[MACHINE, KERNEL, LOADER],
    role=ROLE,
    impact=Impact.REBOOT,
    judges=PARAMETERS,
)
def cmdline(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The running kernel was started with the parameters that it would be started with now."""
    if elsewhere := runs_hosts_kernel(facts):
        yield elsewhere
        return
    words = command_line_words(facts.get(KERNEL).cmdline)
    yield _judge_parameters("running", words, baseline)
    only_running, only_entry = booted_difference(words, facts.get(LOADER).default.entry)
    if only_running or only_entry:
        reason = (
            f"A reboot adds '{' '.join(only_entry[:_SHOWN])}' and drops "
            f"'{' '.join(only_running[:_SHOWN])}'."
        )
        observed = " ".join(words)[-200:]
        yield failed("as booted", observed=observed, expected="as it will be", reason=reason)
    else:
        yield passed("as booted", observed="as it will be", expected="as it will be")
