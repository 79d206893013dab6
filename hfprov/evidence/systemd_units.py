"""What systemd says of its units and of itself: one ``systemctl show`` for all who ask.

Each source asks for its own units and properties; the reads of a host are merged before they are
sent, because on a busy node the start of each process costs more than what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import systemd
from hfprov.evidence.systemd import Properties, property_of
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, command
from hfprov.regex import regex

UNIT_NAME = regex(r"[A-Za-z0-9:_.\\@-]{1,240}\.[a-z]{4,9}")
"""systemd.unit(5); one bad name would make systemctl fail for all."""

_LISTED = frozenset({"Id", "Names", "LoadState", "ActiveState", "SubState", "UnitFileState"})
"""What is known of a unit by a list of units and by the links that start or mask it: what
``systemctl show`` tells beside it costs a node more than all else that systemd is asked; see
:mod:`hfprov.probe_systemd`."""
_WITHOUT_FILE = {
    "UnitFileState": "",
    "DropInPaths": "",
    "NeedDaemonReload": "no",
    "Result": "success",
    "MainPID": "0",
    "ExecMainStatus": "0",
    "ActiveEnterTimestamp": "",
}
"""What ``systemctl show`` tells of a unit that is not there, and is not told by a list."""

WANTED_BY_NOTHING = "wanted by nothing"
"""In place of ``enabled``, for a unit that no link starts."""

_MANAGER = {
    "service": "org.freedesktop.systemd1",
    "path": "/org/freedesktop/systemd1",
    "interface": "org.freedesktop.systemd1.Manager",
}
_WITHOUT_BOUND = str(2**64 - 1)
"""What systemd calls ``infinity`` where it is asked over D-Bus."""
_MANAGER_SCRIPT = """\
shown=$(systemctl show "--property=$1") || exit
printf '%s\\n' "$shown"
case $shown in
  *NFailedUnits=[1-9]*)
    failed=$(systemctl list-units --failed --plain --no-legend --no-pager --full) || exit
    printf '\\n%s\\n' "$failed" ;;
esac"""
"""Where D-Bus does not answer. Lists the units that failed only when there are any."""


@dataclass(frozen=True, slots=True)
class ShowUnits(Read):
    """Properties of units; made by :func:`units`."""

    units: frozenset[str] = field(default=frozenset(), compare=False)
    properties: frozenset[str] = field(default=frozenset(), compare=False)
    files: frozenset[str] = field(default=frozenset(), compare=False)
    whole: frozenset[str] = field(default=frozenset(), compare=False)
    """The units of which more is asked than a list tells."""

    def merged(self, other: Read) -> Read:
        if not isinstance(other, ShowUnits):
            raise TypeError(f"'{other}' does not ask for units.")
        return _show(
            self.units | other.units,
            self.properties | other.properties,
            self.files | other.files,
            self.whole | other.whole,
        )


def _show(
    units: frozenset[str],
    properties: frozenset[str],
    files: frozenset[str],
    whole: frozenset[str],
) -> ShowUnits:
    valid = sorted(name for name in units if UNIT_NAME.fullmatch(name))
    wanted = f"--property={','.join(sorted(properties))}"
    shown = command("systemctl", "show", "--timestamp=unix", wanted, "--", timeout=20)
    request = {
        **shown.request,
        "kind": "units",
        "units": valid,
        "light": [name for name in valid if name not in whole],
        "files": sorted(files),
    }
    return ShowUnits("units of systemd", request, units, properties, files, whole)


def units(*names: str, properties: Iterable[str], of_main_process: Iterable[str] = ()) -> ShowUnits:
    """The read of some properties of some units, as ``a.service``; see :func:`shown_units`.

    ``of_main_process`` names files of ``/proc/PID`` of each unit's main process, such as
    ``limits``. Times are given as ``@`` and seconds since 1970. A name that is none of a unit is
    not asked for.
    """
    asked = frozenset(properties) | {"Id", "Names", "LoadState"}
    files = frozenset(of_main_process)
    whole = frozenset() if asked <= _LISTED and not files else frozenset(names)
    return _show(frozenset(names), asked | {"MainPID"} if files else asked, files, whole)


class Shown(Struct, frozen=True):
    """What all who asked for units were told."""

    units: Mapping[str, Properties]
    """By each name, of aliases too."""
    files: Mapping[tuple[str, str], str]
    """Text of files of main processes, by process id and name."""

    def main_process_file(self, unit: Properties, name: str) -> str:
        """Raises NoEvidenceError when the process ended while it was looked at."""
        try:
            return self.files[property_of(unit, "MainPID"), name]
        except KeyError:
            what = f"'{name}' of the process of '{property_of(unit, 'Id')}'"
            raise NoEvidenceError(f"{what} could not be read: it may have ended.") from None


_NO_PROPERTY = ("/proc/", "Link=", "Mask=", "Alias=")
_FILE_LINE = regex(r"/proc/([0-9]+)/([a-z_]+):(.*)")


@lru_cache(maxsize=4)
def parse(text: str) -> Shown:
    """Understand the answer of :func:`units`; kept, because several sources ask one by one."""
    lines = clean(text).splitlines()
    files: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if match := _FILE_LINE.fullmatch(line):
            files.setdefault((match[1], match[2]), []).append(match[3])
    told = "\n".join(line for line in lines if not line.startswith(_NO_PROPERTY))
    linked, masked = (
        {line.rpartition("/")[2] for line in lines if line.startswith(key)}
        for key in ("Link=", "Mask=")
    )
    found: dict[str, Properties] = {}
    for block in systemd.parse(told):
        names = {property_of(block, "Id"), *property_of(block, "Names").split()}
        if block.get("LoadState") == "not-found":
            block = {**_WITHOUT_FILE, **block}  # noqa: PLW2901 - completed
        if linked:
            block = _with_true_state(_shown(block), names, linked, masked)  # noqa: PLW2901 - completed
        found.update(dict.fromkeys(names, block))
    for line in lines:
        # One unit was asked for by several names, and shown by the first of these.
        name, _, alias = line.removeprefix("Alias=").partition(" ")
        if line.startswith("Alias=") and name in found:
            found.setdefault(alias, found[name])
    return Shown(found, {key: "\n".join(rows) for key, rows in files.items()})


def _shown(unit: Properties) -> Properties:
    """A unit that was only listed, with what ``systemctl show`` would tell of it but for links."""
    if unit.keys() != _LISTED - {"UnitFileState"}:
        return unit
    # What is masked by no link below /etc is masked by one below /run.
    is_masked = unit["LoadState"] == "masked"
    return {**unit, "UnitFileState": "masked-runtime" if is_masked else "disabled"}


def _with_true_state(
    unit: Properties, names: set[str], linked: set[str], masked: set[str]
) -> Properties:
    """The unit as it will be at the next boot, whatever systemd remembers of its links."""
    state, starts = unit.get("UnitFileState"), bool(names & linked)
    if names & masked:
        return {**unit, "LoadState": "masked", "UnitFileState": "masked"}
    if state == "masked":
        state = "enabled" if starts else "disabled"
        return {**unit, "LoadState": "loaded", "UnitFileState": state}
    if state in ("disabled", "generated") and starts:
        return {**unit, "UnitFileState": "enabled"}
    if state == "enabled" and not starts:
        return {**unit, "UnitFileState": WANTED_BY_NOTHING}
    return unit


def shown_units(seen: Observation, read: ShowUnits) -> tuple[Shown, Mapping[str, Properties]]:
    """All that was shown, and the units that ``read`` asked for, by the names that it used.

    A unit that the node does not have is there, with ``LoadState=not-found``. Raises
    NotUnderstoodError when one that was asked for is missing.
    """
    shown = parse(seen.text(read))
    missing = sorted(read.units - set(shown.units))
    if missing:
        raise NotUnderstoodError(f"'systemctl show' did not tell of '{excerpt(missing[0])}'.")
    return shown, {name: shown.units[name] for name in sorted(read.units)}


@dataclass(frozen=True, slots=True)
class ShowTogether(Read):
    """A ``systemctl show`` of one source's own, sent within the one for all; see :func:`together`.

    Evidence that has its answer by itself is read as well.
    """

    units: tuple[str, ...] = field(default=(), compare=False)
    properties: tuple[str, ...] = field(default=(), compare=False)

    def sent_as(self) -> Read:
        return units(*map(_full, self.units), properties=self.properties)

    def answered_by(self, results: Mapping[str, tuple[Result, ...]]) -> tuple[Result, ...] | None:
        found = results.get(self.sent_as().id)
        if found is None or len(found) != 1:
            return found
        (result,) = found
        if not result.ok or result.code or result.truncated:
            return found
        try:
            shown = parse(result.text).units
            blocks = [self._block(shown[_full(name)]) for name in self.units]
        except KeyError as error:
            said = f"'systemctl show' did not tell of {error}."
            return (replace(result, status="error", text="", stderr=said),)
        return (replace(result, text="\n\n".join(blocks) + "\n"),)

    def _block(self, unit: Properties) -> str:
        lines = [f"{name}={unit[name]}" for name in self.properties if name in unit]
        return "\n".join(lines)


def _full(name: str) -> str:
    return name if "." in name else f"{name}.service"


def together(read: Read) -> ShowTogether:
    """A read of ``systemctl show --property=… -- UNIT…`` that needs no process of its own."""
    words = [str(word) for word in read.request["argv"]]
    names = [word for word in words[2:] if not word.startswith("-")]
    (wanted,) = (word for word in words if word.startswith("--property="))
    properties = wanted.partition("=")[2].split(",")
    return ShowTogether(read.id, read.request, tuple(names), tuple(properties))


@dataclass(frozen=True, slots=True)
class ShowManager(Read):
    """Properties of systemd itself; made by :func:`manager`."""

    properties: frozenset[str] = field(default=frozenset(), compare=False)

    def merged(self, other: Read) -> Read:
        if not isinstance(other, ShowManager):
            raise TypeError(f"'{other}' does not ask for properties of systemd.")
        return _manager(self.properties | other.properties)


def _manager(properties: frozenset[str]) -> ShowManager:
    wanted = sorted(properties)
    bus = {**_MANAGER, "properties": wanted, "failed": "NFailedUnits" in properties}
    read = command("sh", "-c", _MANAGER_SCRIPT, "sh", ",".join(wanted), bus=bus)
    return ShowManager("systemd itself", read.request, properties)


def manager(properties: Iterable[str]) -> ShowManager:
    """The read of some properties of systemd itself; see :func:`shown_manager`."""
    return _manager(frozenset(properties))


def shown_manager(seen: Observation, read: ShowManager) -> tuple[Properties, str]:
    """Properties of systemd, and the list of units that failed; "" when ``NFailedUnits`` is 0.

    The list is there if some source asked for ``NFailedUnits``. Raises NotUnderstoodError when a
    property that ``read`` asked for is missing.
    """
    told, _, failed = clean(seen.text(read)).partition("\n\n")
    (told_now,) = systemd.parse(told)
    found = {
        name: "infinity" if value == _WITHOUT_BOUND else value for name, value in told_now.items()
    }
    for name in sorted(read.properties):
        property_of(found, name)
    return found, failed
