"""The framed two-column tables of xpu-smi.

Between two frame lines stands one thing: a device, a health item, a diagnostic. An open frame is
refused; a table that was cut exactly at a frame line cannot be told from a shorter one, except for
diagnoses, which announce their items. Whoever judges health must ask for each component by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.fields import Fields, integer, not_understood, numbered_lines
from hfprov.evidence.text import excerpt
from hfprov.evidence.xpu_smi_facts import Check, Device, Diagnosis, Sensor, XpuSmi, passed_of
from hfprov.regex import regex

TOOL = "xpu-smi"


class _Group(Struct, frozen=True):
    """The lines between two frame lines of a table: left cell of the first, right cells of all."""

    left: str
    right: tuple[str, ...]
    lefts: tuple[str, ...]

    def pairs(self) -> dict[str, str]:
        """Right cells as ``key: value``; a line indented by two goes on with the one before."""
        found: dict[str, str] = {}
        last = ""
        for cell in self.right:
            key, colon, value = cell.partition(":")
            if cell.startswith("  ") or not colon:
                if last:
                    found[last] = f"{found[last]} {cell.strip()}".strip()
                continue
            last = key.strip()
            found[last] = value.strip()
        return found


_STATISTIC = regex(r"\((?:%|W|MHz|C|kB/s|MiB)\)$| (?:Unc|C)orrectable$")
"""Names in the left column of ``stats``, which carry a unit or count errors."""
_COUNTS = regex(r"(?<!Tile )\b[0-9]{1,18}\b")
_FRAME = regex(r"\+-+(?:\+-+)+\+$")


def _groups(text: str) -> list[_Group]:
    groups: list[_Group] = []
    rows: list[tuple[str, str]] | None = None
    for number, line in numbered_lines(text, TOOL):
        stripped = line.strip()
        if _FRAME.match(stripped):
            if rows:
                groups.append(_group(rows))
            rows = []
        elif stripped.startswith("|"):
            cells = stripped[1:].rstrip("|").split("|", 1)
            if rows is None or len(cells) != 2 or not stripped.endswith("|"):
                raise not_understood(TOOL, number, line, "a row with two cells inside a frame")
            rows.append((cells[0].strip(), cells[1].removeprefix(" ").rstrip()))
        elif stripped and rows:
            raise not_understood(TOOL, number, line, "a row or the frame of the table")
    if rows:
        raise NotUnderstoodError(f"The table of '{TOOL}' is not closed: it is cut off.")
    if not groups:
        raise NotUnderstoodError(f"The table of '{TOOL}' has no rows.")
    return groups


def _group(rows: list[tuple[str, str]]) -> _Group:
    return _Group(rows[0][0], tuple(right for _, right in rows), tuple(left for left, _ in rows))


def from_frames(text: str) -> XpuSmi:
    groups = _groups(text)
    head = groups[0]
    if head.left == "Device ID" and head.right == ("Device Information",):
        devices = tuple(_device(group) for group in groups[1:]) or _none_listed()
        return XpuSmi(devices=devices, checks=tuple(out_of_order(devices)))
    if head.left == "AMC ID":
        return XpuSmi(sensors=tuple(_sensors(groups[1:])))
    if head.left == "Device ID":
        if "Level" in groups[1].lefts if len(groups) > 1 else False:
            return XpuSmi(diagnoses=tuple(_diagnoses(groups)))
        if any(_STATISTIC.search(left) for group in groups[1:] for left in group.lefts):
            return _statistics(groups)
        return XpuSmi(checks=tuple(_health(groups)))
    rows = groups[1:] if head.right == ("Details",) else groups
    return XpuSmi(checks=tuple(_check(None, group) for group in rows))


def _statistics(groups: list[_Group]) -> XpuSmi:
    """``stats -d N``: what ``dump`` prints as columns, and uncorrected errors as checks."""
    sample = {"DeviceId": groups[0].right[0].strip()}
    name = ""
    for group in groups[1:]:
        for left, right in zip(group.lefts, group.right, strict=True):
            name = left or name
            sample[name] = f"{sample.get(name, '')} {right.strip()}".strip()
    device = integer(sample["DeviceId"])
    checks = [
        Check(device, name, excerpt(value, 60), passed=False)
        for name, value in sample.items()
        if name.endswith(" Uncorrectable") and any(map(int, _COUNTS.findall(value)))
    ]
    return XpuSmi(samples=(sample,), checks=tuple(checks))


def _none_listed() -> tuple[Device, ...]:
    raise NotUnderstoodError(f"The device table of '{TOOL}' has a heading and no device.")


def _device(group: _Group) -> Device:
    return device_of(integer(group.left), group.pairs())


def out_of_order(devices: Iterable[Device]) -> Iterable[Check]:
    """A check that failed for each device of which discovery says a state other than normal.

    ``normal`` is no check that passed: it says nothing of what ``xpu-smi health`` asks about.
    """
    for device in devices:
        state = (device.values or {}).get("Device State", "normal")
        if state.lower() != "normal":
            yield Check(device.index, "Device State", excerpt(state, 40), passed=False)


def device_of(index: int, values: Mapping[str, str]) -> Device:
    read = Fields(values)
    firmware = {
        str(values[name]): values.get(name.replace(" Name", " Version"), "")
        for name in values
        if name.endswith("Firmware Name")
    }
    ecc = read.text("ECC State")
    return Device(
        index=index,
        name=read.text("Device Name"),
        bdf=read.text("PCI BDF Address"),
        uuid=read.text("UUID"),
        serial=read.text("Serial Number"),
        driver_version=read.text("Driver Version"),
        kernel_version=read.text("Kernel Version"),
        firmware=firmware or None,
        memory_total_mib=read.number("Memory Physical Size", units=("MiB",)),
        ecc_enabled=None if ecc is None else ecc.lower() == "enabled",
        pcie_generation=read.count("PCIe Generation"),
        pcie_max_width=read.count("PCIe Max Link Width"),
        tiles=read.count("Number of Tiles"),
        values=dict(values),
        errors=tuple(read.errors),
    )


def _check(device: int | None, group: _Group) -> Check:
    values = group.pairs()
    status = values.get("Status", values.get("Result"))
    if status is None:
        raise NotUnderstoodError(f"'{excerpt(group.left)}' of '{TOOL}' has no status or result.")
    name = group.left
    for detail in ("CPU ID", "BDF"):
        name += f" {values[detail]}" if detail in values else ""
    message = values.get("Message", values.get("Description", ""))
    return Check(device, _NUMBERED.sub("", name), excerpt(status, 40), passed_of(status), message)


_NUMBERED = regex(r"^[0-9]+\. ")


def _health(groups: list[_Group]) -> Iterable[Check]:
    device: int | None = None
    for group in groups:
        if group.left == "Device ID":
            device = integer(group.right[0])
        else:
            yield _check(device, group)


def _diagnoses(groups: list[_Group]) -> Iterable[Diagnosis]:
    starts = [n for n, group in enumerate(groups) if group.left == "Device ID"]
    for start, end in zip(starts, [*starts[1:], len(groups)], strict=True):
        device = integer(groups[start].right[0])
        if end < start + 2:
            raise NotUnderstoodError(f"The diagnosis of device {device} is cut off.")
        facts = dict(zip(groups[start + 1].lefts, groups[start + 1].right, strict=True))
        checks = tuple(_check(device, group) for group in groups[start + 2 : end])
        items = integer(facts.get("Items", ""))
        if items != len(checks):
            raise NotUnderstoodError(
                f"The diagnosis of device {device} announces {items} items and has {len(checks)}."
            )
        result = facts.get("Result", "")
        yield Diagnosis(device, integer(facts.get("Level", "")), passed_of(result), checks)


_SENSOR = regex(r"(?P<name>[^ ]+) \((?P<unit>[^)]*)\): (?P<value>-?[0-9.]{1,20})$")


def _sensors(groups: list[_Group]) -> Iterable[Sensor]:
    for group in groups:
        for cell in group.right:
            match = _SENSOR.match(cell.strip())
            if match is None:
                if cell.strip():
                    raise NotUnderstoodError(f"'{excerpt(cell)}' of '{TOOL}' is no sensor.")
                continue
            read = Fields({"value": match["value"]})
            value = read.number("value")
            if value is not None:
                yield Sensor(group.left, match["name"], value, match["unit"])
