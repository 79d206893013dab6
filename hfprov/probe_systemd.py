"""A part of the probe: what systemd says of its units and of itself.

A unit that a node does not have costs its systemd a search of all folders to show, and an answer of
250 properties; one that is there and does nothing costs as much. So systemd is first asked in one
call in which state all units are (org.freedesktop.systemd1(5), ListUnitsByNames, since version
230), and ``systemctl show`` runs for those of which that is not enough; without an answer, for all.
"""

import os
import stat
import struct

from hfprov.probe_bus import BUS_SOCKET, SYSTEMD, SYSTEMD_SOCKET, Bus, strings

MANAGER_PATH, MANAGER = "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
STARTING = (
    "/etc/systemd/system/*.wants/*",
    "/etc/systemd/system/*.requires/*",
    "/etc/systemd/system/*.upholds/*",
    "/usr/lib/systemd/system/*.wants/*",
    "/run/systemd/generator*/*.wants/*",
)
MASKING = ("/etc/systemd/system/*.*",)
MOST_LINKS = 4096


def properties_told(asked):
    """Lines ``Name=value`` of an object's properties, or None where nobody answers."""
    try:
        service = asked["service"]
        bus = Bus(SYSTEMD_SOCKET if service == SYSTEMD else BUS_SOCKET)
        values = bus.properties(service, asked["path"], asked["interface"], asked["properties"])
        lines = [line_of(name, value) for name, value in zip(asked["properties"], values)]
        if asked.get("failed"):
            failed = called(bus, "ListUnitsFiltered", ["failed"])
            lines += ["", *(" ".join(unit[:1] + unit[2:5]) for unit in failed)]
    except (OSError, ValueError, TypeError):
        return None
    return "".join(line + "\n" for line in lines)


def line_of(name, value):
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return name + "=" + str(value).replace("\n", " ")


def called(bus, member, names):
    """The units that a method of systemd lists: name, description, load, active, sub state, ..."""
    array = strings(*names)
    body = struct.pack("<I", len(array)) + array
    (units,) = bus.call(SYSTEMD, MANAGER_PATH, MANAGER, member, "as", body)
    return units


def units_told(names, light):
    """What one call tells of units, as text, and the names of those that have to be shown.

    ``light`` are the names of which it is enough. Of several names of a unit one is shown.
    """
    asked = {}  # type: dict[str, tuple[list[str], list[str]]]
    try:
        units = called(Bus(SYSTEMD_SOCKET), "ListUnitsByNames", names)
        if len(units) != len(names):
            return "", list(names)
        for name, (unit, _, load, active, sub, *_) in zip(names, units):
            asked.setdefault(unit, ([load, active, sub], []))[1].append(name)
    except (OSError, ValueError, TypeError):
        return "", list(names)
    text, left = "", []
    for unit, (state, some) in asked.items():
        is_light = state[0] in ("loaded", "masked") and light.issuperset(some)
        if is_light or state == ["not-found", "inactive", "dead"]:
            aliases = " ".join([unit, *(name for name in some if name != unit)])
            text += "Id=%s\nNames=%s\nLoadState=%s\nActiveState=%s\nSubState=%s\n\n" % (
                unit, aliases, *state,
            )  # fmt: skip
        else:
            left.append(some[0])
            text += "".join("Alias=%s %s\n" % (some[0], name) for name in some[1:])
    return text, left


def of_main_processes(shown, files):
    """Lines of files of each unit's main process, with the file before each; some have ended."""
    pids = {line[8:] for line in shown.splitlines() if line.startswith("MainPID=")}
    text = ""
    for pid in sorted(pids - {"0"}):
        for name in files:
            path = "/proc/%s/%s" % (pid, name)
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    text += "".join(path + ":" + line for line in file)
            except OSError:
                pass
    return text


def links(folders):
    """The links that start units, and those that mask: a link to a device starts nothing."""
    found = []
    for label, patterns, wanted in (("Link", STARTING, False), ("Mask", MASKING, True)):
        for pattern in patterns:
            paths = folders.matches(pattern, MOST_LINKS)
            found += [(label, path) for path in paths if is_device(path) is wanted]
    return "".join("%s=%s\n" % (label, path.replace("\n", "?")) for label, path in found)


def is_device(path):
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False
