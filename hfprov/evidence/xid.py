"""NVIDIA's Xid and SXid: reading them out of a kernel message, and what the codes mean.

The catalogue is ``hfprov/catalogue/xid.yml``; its rows name their source and the day they were
checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any

from msgspec import Struct

from hfprov.catalogue.data import catalogue
from hfprov.evidence.nvidia_smi.values import find_pci_address
from hfprov.regex import regex


class Severity(Enum):
    """How bad an event is for the node, as a hint to whoever judges it."""

    FATAL = "fatal"
    """Hardware, driver or system failed: do not use the node until it was looked at."""
    WARN = "warn"
    """Look at it; may be an application's doing, or a sign of what comes."""
    INFO = "info"
    UNKNOWN = "unknown"
    """Not in the catalogue. Never to be taken for harmless."""


class XidEntry(Struct, frozen=True):
    """A row of the catalogue."""

    code: int
    name: str
    meaning: str
    severity: Severity
    action: str = ""
    """NVIDIA's resolution bucket, e.g. ``RESET_GPU``."""
    follow_up: str = ""
    azure_gate: bool = False
    verified: bool = False
    source: str = ""
    checked_on: str = ""


class Xid(Struct, frozen=True):
    """One Xid in the kernel log."""

    code: int
    pci_address: str
    """As ``0000:9b:00.0``; empty when the message has none."""
    pid: int | None
    process: str
    message: str
    severity: Severity
    recovery_action: str = ""
    """Of an Xid 154: what the driver now asks for, e.g. ``GPU Reset Required``."""


class Sxid(Struct, frozen=True):
    """One NVSwitch error in the kernel log."""

    code: int
    pci_address: str
    switch: str
    """``nvidia-nvswitch0``; empty when the message does not say."""
    link: int | None
    message: str
    severity: Severity
    data: bool = False
    """Whether this is the line of register values that follows the error."""


# The code follows the address; logs retold by people have it before. Old drivers omit "PCI:".
_XID = regex(
    r"\bXid(?: (\d{1,9}))? \((?:PCI:)?([0-9A-Fa-f:.]{7,20}|[^)\s]{0,60})"
    r"(?: GPU-C?I:[0-9A-Za-z]{1,6}){0,2}\): ?(?:(\d{1,9})\b,? ?)?"
)
_SXID = regex(
    r"(?:(nvidia-nvswitch\d+): )?\bSXid \((?:PCI:)?([0-9A-Fa-f:.]{7,20})\): ?(\d{1,9})\b,? ?"
)
_PID = regex(
    r"pid='?([^,']{0,40})'?(?:, ?|$)(?:name='?([^,']{0,200})'?(?:, ?|$))?"
    r"|name='?([^,']{0,200})'?(?:, ?|$)"
)
_LINK = regex(r"\bLink (\d{1,4})\b")
_RECOVERY = regex(r"recovery action changed from .{0,80}? to 0x[0-9a-fA-F]+ \(([^)]{0,80})\)")
_NO_ACTION = "none"
_RECOVERY_CHANGED = 154


def find_xids(message: str) -> Iterator[Xid]:
    """Each Xid in one kernel message; lines that were glued together have several."""
    matches = [match for match in _XID.finditer(message) if match.group(1) or match.group(3)]
    ends = [match.start() for match in matches[1:]] + [len(message)] * bool(matches)
    for match, end in zip(matches, ends, strict=True):
        code = int(match.group(1) or match.group(3))
        rest = message[match.end() : end].strip()
        pid = _PID.match(rest)
        if pid:
            rest = rest[pid.end() :]
        yield Xid(
            code=code,
            pci_address=find_pci_address(match.group(2)),
            pid=_pid(pid.group(1)) if pid and pid.group(1) else None,
            process=_known(pid.group(2) or pid.group(3)) if pid else "",
            message=rest[:2000],
            severity=_xid_severity(code, rest),
            recovery_action=_recovery(code, rest),
        )


def find_sxid(message: str) -> Sxid | None:
    """The NVSwitch error in one kernel message, if there is one."""
    match = _SXID.search(message)
    if match is None:
        return None
    code = int(match.group(3))
    rest = message[match.end() :].strip()
    link = _LINK.search(rest)
    data = rest.startswith("Data {")
    return Sxid(
        code=code,
        pci_address=find_pci_address(match.group(2)),
        switch=match.group(1) or "",
        link=int(link.group(1)) if link else None,
        message=rest[:2000],
        severity=Severity.INFO if data else _stated(rest) or _listed(sxid_catalogue(), code),
        data=data,
    )


def _pid(text: str) -> int | None:
    text = text.strip()
    return int(text[:18]) if text.isascii() and text.isdigit() else None


def _known(name: str | None) -> str:
    return "" if not name or name.strip() == "<unknown>" else name.strip()


def _recovery(code: int, rest: str) -> str:
    match = _RECOVERY.search(rest) if code == _RECOVERY_CHANGED else None
    return match.group(1) if match else ""


def _xid_severity(code: int, rest: str) -> Severity:
    if code == _RECOVERY_CHANGED:
        action = _recovery(code, rest)
        if action.lower() == _NO_ACTION:
            return Severity.INFO
        return Severity.FATAL if action else Severity.WARN
    listed = _listed(xid_catalogue(), code)
    stated = _stated(rest)
    # The NVLink 5 errors say themselves whether they are fatal; for others it only makes it worse.
    if stated is Severity.FATAL or (stated is not None and "NVLINK" in _name(code)):
        return stated
    return listed


def _stated(rest: str) -> Severity | None:
    """Severity as the message itself states it in its first words."""
    head = rest[:80]
    if re.search(r"\bNon-?fatal\b", head, re.IGNORECASE):
        return Severity.WARN
    return Severity.FATAL if re.search(r"(?:^|[ ,])Fatal\b", head) else None


def _name(code: int) -> str:
    entry = xid_catalogue().get(code)
    return entry.name if entry else ""


def _listed(catalogue: Mapping[int, XidEntry], code: int) -> Severity:
    entry = catalogue.get(code)
    return entry.severity if entry else Severity.UNKNOWN


@cache
def _document() -> Mapping[str, Any]:
    document: Mapping[str, Any] = catalogue("xid.yml")
    return document


@cache
def xid_catalogue() -> Mapping[int, XidEntry]:
    """Xid codes of GPUs."""
    return _entries("xid")


@cache
def sxid_catalogue() -> Mapping[int, XidEntry]:
    """SXid codes of NVSwitches."""
    return _entries("sxid")


def _entries(kind: str) -> Mapping[int, XidEntry]:
    return {
        row["code"]: XidEntry(
            code=row["code"],
            name=row["name"],
            meaning=row["meaning"],
            severity=Severity(row["severity"]),
            action=row.get("action", ""),
            follow_up=row.get("follow_up", ""),
            azure_gate=row.get("azure_gate", False),
            verified=row["verified"],
            source=row["source"],
            checked_on=str(row["checked_on"]),
        )
        for row in _document()[kind]
    }
