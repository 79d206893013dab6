"""Which machine answered: what identifies it, and when two names lead to the same one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from hfprov.regex import regex

_PLACEHOLDERS = frozenset(
    {
        "", "0", "n/a", "na", "none", "null", "nil", "oem", "empty", "unknown", "invalid",
        "undefined", "unspecified", "not specified", "not available", "not applicable",
        "not settable", "not present", "default", "default string", "system serial number",
        "chassis serial number", "base board serial number", "serial number", "no serial number",
        "to be filled by o.e.m", "to be filled by oem", "o.e.m", "123456789", "1234567890",
        "0123456789", "uninitialized",
        # Product UUIDs that boards of many makers ship with, in both byte orders.
        "03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009",
        "12345678-1234-5678-90ab-cddeefaabbcc",
    }
)  # fmt: skip
_NOT_ALNUM = regex(r"[^0-9a-z]")


def meaningful(value: str) -> bool:
    """Whether a firmware string says anything: firmware is full of "To be filled by O.E.M."."""
    plain = " ".join(value.casefold().split()).rstrip(".")
    # All zeros, all Fs, "XXXX": nothing but one character.
    return plain not in _PLACEHOLDERS and len(set(_NOT_ALNUM.sub("", plain))) > 1


@dataclass(frozen=True, slots=True)
class Identity:
    """What a machine says of itself, as read from it. An empty string is "could not be read"."""

    machine_id: str = ""
    """``/etc/machine-id``: one installation of an operating system."""
    product_uuid: str = ""
    """``/sys/class/dmi/id/product_uuid``: one main board; containers see their host's."""
    serial: str = ""
    """``/sys/class/dmi/id/product_serial``; blades of one chassis may share it."""

    @property
    def known(self) -> Identity:
        """The parts that mean something, in one spelling."""
        return Identity(
            *(_plain(part) for part in (self.machine_id, self.product_uuid, self.serial))
        )

    @property
    def digest(self) -> str:
        """SHA-256 over the parts that mean something; empty when nothing identifies the machine.

        A serial number alone identifies nothing.
        """
        known = self.known
        if not known.machine_id and not known.product_uuid:
            return ""
        text = f"{known.machine_id}\n{known.product_uuid}\n{known.serial}"
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()

    def conflict(self, other: Identity) -> str:
        """The first part that both know and that differs, in words; empty when there is none."""
        mine, theirs = self.known, other.known
        for label, one, two in (
            ("machine-id", mine.machine_id, theirs.machine_id),
            ("product UUID", mine.product_uuid, theirs.product_uuid),
            ("serial number", mine.serial, theirs.serial),
        ):
            if one and two and one != two:
                return label
        return ""

    def same_machine(self, other: Identity) -> str:
        """The part by which both are surely one machine, in words; empty when they are not.

        A part that differs proves two machines, so cloned images (same machine-id, other board) and
        containers (same board, other machine-id) are two.
        """
        mine, theirs = self.known, other.known
        if self.conflict(other):
            return ""
        if mine.machine_id and mine.machine_id == theirs.machine_id:
            return f"machine-id {mine.machine_id}"
        if mine.product_uuid and mine.product_uuid == theirs.product_uuid:
            return f"product UUID {mine.product_uuid}"
        return ""

    def completed_by(self, earlier: Identity) -> Identity:
        """The same, with what could not be read this time taken from an earlier look."""
        return Identity(
            self.machine_id or earlier.machine_id,
            self.product_uuid or earlier.product_uuid,
            self.serial or earlier.serial,
        )


def _plain(value: str) -> str:
    return value.strip().casefold() if meaningful(value) else ""
