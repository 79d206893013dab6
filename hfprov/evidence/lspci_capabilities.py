"""The indented lines of ``lspci -v…``: driver, NUMA node, link, payload, ACS and AER flags.

Layouts from pciutils 3.1 to 3.13 (``ls-caps.c`` and ``ls-ecaps.c``): marks behind speed and width
since 3.6, AER flags over several lines since 3.13, tabs that some scripts turn into blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import natural
from hfprov.evidence.lspci_facts import ErrorReporting, Express
from hfprov.evidence.pcie import Link, parse_speed, parse_width
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_LINK = regex(
    r"Speed (unknown|<unknown>|[0-9.]+ ?GT/s)(?: \(([a-z]+)\))?, "
    r"Width (x[0-9]+|unknown)(?: \(([a-z]+)\))?(?=,|$)",
    re.IGNORECASE,
)
_PAYLOAD = regex(r"MaxPayload ([0-9]{1,5}) bytes(?:, MaxReadReq ([0-9]{1,5}) bytes)?")
_IDS = regex(r"(.*)\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_PROBLEMS = ("access denied", "!!!", "unreadable", "failed to read", "chain looping", "<unreadable")

_CORRECTABLE_NEEDED = frozenset({"RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout"})
_UNCORRECTABLE_NEEDED = frozenset({"DLP", "TLP", "CmpltTO", "MalfTLP", "UnsupReq"})
_ERROR_FLAGS = ("CorrErr", "NonFatalErr", "FatalErr", "UnsupReq")


class Capabilities:
    """Collects what the indented lines of one device say."""

    __slots__ = (
        "_aer_open",
        "_context",
        "access_control",
        "capable",
        "correctable",
        "device_status",
        "driver",
        "has_express",
        "iommu_group",
        "lane_errors",
        "max_payload",
        "max_payload_capable",
        "max_read_request",
        "modules",
        "numa_node",
        "physical_slot",
        "problems",
        "root",
        "speed_mark",
        "status",
        "subsystem",
        "subsystem_ids",
        "uncorrectable",
        "width_mark",
    )

    def __init__(self) -> None:
        self.driver: str | None = None
        self.modules: tuple[str, ...] = ()
        self.numa_node: int | None = None
        self.iommu_group: int | None = None
        self.physical_slot: str | None = None
        self.subsystem: str | None = None
        self.subsystem_ids: tuple[str | None, str | None] = (None, None)
        self.has_express = False
        self.capable: Link | None = None
        self.status: Link | None = None
        self.speed_mark = ""
        self.width_mark = ""
        self.max_payload_capable: int | None = None
        self.max_payload: int | None = None
        self.max_read_request: int | None = None
        self.device_status: tuple[str, ...] = ()
        self.access_control: tuple[str, ...] | None = None
        self.uncorrectable: list[tuple[str, str]] = []
        self.correctable: list[tuple[str, str]] = []
        self.root: tuple[str, ...] = ()
        self.lane_errors: tuple[int, ...] = ()
        self.problems: list[str] = []
        self._context = ""
        self._aer_open: list[tuple[str, str]] | None = None

    def feed(self, line: str) -> bool:
        """Take one line without its indentation. False if nothing in it is of interest."""
        key, colon, rest = line.partition(":")
        handler = self._HANDLERS.get(key)
        if handler is not None and colon:
            self._context = key
            self._aer_open = None
            handler(self, rest.strip())
            return True
        if self._aer_open is not None and not colon and line[-1:] in "+-":
            self._aer_open.extend(_flags(line))
            return True
        self._aer_open = None
        if self._context == "DevCtl" and line.startswith("MaxPayload "):
            self._payload(line)
            return True
        if colon and key[-1:] not in "+-":
            self._context = ""
        if line[0] in "!C<" and any(word in line for word in _PROBLEMS):
            self.problems.append(excerpt(line, 120))
            return True
        return False

    def express(self) -> Express | None:
        """The PCI Express capability, if any line of it was seen."""
        if not self.has_express:
            return None
        return Express(
            capable=self.capable,
            status=self.status,
            speed_mark=self.speed_mark,
            width_mark=self.width_mark,
            max_payload_capable_bytes=self.max_payload_capable,
            max_payload_bytes=self.max_payload,
            max_read_request_bytes=self.max_read_request,
            device_status=self.device_status,
        )

    def error_reporting(self) -> ErrorReporting | None:
        """The AER capability, if both its status lines are there in full."""
        if not self.uncorrectable and not self.correctable:
            return None
        return ErrorReporting(
            uncorrectable=_set_flags("UESta", self.uncorrectable, _UNCORRECTABLE_NEEDED),
            correctable=_set_flags("CESta", self.correctable, _CORRECTABLE_NEEDED),
            root=self.root,
        )

    # -- one method for each line of interest -------------------------------------------------

    def _driver(self, rest: str) -> None:
        self.driver = rest or None

    def _modules(self, rest: str) -> None:
        self.modules = tuple(name.strip() for name in rest.split(",") if name.strip())

    def _numa(self, rest: str) -> None:
        self.numa_node = natural(rest, "The NUMA node of a PCI device")

    def _iommu(self, rest: str) -> None:
        self.iommu_group = natural(rest, "The IOMMU group of a PCI device")

    def _slot(self, rest: str) -> None:
        self.physical_slot = rest

    def _subsystem(self, rest: str) -> None:
        match = _IDS.fullmatch(rest)
        if match:
            self.subsystem = match.group(1).strip()
            self.subsystem_ids = (match.group(2), match.group(3))
        else:
            self.subsystem = rest

    def _link_capability(self, rest: str) -> None:
        self.capable = _link("LnkCap", rest)[0]
        self.has_express = True

    def _link_status(self, rest: str) -> None:
        self.status, self.speed_mark, self.width_mark = _link("LnkSta", rest)
        self.has_express = True

    def _device_capability(self, rest: str) -> None:
        self.has_express = True
        match = _PAYLOAD.match(rest)
        if match:
            self.max_payload_capable = int(match.group(1))

    def _device_control(self, _rest: str) -> None:
        # The payload sizes follow on a line of their own.
        self.has_express = True

    def _payload(self, line: str) -> None:
        match = _PAYLOAD.match(line)
        if match is None or match.group(2) is None:
            raise NotUnderstoodError(
                f"'{excerpt(line)}' should give MaxPayload and MaxReadReq in bytes."
            )
        self.max_payload = int(match.group(1))
        self.max_read_request = int(match.group(2))

    def _device_status(self, rest: str) -> None:
        self.has_express = True
        flags = _flags(rest)
        # pciutils before 3.1 writes "UncorrErr" for what is "NonFatalErr" now.
        names = {"UncorrErr": "NonFatalErr"}
        self.device_status = tuple(
            names.get(name, name)
            for name, sign in flags
            if sign == "+" and names.get(name, name) in _ERROR_FLAGS
        )

    def _access_control(self, rest: str) -> None:
        self.access_control = tuple(name for name, sign in _flags(rest) if sign == "+")

    def _uncorrectable(self, rest: str) -> None:
        self.uncorrectable = _flags(rest)
        self._aer_open = self.uncorrectable

    def _correctable(self, rest: str) -> None:
        self.correctable = _flags(rest)
        self._aer_open = self.correctable

    def _root_status(self, rest: str) -> None:
        # The Express capability has a line of this name as well ("PME ReqID 0000, …").
        if not rest.startswith("PME"):
            self.root = tuple(name for name, sign in _flags(rest) if sign == "+")

    def _lanes(self, rest: str) -> None:
        if rest == "0":
            return
        lanes = rest.removeprefix("LaneErr at lane:").split()
        self.lane_errors = tuple(natural(lane, "A lane in LaneErrStat") for lane in lanes)

    _HANDLERS: ClassVar[dict[str, Callable[[Capabilities, str], None]]] = {
        "ACSCtl": _access_control,
        "CESta": _correctable,
        "DevCap": _device_capability,
        "DevCtl": _device_control,
        "DevSta": _device_status,
        "IOMMU group": _iommu,
        "Kernel driver in use": _driver,
        "Kernel modules": _modules,
        "LaneErrStat": _lanes,
        "LnkCap": _link_capability,
        "LnkSta": _link_status,
        "NUMA node": _numa,
        "Physical Slot": _slot,
        "RootSta": _root_status,
        "Subsystem": _subsystem,
        "UESta": _uncorrectable,
    }


def _link(name: str, rest: str) -> tuple[Link, str, str]:
    match = _LINK.search(rest)
    if match is None:
        raise NotUnderstoodError(
            f"'{name}: {excerpt(rest)}' should give the speed and width of a link."
        )
    speed, speed_mark, width, width_mark = match.groups()
    return Link(parse_speed(speed), parse_width(width)), speed_mark or "", width_mark or ""


def _flags(rest: str) -> list[tuple[str, str]]:
    """``CorrErr+ NonFatalErr-`` as pairs. A word without its sign is a line that was cut off."""
    flags: list[tuple[str, str]] = []
    for word in rest.split():
        if word[-1] not in "+-" or len(word) == 1:
            raise NotUnderstoodError(f"'{excerpt(word, 40)}' should be a flag ending in + or -.")
        flags.append((word[:-1], word[-1]))
    return flags


def _set_flags(name: str, flags: list[tuple[str, str]], needed: frozenset[str]) -> tuple[str, ...]:
    missing = needed - {flag for flag, _ in flags}
    if missing:
        raise NotUnderstoodError(
            f"The line {name} of a device does not show {', '.join(sorted(missing))}: cut off?"
        )
    return tuple(flag for flag, sign in flags if sign == "+")
