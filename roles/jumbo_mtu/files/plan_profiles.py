"""Say what netplan and NetworkManager must be told for an MTU to hold, as JSON. Changes nothing.

Standard library only, any Python from 3.6, and the YAML library that netplan brings. The argument
is a JSON object: netplan and network_manager (lists of interfaces), mtu, file (the path of ours).
"""

import fnmatch
import glob
import json
import os
import subprocess
import sys

DIRECTORIES = ("/lib/netplan", "/etc/netplan", "/run/netplan")
KINDS = ("ethernets", "bonds", "bridges", "vlans", "dummy-devices", "virtual-ethernets")
MADE_BY_NETPLAN = "/run/NetworkManager/system-connections/netplan-"


def output_of(*argv):
    """Standard output of a command that must succeed."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=30, check=True)
    return done.stdout.decode("utf-8", "replace")


def address_of(name):
    with open("/sys/class/net/%s/address" % name) as handle:
        return handle.read().strip().lower()


# NetworkManager


def connections():
    """The active connection of each device: (UUID, file)."""
    rows = output_of("nmcli", "-t", "-f", "UUID,DEVICE,FILENAME", "connection", "show", "--active")
    found = {}
    for row in rows.splitlines():
        uuid, _, rest = row.partition(":")
        device, _, path = rest.replace("\\:", "\0").partition(":")
        found[device.replace("\0", ":")] = (uuid, path.replace("\0", ":"))
    return found


def mtu_property(name):
    """The setting that holds the MTU: of InfiniBand it is one of its own; nm-settings(5)."""
    with open("/sys/class/net/%s/type" % name) as handle:
        return "infiniband.mtu" if handle.read().strip() == "32" else "802-3-ethernet.mtu"


def plan_network_manager(names, mtu, problems):
    """What to modify, and the interfaces whose connection netplan has made."""
    modify, netplan = [], []
    active = connections() if names else {}
    for name in names:
        uuid, path = active.get(name, ("", ""))
        if not uuid:
            problems.append(
                "NetworkManager manages '%s', and no connection is active on it: activate one."
                % name
            )
        elif path.startswith(MADE_BY_NETPLAN):
            netplan.append(name)
        else:
            setting = mtu_property(name)
            now = output_of("nmcli", "-g", setting, "connection", "show", uuid).strip()
            if now != str(mtu):
                modify.append({"interface": name, "uuid": uuid, "setting": setting})
    return modify, netplan


# netplan


def files():
    """Files in the order in which netplan reads them; of one name the later directory's counts."""
    by_name = {}
    for directory in DIRECTORIES:
        for path in glob.glob(directory + "/*.yaml"):
            by_name[os.path.basename(path)] = path
    return [by_name[name] for name in sorted(by_name)]


def definitions(document):
    """(section, id, definition) of every interface."""
    network = (document or {}).get("network") or {}
    for section in KINDS:
        for name, definition in (network.get(section) or {}).items():
            yield section, str(name), definition or {}


def is_for(name, address, identifier, definition):
    """Whether a definition is that of an interface; netplan's YAML reference, 'match'."""
    match = definition.get("match") or {}
    if definition.get("set-name") == name or (identifier == name and not match):
        return True
    by_name = match.get("name")
    patterns = by_name if isinstance(by_name, list) else [by_name] if by_name else []
    if any(fnmatch.fnmatchcase(name, str(pattern)) for pattern in patterns):
        return True
    return str(match.get("macaddress", "")).lower() == address


def plan_netplan(names, asked, problems):
    """The text of our file, or "" when no interface needs one."""
    import yaml  # noqa: PLC0415 - comes with netplan, and only then

    wanted = {}
    order = files()
    loaded = {}
    for path in order:
        with open(path, encoding="utf-8") as handle:
            loaded[path] = yaml.safe_load(handle)
    for name in names:
        address = address_of(name)
        found = {
            (section, identifier)
            for path, document in loaded.items()
            if path != asked["file"]
            for section, identifier, definition in definitions(document)
            if is_for(name, address, identifier, definition)
        }
        if len(found) != 1:
            told = ", ".join("'%s'" % identifier for _, identifier in sorted(found)) or "none"
            problems.append("netplan must define '%s' once; found: %s." % (name, told))
            continue
        section, identifier = found.pop()
        problems.extend(later(order, loaded, identifier, asked))
        wanted.setdefault(section, {})[identifier] = {"mtu": asked["mtu"]}
    if not wanted:
        return ""
    head = "# Written by the role 'jumbo_mtu'; see its README. Changes made here are overwritten.\n"
    return head + yaml.safe_dump({"network": {"version": 2, **wanted}}, sort_keys=True)


def later(order, loaded, identifier, asked):
    """Files that come after ours and set the MTU of the same definition to something else."""
    for path in order:
        if os.path.basename(path) > os.path.basename(asked["file"]):
            for _, other, definition in definitions(loaded[path]):
                if other == identifier and definition.get("mtu", asked["mtu"]) != asked["mtu"]:
                    yield "'%s' sets the MTU of '%s' after the role's file: remove it there." % (
                        path, identifier,
                    )  # fmt: skip


def main(asked):
    problems = []
    modify, more = plan_network_manager(asked["network_manager"], asked["mtu"], problems)
    names = asked["netplan"] + more
    text = plan_netplan(names, asked, problems) if names else ""
    ours = os.path.exists(asked["file"])
    return {
        "problems": problems,
        "connections": modify,
        "netplan": text,
        "left_over": [asked["file"]] if ours and not names else [],
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
