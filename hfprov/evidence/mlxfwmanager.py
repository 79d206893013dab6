"""``mlxfwmanager``/``mlxup`` (query, update) and ``mlxfwreset``: firmware, available and running.

A firmware that was burned does not run until a reset: ``FW (Running)`` tells, and so does the line
``Restart needed for updates to take effect``. Neither is ever read as done.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.flint import Firmware, parse_lines
from hfprov.evidence.net_lines import empty, numbered, value_or_none
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class Version(Struct, frozen=True):
    """One component. ``available`` is None where the tool has no image for this card."""

    current: str | None
    available: str | None


class Device(Struct, frozen=True):
    """One adapter. ``versions`` by component: ``FW``, ``FW (Running)``, ``PXE``, ``UEFI``."""

    number: int
    device_type: str | None
    part_number: str | None
    description: str | None
    psid: str | None
    device: str | None
    """PCI address or path, as printed (``PCI Device Name``)."""
    base_mac: str | None
    base_guid: str | None
    versions: Mapping[str, Version]
    status: str
    """``Up to date``, ``Update required``, ``No matching image found``, …"""

    @property
    def stored_version(self) -> str | None:
        found = self.versions.get("FW")
        return found.current if found else None

    @property
    def running_version(self) -> str | None:
        """The running firmware; what is stored when the tool does not tell them apart."""
        found = self.versions.get("FW (Running)")
        return found.current if found else self.stored_version


class FirmwareReport(Struct, frozen=True):
    """Query or update. ``updated`` are the numbers of devices whose new image was burned."""

    devices: tuple[Device, ...]
    updated: tuple[int, ...] = ()
    restart_needed: bool = False
    failures: tuple[str, ...] = ()

    @property
    def reset_pending(self) -> tuple[int, ...]:
        """Numbers of the devices whose stored firmware does not run yet."""
        return tuple(
            device.number
            for device in self.devices
            if device.number in self.updated or device.running_version != device.stored_version
        )


class ResetReport(Struct, frozen=True):
    """``mlxfwreset … reset``: its steps with their results, and the firmware if queried after."""

    device: str | None
    level: int | None
    steps: Mapping[str, str]
    loaded: bool
    """The tool said that the firmware was loaded successfully."""
    firmware: Firmware | None = None
    failures: tuple[str, ...] = ()


_DEVICE = regex(r"Device #(?P<number>[0-9]{1,4}):")
_PAIR = regex(r"(?P<key>[A-Z][A-Za-z ]*):\s+(?P<value>\S.*)")
_VERSIONS = regex(r"Versions:\s+Current\s+Available")
_VERSION = regex(
    r"(?P<name>[A-Z][A-Za-z0-9]*(?: \(Running\)| [A-Z]\S*)*)\s{2,}"
    r"(?P<current>\S+)\s+(?P<available>\S+)"
)
_UPDATING = regex(r"Device #(?P<number>[0-9]{1,4}): Updating FW \.\.\.\s*(?P<rest>.*)")
_FAILURE = regex(r"-E- .*|No devices found.*|.*(?:Fail|FAILED|failed|Error:).*")
_RESTART = "Restart needed for updates to take effect."
_STEP = regex(r"-I- (?P<step>.*?)\s+-\s*(?P<result>\S.*)")
_LEVEL = regex(r"(?P<level>[0-9]): .*")
_RESET_OF = regex(r".*device,? (?P<device>\S+?),? is:")
_LOADED = "-I- FW was loaded successfully."


def parse(text: str) -> FirmwareReport | ResetReport:
    """Facts of a query, an update or a reset. Raises NotUnderstoodError."""
    lines = [line.strip() for _, line in numbered(text)]
    if not lines:
        raise empty("mlxfwmanager")
    if any("reset level for device" in line or line == _LOADED for line in lines):
        return _reset(lines)
    return _report(lines)


def _report(lines: list[str]) -> FirmwareReport:
    blocks: list[tuple[int, list[str]]] = []
    updated: list[int] = []
    failures: list[str] = []
    updating: int | None = None
    for line in lines:
        block = _DEVICE.fullmatch(line)
        update = _UPDATING.fullmatch(line)
        if block is not None:
            blocks.append((int(block["number"]), []))
        elif update is not None:
            updating = int(update["number"])
            updated += [updating] if update["rest"].startswith("Done") else []
        elif line == "Done" and updating is not None:
            updated.append(updating)
        elif _FAILURE.fullmatch(line) and not line.startswith("Description:"):
            failures.append(line)
        elif blocks and updating is None:
            blocks[-1][1].append(line)
    if not blocks and not any(line.startswith(("-E-", "No devices found")) for line in lines):
        raise NotUnderstoodError(f"mlxfwmanager: '{excerpt(lines[0])}' begins no known form.")
    return FirmwareReport(
        tuple(_device(*block) for block in blocks),
        tuple(updated),
        restart_needed=_RESTART in lines,
        failures=tuple(failures),
    )


def _device(number: int, lines: list[str]) -> Device:
    pairs: dict[str, str] = {}
    versions: dict[str, Version] = {}
    headed = False
    for line in lines:
        version = _VERSION.fullmatch(line)
        pair = _PAIR.fullmatch(line)
        if _VERSIONS.fullmatch(line):
            headed = True
        elif version is not None and headed and ":" not in version["name"]:
            versions[version["name"]] = Version(
                value_or_none(version["current"]), value_or_none(version["available"])
            )
        elif pair is not None:
            pairs.setdefault(pair["key"].strip(), pair["value"].strip())
    if "Status" not in pairs or ("FW" not in versions and headed):
        missing = "Status" if "Status" not in pairs else "FW"
        raise NotUnderstoodError(f"mlxfwmanager: device #{number} ends before its '{missing}'.")
    return Device(
        number,
        value_or_none(pairs.get("Device Type", "")),
        value_or_none(pairs.get("Part Number", "")),
        value_or_none(pairs.get("Description", "")),
        value_or_none(pairs.get("PSID", "")),
        value_or_none(pairs.get("PCI Device Name", "")),
        value_or_none(pairs.get("Base MAC", "")),
        value_or_none(pairs.get("Base GUID", "")),
        versions,
        pairs["Status"],
    )


def _reset(lines: list[str]) -> ResetReport:
    steps: dict[str, str] = {}
    failures: list[str] = []
    device: str | None = None
    level: int | None = None
    flint: list[str] = []
    for line in lines:
        step = _STEP.fullmatch(line)
        of = _RESET_OF.fullmatch(line)
        found = _LEVEL.fullmatch(line)
        if flint or line.startswith("Image type:"):
            flint.append(line)
        elif line.startswith("-E-"):
            failures.append(line)
        elif step is not None:
            steps[step["step"].strip()] = step["result"].strip()
        elif of is not None:
            device = of["device"]
        elif found is not None:
            level = int(found["level"])
    firmware = parse_lines(flint) if flint else None
    return ResetReport(device, level, steps, _LOADED in lines, firmware, tuple(failures))
