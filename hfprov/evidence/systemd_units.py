"""What systemd says of its units and of itself: one ``systemctl show`` for all who ask.

Each source asks for its own units and properties; the reads of a host are merged before they are
sent, because on a busy node the start of each process costs more than what it says.
"""

from __future__ import annotations

import re
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

UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]{1,240}\.[a-z]{4,9}")
"""systemd.unit(5); one bad name would make systemctl fail for all."""

_UNITS_SCRIPT = """\
set -f
properties=$1 files=$2 listed=$3
shift 3
told=$(busctl --timeout=5 call org.freedesktop.systemd1 /org/freedesktop/systemd1 \\
    org.freedesktop.systemd1.Manager ListUnitsByNames as $# "$@" 2>/dev/null |
  grep -oE '"[A-Za-z0-9:_.@-]+" "[^"]*" "(not-found|loaded|masked)" "[a-z-]+" "[a-z-]+"')
done=' ' IFS='
'
for line in $told; do
  unit=${line#\\"} unit=${unit%%\\"*} line=${line%\\"}
  sub=${line##*\\"} line=${line%\\" \\"*}
  active=${line##*\\"} line=${line%\\" \\"*}
  case "${line##*\\"}/$active/$sub $listed " in
    not-found/inactive/dead*|[lm]*" $unit "*) ;;
    *) continue ;;
  esac
  printf '%s=%s\\n' Id "$unit" Names "$unit" LoadState "${line##*\\"}" \\
    ActiveState "$active" SubState "$sub"
  echo
  done="$done$unit "
done
unset IFS
for unit do
  shift
  case $done in *" $unit "*) ;; *) set -- "$@" "$unit" ;; esac
done
[ $# != 0 ] || exit 0
shown=$(systemctl show --timestamp=unix "--property=$properties" -- "$@") || exit
printf '%s\\n' "$shown"
set --
for word in $shown; do
  case $word in
    MainPID=0) ;;
    MainPID=*) for file in $files; do set -- "$@" "/proc/${word#*=}/$file"; done ;;
  esac
done
[ $# = 0 ] || grep -Hs '' "$@"
set +f
for link in /etc/systemd/system/*.wants/* /etc/systemd/system/*.requires/* \\
  /etc/systemd/system/*.upholds/* /usr/lib/systemd/system/*.wants/* \\
  /run/systemd/generator*/*.wants/*
do
  [ -c "$link" ] || printf 'Link=%s\\n' "$link"
done
for file in /etc/systemd/system/*.*; do
  [ ! -c "$file" ] || printf 'Mask=%s\\n' "$file"
done
exit 0"""
"""Arguments: properties, files of the main processes, units of which nothing else is asked than
what a list of units tells, all units. A process may have ended meanwhile.

The links that start units are listed, too (one to ``/dev/null`` starts nothing), and those that
mask. systemd remembers ``UnitFileState`` until it is reloaded, so after somebody removed a link by
hand it still says ``enabled``; and where an alias is left, it says so for ever.

To show a unit that a node does not have costs its systemd a search of all folders and an answer of
250 properties; with the units of other distributions, those were more than half the cost of an
observation. A unit that is there and does nothing costs it as much: it is read anew each time, with
whether it is enabled and preset. So systemd is first asked in one call in which state all units are
(org.freedesktop.systemd1(5), ListUnitsByNames, since version 230); without an answer all are shown.
"""
_LISTED = frozenset({"Id", "Names", "LoadState", "ActiveState", "SubState", "UnitFileState"})
"""What is known of a unit by the first call and by the links that start or mask it."""
_WITHOUT_FILE = {
    "UnitFileState": "",
    "DropInPaths": "",
    "NeedDaemonReload": "no",
    "Result": "success",
    "MainPID": "0",
    "ExecMainStatus": "0",
    "ActiveEnterTimestamp": "",
}
"""What ``systemctl show`` tells of a unit that is not there, and is not told by the first call."""

WANTED_BY_NOTHING = "wanted by nothing"
"""In place of ``enabled``, for a unit that no link starts."""

_MANAGER_SCRIPT = """\
shown=$(systemctl show "--property=$1") || exit
printf '%s\\n' "$shown"
case $shown in
  *NFailedUnits=[1-9]*)
    failed=$(systemctl list-units --failed --plain --no-legend --no-pager --full) || exit
    printf '\\n%s\\n' "$failed" ;;
esac"""
"""Lists the units that failed only when there are any."""


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
    listed = [name for name in valid if name not in whole]
    arguments = ",".join(sorted(properties)), " ".join(sorted(files)), " ".join(listed), *valid
    read = command("sh", "-c", _UNITS_SCRIPT, "sh", *arguments, timeout=20)
    return ShowUnits("units of systemd", read.request, units, properties, files, whole)


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


_FILE_LINE = re.compile(r"/proc/([0-9]+)/([a-z_]+):(.*)")


@lru_cache(maxsize=4)
def parse(text: str) -> Shown:
    """Understand the answer of :func:`units`; kept, because several sources ask one by one."""
    lines = clean(text).splitlines()
    files: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if match := _FILE_LINE.fullmatch(line):
            files.setdefault((match[1], match[2]), []).append(match[3])
    told = "\n".join(line for line in lines if not line.startswith(("/proc/", "Link=", "Mask=")))
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
    read = command("sh", "-c", _MANAGER_SCRIPT, "sh", ",".join(sorted(properties)))
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
    (found,) = systemd.parse(told)
    for name in sorted(read.properties):
        property_of(found, name)
    return found, failed
