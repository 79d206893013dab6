"""Which RDMA stack a node has: the distribution's, the vendor's, or parts of both.

The vendor builds rdma-core itself and marks its version (``2410mlnx54-1.2410068``); its kernel
modules come in packages of their own, and with them ``mlx_compat``, which no distribution has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.dpkg_query import one_query
from hfprov.evidence.modprobe import LOADED_MODULES
from hfprov.evidence.package_facts import Manager
from hfprov.evidence.system import MACHINE, Machine
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, command, file
from hfprov.regex import regex

DEBIAN = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "iproute2", "kmod", "pciutils")
EL = ("rdma-core", "libibverbs", "libibverbs-utils", "iproute", "kmod", "pciutils")
"""Packages of the distribution's stack, with the tools that set and show it."""
USER_SPACE = frozenset(
    {"rdma-core", "ibverbs-providers", "libibverbs", "libibverbs1"}
    | {"librdmacm", "librdmacm1", "librdmacm1t64"}
)
VENDOR_KERNEL = regex(r"mlnx-ofed-kernel|mlnx-ofa_kernel|kmod-mlnx-ofa_kernel")
VENDOR_MODULE = "mlx_compat"
_PATTERNS = (
    *sorted(USER_SPACE | set(DEBIAN) | set(EL)),
    "mlnx-ofed-kernel*",
    "mlnx-ofa_kernel*",
    "kmod-mlnx-ofa_kernel*",
)


class Stack(StrEnum):
    """Who built it."""

    INBOX = "inbox"
    VENDOR = "vendor"


class Packages(Struct, frozen=True):
    """Installed packages that have to do with RDMA: version by name."""

    manager: Manager
    versions: Mapping[str, str]
    unfinished: Mapping[str, str]
    """State by name, of packages whose installation did not end."""


def stack_of(name: str, version: str) -> Stack | None:
    """Whose stack a package is a part of; None for one that goes with either."""
    if name in USER_SPACE:
        return Stack.VENDOR if "mlnx" in version.lower() else Stack.INBOX
    return Stack.VENDOR if VENDOR_KERNEL.match(name) else None


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    extra = tuple(map(str, baseline.get("rdma_vendor_packages", ())))
    names = tuple(dict.fromkeys((*_PATTERNS, *extra)))
    debian = "${Package} ${Version} ${db:Status-Status}\\n"
    el = "%{NAME} %{VERSION}-%{RELEASE} installed\\n"
    return (
        one_query(command("dpkg-query", "--show", f"--showformat={debian}", "--", *names)),
        command("rpm", "--query", "--all", f"--queryformat={el}", *names),
    )


def parse_packages(text: str, manager: Manager) -> Packages:
    """From lines ``name version state``. dpkg shows a name that it only knows without version."""
    versions, unfinished = {}, {}
    for line in clean(text).splitlines():
        words = line.split()
        if len(words) == 2 and words[1] in ("not-installed", "config-files"):
            continue
        if len(words) != 3 or not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", words[0]):
            raise NotUnderstoodError(f"'{excerpt(line)}' is not the state of a package.")
        name, version, state = words
        if state == "installed":
            versions[name] = version
        elif state not in ("not-installed", "config-files"):
            unfinished[name] = state
    return Packages(manager, versions, unfinished)


def _parse(seen: Observation, baseline: Baseline) -> Packages:
    dpkg, rpm = _reads(baseline)
    if seen.one(dpkg).status != "absent":
        # It ends with 1 when one of the names is not known, and prints the others.
        return parse_packages(seen.text(dpkg, codes=(0, 1)), Manager.DPKG)
    return parse_packages(seen.text(rpm), Manager.RPM)


PACKAGES: Source[Packages] = Source("packages of RDMA", _reads, _parse)


def _halves(seen: Observation, baseline: Baseline) -> Mapping[Stack, tuple[str, ...]]:
    found: dict[Stack, list[str]] = {Stack.INBOX: [], Stack.VENDOR: []}
    for name, version in sorted(_parse(seen, baseline).versions.items()):
        stack = stack_of(name, version)
        if stack:
            found[stack].append(name)
    in_container = MACHINE.parse(seen, baseline) is Machine.CONTAINER
    if not in_container and VENDOR_MODULE in LOADED_MODULES.parse(seen, baseline):
        found[Stack.VENDOR].append(f"the loaded module {VENDOR_MODULE}")
    return {stack: tuple(names) for stack, names in found.items()}


HALVES: Source[Mapping[Stack, tuple[str, ...]]] = Source(
    "parts of RDMA stacks",
    lambda baseline: (*_reads(baseline), *MACHINE.reads(baseline), *LOADED_MODULES.reads(baseline)),
    _halves,
)
"""What the node has of each stack, by name; the loaded module where the kernel is its own."""

REPOSITORY_FILES = (
    file("/etc/apt/sources.list.d/hfprov-rdma.sources"),
    file("/etc/yum.repos.d/hfprov-rdma.repo"),
)
KEY_FILE = file("/etc/pki/rpm-gpg/RPM-GPG-KEY-hfprov-rdma")
REPOSITORY: Source[Mapping[str, Result]] = Source(
    "repository of the vendor's RDMA stack",
    lambda _: (*REPOSITORY_FILES, KEY_FILE),
    lambda seen, _: {
        result.name: result
        for result in map(seen.one, (*REPOSITORY_FILES, KEY_FILE))
        if result.status != "absent"
    },
)
"""The files that are there, by path."""
