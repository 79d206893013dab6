"""``flint``/``mstflint … query`` (``q``): firmware of one NVIDIA adapter, stored and running.

The tool prints ``FW Version(Running)`` only while the stored firmware is not the running one.
"""

from __future__ import annotations

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import empty, numbered, value_or_none
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class RomImage(Struct, frozen=True):
    """One expansion ROM in the image: ``UEFI``, ``PXE``, ``UEFI Virtio net``."""

    type: str
    version: str


class Firmware(Struct, frozen=True):
    """What is in the flash, and what runs."""

    image_type: str | None
    stored_version: str
    running_version: str | None
    """None: the tool did not print it. It then runs what is stored, if the output is whole."""
    psid: str | None
    """None when the output ends before it; a cut output says nothing about what runs."""
    release_date: str | None = None
    product_version: str | None = None
    part_number: str | None = None
    description: str | None = None
    base_guid: str | None = None
    base_mac: str | None = None
    security: tuple[str, ...] = ()
    """``secure-fw``, ``dev``, …"""
    life_cycle: str | None = None
    secure_boot: str | None = None
    roms: tuple[RomImage, ...] = ()

    @property
    def reset_pending(self) -> bool | None:
        """Whether the stored firmware waits for a reset; None when the output does not tell."""
        if self.running_version is not None:
            return self.running_version != self.stored_version
        return False if self.psid is not None else None


_PAIR = regex(r"(?P<key>[A-Z][A-Za-z0-9 ()]*?):\s*(?P<value>.*)")
_ROM = regex(r"type=(?P<type>[A-Za-z ]+?) version=(?P<version>[0-9.]+).*")
_VERSION = regex(r"[0-9]+(?:\.[0-9]+){2,3}(?:-\S+)?")
_ERROR = regex(r"-E- (?P<message>.*)")
_PASSED_OVER = regex(r"-[IW]- .*|\S{1,80}[#$](?: .*)?")
"""Remarks of the tool, and the prompt of a shell in a transcript."""


def parse(text: str) -> Firmware:
    """Facts of one query. Raises NotUnderstoodError with the tool's own ``-E-`` message, if any."""
    return parse_lines([line.strip() for _, line in numbered(text)])


def parse_lines(lines: list[str]) -> Firmware:
    """As :func:`parse`, from stripped lines; what precedes the first property is passed over."""
    if not lines:
        raise empty("flint")
    pairs: dict[str, str] = {}
    roms: list[RomImage] = []
    for line in lines:
        error = _ERROR.fullmatch(line)
        if error is not None:
            raise NotUnderstoodError(f"flint: '{excerpt(error['message'])}'.")
        if _PASSED_OVER.fullmatch(line):
            continue
        pair = _PAIR.fullmatch(line)
        rom = _ROM.fullmatch(pair["value"] if pair and pair["key"] == "Rom Info" else line)
        if rom is not None:
            roms.append(RomImage(rom["type"], rom["version"]))
        elif pair is not None:
            key = pair["key"]
            # 'Description' comes twice: of the card, then as the heading of the GUID table
            # ('UID', or 'Node' for ConnectX-3 and older).
            if not pair["value"].startswith(("UID ", "Node ")):
                pairs.setdefault(key, pair["value"])
        elif pairs:
            raise NotUnderstoodError(f"flint: '{excerpt(line)}' is no property of the firmware.")
    return _facts(pairs, tuple(roms))


def _facts(pairs: dict[str, str], roms: tuple[RomImage, ...]) -> Firmware:
    stored = pairs.get("FW Version", "")
    running = pairs.get("FW Version(Running)", pairs.get("FW Version (Running)"))
    for version in (stored, running or stored):
        if _VERSION.fullmatch(version) is None:
            raise NotUnderstoodError(
                f"flint: the firmware version '{excerpt(version)}' is no version."
            )
    security = value_or_none(pairs.get("Security Attributes", ""))
    return Firmware(
        value_or_none(pairs.get("Image type", "")),
        stored,
        running,
        value_or_none(pairs.get("PSID", "")),
        release_date=value_or_none(pairs.get("FW Release Date", "")),
        product_version=value_or_none(pairs.get("Product Version", "")),
        part_number=value_or_none(pairs.get("Part Number", "")),
        description=value_or_none(pairs.get("Description", "")),
        base_guid=_first_word(pairs.get("Base GUID")),
        base_mac=_first_word(pairs.get("Base MAC")),
        security=tuple(part.strip() for part in security.split(",")) if security else (),
        life_cycle=value_or_none(pairs.get("Life cycle", "")),
        secure_boot=value_or_none(pairs.get("Secure Boot Capable", "")),
        roms=roms,
    )


def _first_word(value: str | None) -> str | None:
    words = value.split() if value else []
    return value_or_none(words[0]) if words else None
