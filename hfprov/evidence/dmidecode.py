"""What the firmware says about the machine: dmidecode.

``parse`` gives every structure (handle, type, fields) and typed facts on system, board, BIOS,
processors, memory modules, power supplies and TPM. Layouts: dmidecode 2.11 to 3.6, whole or with
``-t``. Names that nobody filled in ("To Be Filled By O.E.M.") are None, and are listed.
"""

from __future__ import annotations

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.dmidecode_structures import Structure, read_structures
from hfprov.evidence.host_values import is_placeholder, natural, real, unknown_form
from hfprov.evidence.text import clean, excerpt, is_missing
from hfprov.regex import regex

_BIOS, _SYSTEM, _BOARD, _CHASSIS, _PROCESSOR, _MEMORY, _POWER, _TPM = 0, 1, 2, 3, 4, 17, 39, 43
_UNITS = {"kB": 1 / 1024, "KB": 1 / 1024, "MB": 1, "GB": 1024, "TB": 1024 * 1024, "bytes": 2**-20}
_UNITS.update({"KiB": 1 / 1024, "MiB": 1, "GiB": 1024, "TiB": 1024 * 1024})
_OLD_HANDLE = regex(r"(?m)^Handle 0x[0-9A-Fa-f]{4}\s*\n\s+DMI type ")


class Bios(Struct, frozen=True):
    """DMI type 0."""

    vendor: str | None
    version: str | None
    release_date: str | None


class Part(Struct, frozen=True):
    """A named part with a serial number: system (type 1), board (2) or chassis (3)."""

    manufacturer: str | None
    product: str | None
    version: str | None
    serial: str | None
    uuid: str | None
    """Of the system only, in lower case."""
    asset_tag: str | None
    placeholders: tuple[str, ...]
    """Fields that hold what the vendor left there: they identify nothing."""


class Processor(Struct, frozen=True):
    """DMI type 4: one socket."""

    socket: str
    version: str | None
    manufacturer: str | None
    populated: bool
    enabled: bool
    status: str
    cores: int | None
    cores_enabled: int | None
    threads: int | None
    max_mhz: int | None


class MemoryDevice(Struct, frozen=True):
    """DMI type 17: one slot. Speeds in MT/s; None: unknown, or an empty slot."""

    locator: str
    bank: str | None
    size_mib: int | None
    """None for an empty slot, and where the firmware does not know."""
    populated: bool
    type: str | None
    speed_mts: int | None
    configured_mts: int | None
    total_width_bits: int | None
    data_width_bits: int | None
    """Smaller than the total width on modules with ECC."""
    rank: int | None
    manufacturer: str | None
    part_number: str | None
    serial: str | None

    @property
    def has_ecc(self) -> bool | None:
        if self.total_width_bits is None or self.data_width_bits is None:
            return None
        return self.total_width_bits > self.data_width_bits


class PowerSupply(Struct, frozen=True):
    """DMI type 39."""

    name: str | None
    location: str | None
    manufacturer: str | None
    model: str | None
    serial: str | None
    max_watts: int | None
    status: str
    present: bool
    ok: bool
    plugged: bool | None


class Tpm(Struct, frozen=True):
    """DMI type 43."""

    specification: str | None
    firmware: str | None
    description: str | None


class DmidecodeFacts(Struct, frozen=True):
    """What dmidecode says. None or empty: no structure of that type in the text."""

    bios: Bios | None
    system: Part | None
    board: Part | None
    chassis: Part | None
    processors: tuple[Processor, ...]
    memory: tuple[MemoryDevice, ...]
    power_supplies: tuple[PowerSupply, ...]
    tpm: Tpm | None
    structures: tuple[Structure, ...]
    announced: int | None
    """Number of structures that the header announces (output without ``-t`` only)."""
    complete: bool | None
    """Whether all of the table is here; None where the text does not tell (``-t``)."""
    warnings: tuple[str, ...]

    @property
    def memory_mib(self) -> int:
        """Memory of all populated slots."""
        return sum(device.size_mib or 0 for device in self.memory)


def parse(text: str) -> DmidecodeFacts:
    """Facts from dmidecode. A text without any structure is refused, with what it says."""
    text = clean(text)
    listing = read_structures(text)
    if not listing.structures:
        if not listing.is_dmidecode:
            raise unknown_form("dmidecode", text, "'Handle 0x…, DMI type …'")
        if _OLD_HANDLE.search(text):
            raise NotUnderstoodError(
                "The output is of a dmidecode before 2.8, with 'DMI type' in a line of its own.",
                hint="Record the output of a dmidecode that is not that old.",
            )
        said = [line for line in listing.warnings if "fully supported" not in line]
        said = [line for line in said if "implementations newer" not in line]
        raise NotUnderstoodError(
            "dmidecode shows no structure"
            + (f": '{said[-1]}'." if said else ": the firmware has none of the type asked for."),
            hint="Run it as root; in a virtual machine there may be no SMBIOS table.",
        )
    by_type: dict[int, list[Structure]] = {}
    for structure in listing.structures:
        by_type.setdefault(structure.type, []).append(structure)

    def first(number: int) -> Structure | None:
        return by_type[number][0] if number in by_type else None

    bios, tpm = first(_BIOS), first(_TPM)
    return DmidecodeFacts(
        bios=None if bios is None else _bios(bios),
        system=_part(first(_SYSTEM)),
        board=_part(first(_BOARD)),
        chassis=_part(first(_CHASSIS)),
        processors=tuple(_processor(item) for item in by_type.get(_PROCESSOR, ())),
        memory=tuple(_memory(item) for item in by_type.get(_MEMORY, ())),
        power_supplies=tuple(_power(item) for item in by_type.get(_POWER, ())),
        tpm=None if tpm is None else _tpm(tpm),
        structures=listing.structures,
        announced=listing.announced,
        complete=listing.complete,
        warnings=listing.warnings,
    )


def _bios(item: Structure) -> Bios:
    return Bios(
        vendor=real(item.get("Vendor")),
        version=real(item.get("Version")),
        release_date=real(item.get("Release Date")),
    )


def _part(item: Structure | None) -> Part | None:
    if item is None:
        return None
    names = ("Manufacturer", "Product Name", "Version", "Serial Number", "UUID", "Asset Tag")
    uuid = real(item.get("UUID"))
    if uuid is not None and uuid.lower() in ("not settable", "not present"):
        uuid = None
    return Part(
        manufacturer=real(item.get("Manufacturer")),
        product=real(item.get("Product Name")),
        version=real(item.get("Version")),
        serial=real(item.get("Serial Number")),
        uuid=None if uuid is None or not set(uuid.lower()) - set("0f-") else uuid.lower(),
        asset_tag=real(item.get("Asset Tag")),
        placeholders=tuple(
            name
            for name in names
            if (value := item.get(name)) is not None and is_placeholder(value)
        ),
    )


def _processor(item: Structure) -> Processor:
    status = item.get("Status") or ""
    return Processor(
        socket=item.get("Socket Designation") or "",
        version=real(item.get("Version")),
        manufacturer=real(item.get("Manufacturer")),
        populated=status.startswith("Populated"),
        enabled=status == "Populated, Enabled",
        status=status,
        cores=_number(item, "Core Count"),
        cores_enabled=_number(item, "Core Enabled"),
        threads=_number(item, "Thread Count"),
        max_mhz=_number(item, "Max Speed", "MHz"),
    )


def _memory(item: Structure) -> MemoryDevice:
    size = item.get("Size")
    if size is None:
        raise NotUnderstoodError(
            f"The memory device {item.handle} has no 'Size': the structure is cut off."
        )
    empty = size in ("No Module Installed", "Not Installed", "0", "0 MB")
    return MemoryDevice(
        locator=item.get("Locator") or "",
        bank=real(item.get("Bank Locator")),
        size_mib=None if empty or is_missing(size) else _mib(item, size),
        populated=not empty,
        type=real(item.get("Type")),
        speed_mts=_rate(item, "Speed"),
        configured_mts=_rate(item, "Configured Memory Speed", "Configured Clock Speed"),
        total_width_bits=_number(item, "Total Width", "bits"),
        data_width_bits=_number(item, "Data Width", "bits"),
        rank=_number(item, "Rank"),
        manufacturer=real(item.get("Manufacturer")),
        part_number=real(item.get("Part Number")),
        serial=real(item.get("Serial Number")),
    )


def _mib(item: Structure, text: str) -> int:
    number, _, unit = text.partition(" ")
    if unit not in _UNITS:
        raise NotUnderstoodError(
            f"'Size' of the memory device {item.handle} should be like '32 GB', but is "
            f"'{excerpt(text, 40)}'."
        )
    return int(natural(number, "The size of a memory device") * _UNITS[unit])


def _rate(item: Structure, *names: str) -> int | None:
    """MT/s; dmidecode before 3.2 writes MHz and means MT/s, before 2.12 ``1333 MHz (0.8 ns)``.

    ``1 ns`` is what some virtual machines say.
    """
    for name in names:
        value = item.get(name)
        if value is None:
            continue
        number, _, unit = value.partition(" (")[0].partition(" ")
        if unit in ("MT/s", "MHz"):
            return natural(number, f"'{name}' of a memory device")
        if unit == "ns" or is_missing(value):
            return None
        raise NotUnderstoodError(
            f"'{name}' of the memory device {item.handle} should be in MT/s, but is "
            f"'{excerpt(value, 40)}'."
        )
    return None


def _number(item: Structure, name: str, unit: str = "") -> int | None:
    value = item.get(name)
    if value is None or is_missing(value):
        return None
    if value.startswith(("Unspecified", "<OUT OF SPEC>", "Out Of Spec")):
        return None
    number = value.removesuffix(unit).strip() if unit else value
    return natural(number, f"'{name}' of the structure {item.handle}")


def _power(item: Structure) -> PowerSupply:
    status = item.get("Status") or ""
    plugged = item.get("Plugged")
    return PowerSupply(
        name=real(item.get("Name")),
        location=real(item.get("Location")),
        manufacturer=real(item.get("Manufacturer")),
        model=real(item.get("Model Part Number")),
        serial=real(item.get("Serial Number")),
        max_watts=_number(item, "Max Power Capacity", "W"),
        status=status,
        present=status.startswith("Present"),
        ok=status == "Present, OK",
        plugged=None if plugged is None else plugged == "Yes",
    )


def _tpm(item: Structure) -> Tpm:
    return Tpm(
        specification=real(item.get("Specification Version")),
        firmware=real(item.get("Firmware Revision")),
        description=real(item.get("Description")),
    )
