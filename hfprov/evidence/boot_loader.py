"""What boots next: GRUB's menu with its default, of Debian and Ubuntu or of Enterprise Linux.

Also the files that the menu is made of, and how the kernel's command line is read: of a parameter
that is given several times most have their last value, and ``-`` and ``_`` in names are the same
(Linux Documentation/admin-guide/kernel-parameters.rst).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.bls import parse_bls, sort_bls
from hfprov.evidence.grub_config import (
    Choice,
    Entry,
    Menu,
    default_choice,
    parse_environment,
    parse_grub_cfg,
    split_words,
)
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Result, Source, complete_text, file, glob
from hfprov.regex import regex

CONFIGURATIONS = (
    file("/boot/grub/grub.cfg", limit=1 << 20),
    file("/boot/grub2/grub.cfg", limit=1 << 20),
)
ENVIRONMENTS = (file("/boot/grub/grubenv", limit=4096), file("/boot/grub2/grubenv", limit=4096))
BLS_ENTRIES = glob("/boot/loader/entries/*.conf")
CUSTOM = (file("/boot/grub/custom.cfg"), file("/boot/grub2/custom.cfg"))
DEFAULTS = file("/etc/default/grub")
DROP_INS = glob("/etc/default/grub.d/*.cfg")
# What a loader or an installer adds, and no configuration says.
_ADDED = ("BOOT_IMAGE", "initrd", "vt.handoff")
_ASSIGNMENT = regex(r"^[ \t]*(?:export[ \t]+)?(GRUB_[A-Z_]+)(\+?)=(.*)$", re.MULTILINE)


class BootLoader(Struct, frozen=True):
    """GRUB as it will find itself at the next boot."""

    menu: Menu
    environment: Mapping[str, str]
    customs: tuple[str, ...]
    """Files of a person's own that the menu reads, which set a default of their own."""

    @property
    def default(self) -> Choice:
        """The entry that boots whenever nobody asks for another."""
        return default_choice(self.menu, self.environment)

    @property
    def next(self) -> Choice:
        """The entry that boots next: another than the default one if that was asked for once."""
        return default_choice(self.menu, self.environment, once=True)

    def of_release(self, release: str) -> Entry | None:
        """The entry of a kernel that is named by its release, not by its place, and no rescue."""
        found = [one for one in self.menu.entries if one.release == release]
        named = [
            one
            for one in found
            if release in one.path and not {"single", "recovery"} & set(one.arguments)
        ]
        return next(iter(named or found), None)


def _parse_loader(seen: Observation, _: Baseline) -> BootLoader:
    texts = [seen.text(one) for one in CONFIGURATIONS if seen.exists(one)]
    if not texts:
        raise NoEvidenceError("The node has no 'grub.cfg': it is booted by something else.")
    environment: dict[str, str] = {}
    for one in ENVIRONMENTS:
        if seen.exists(one):
            environment |= parse_environment(seen.text(one))
    menu = parse_grub_cfg(texts[0])
    if menu.uses_bls:
        found = [
            parse_bls(_stem(result), complete_text(BLS_ENTRIES, result), environment)
            for result in seen.each(BLS_ENTRIES)
        ]
        menu = Menu((*sort_bls(found), *menu.entries), menu.default, uses_bls=True)
    customs = tuple(
        str(one.request["path"])
        for one in CUSTOM
        if seen.exists(one) and re.search(r"\bset default=", seen.text(one))
    )
    return BootLoader(menu, environment, customs)


def _stem(result: Result) -> str:
    return result.name.rpartition("/")[2].removesuffix(".conf")


LOADER: Source[BootLoader] = Source(
    "boot loader",
    lambda _: (*CONFIGURATIONS, *ENVIRONMENTS, BLS_ENTRIES, *CUSTOM),
    _parse_loader,
)


class Assignment(Struct, frozen=True):
    """One assignment of a shell file that grub-mkconfig reads."""

    name: str
    value: str
    path: str
    keeps: bool
    """Whether it builds on the value that was there before."""
    appends: bool = False
    """Written with ``+=``."""


class GrubDefaults(Struct, frozen=True):
    """The settings that the menu is made of, in the order in which they are read."""

    assignments: tuple[Assignment, ...]
    results: Mapping[str, Result]

    def after(self, path: str) -> tuple[Assignment, ...]:
        """What files say that are read after one of ``grub.d``."""
        return tuple(
            one
            for one in self.assignments
            if one.path.startswith("/etc/default/grub.d/") and one.path > path
        )


def parse_assignments(text: str, path: str) -> tuple[Assignment, ...]:
    """Assignments of GRUB's variables; conditions around them are passed over."""
    found = []
    for name, plus, raw in _ASSIGNMENT.findall(clean(text).replace("\\\n", "")):
        value = raw.strip()
        quote = value[:1] if value[:1] in ("'", '"') else ""
        if quote and quote in value[1:]:
            value = value[1 : value.index(quote, 1)] if quote == "'" else _double(value)
        elif not quote:
            value = value.split("#")[0].strip()
        keeps = bool(plus) or re.search(rf"\$\{{?{name}\b", value) is not None
        found.append(Assignment(name, value, path, keeps, bool(plus)))
    return tuple(found)


def _double(value: str) -> str:
    match = re.match(r'"((?:[^"\\]|\\.)*)"', value)
    return match[1] if match else value


def _parse_defaults(seen: Observation, _: Baseline) -> GrubDefaults:
    results = {}
    if seen.exists(DEFAULTS):
        results["/etc/default/grub"] = seen.one(DEFAULTS)
    results |= {one.name: one for one in seen.each(DROP_INS)}
    assignments = [
        one
        for path, result in results.items()
        if result.type == "file"
        for one in parse_assignments(complete_text(DROP_INS, result), path)
    ]
    return GrubDefaults(tuple(assignments), results)


GRUB_DEFAULTS: Source[GrubDefaults] = Source(
    "settings of the boot menu", lambda _: (DEFAULTS, DROP_INS), _parse_defaults
)


def made_of(defaults: GrubDefaults) -> list[str]:
    """Words that the settings put at the end of the default entry, as grub-mkconfig(8) would.

    Empty where that cannot be foretold: a value of the shell's own making, such as ``$(…)``.
    """
    values: dict[str, str] = {}
    for one in defaults.assignments:
        value = re.sub(r"\$\{?(GRUB_[A-Z_]+)\}?", lambda match: values.get(match[1], ""), one.value)
        if "$" in value or "`" in value:
            return []
        values[one.name] = values.get(one.name, "") + value if one.appends else value
    names = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
    return " ".join(values.get(name, "") for name in names).split()


def name_of(parameter: str) -> str:
    return parameter.partition("=")[0].replace("-", "_")


def missing_parameters(declared: Sequence[str], words: Iterable[str]) -> tuple[str, ...]:
    """The declared parameters that a command line does not have, or that a later one overrides.

    Several of one name (``hugepagesz=1G hugepages=8 hugepagesz=2M …``) must be the last ones of
    that name, in their order. Words after ``--`` are for init and not for the kernel.
    """
    line = list(words)
    for end in ("--", "---"):
        if end in line:
            line = line[: line.index(end)]
    bad = []
    for name in dict.fromkeys(map(name_of, declared)):
        wanted = [one for one in declared if name_of(one) == name]
        found = [_normal(one) for one in line if name_of(one) == name]
        if found[-len(wanted) :] != [_normal(one) for one in wanted]:
            bad += wanted
    return tuple(bad)


def _normal(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    return name.replace("-", "_") + equals + value.strip('"')


def command_line_words(text: str) -> tuple[str, ...]:
    """Words of ``/proc/cmdline`` without those that the loader adds. Raises NotUnderstoodError."""
    words = split_words(clean(text))
    if not words:
        raise NotUnderstoodError("The kernel's command line is empty.")
    return tuple(one for one in words if name_of(one) not in _ADDED)


def booted_difference(running: Sequence[str], entry: Entry) -> tuple[list[str], list[str]]:
    """Words that only the running kernel has, and that only an entry has.

    Variables of GRUB that are only known while it runs (``$vt_handoff``) are passed over.
    """
    wanted = [_normal(one) for one in entry.arguments if "$" not in one]
    wanted = [one for one in wanted if name_of(one) not in _ADDED]
    has = [_normal(one) for one in running]
    return [one for one in has if one not in wanted], [one for one in wanted if one not in has]
