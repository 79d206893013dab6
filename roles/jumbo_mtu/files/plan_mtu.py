"""Say what must be done for an MTU to hold on some interfaces, as JSON. Changes nothing.

Standard library only, any Python from 3.6. The argument is a JSON object: interfaces, mtu, drop_in
(the name of our drop-in), netplan_file (the path of ours), over_ssh.
"""

import glob
import json
import os
import re
import subprocess
import sys

NETWORKD = "systemd-networkd"
IFUPDOWN = "ifupdown"
NETWORK_MANAGER = "NetworkManager"
NETPLAN = "netplan"
INTERFACES = "/etc/network/interfaces"
STANZA = re.compile(
    r"(iface|mapping|auto|allow-\S+|no-auto-down|no-scripts|source|source-directory)\s"
)
COMMAND = re.compile(r"\s*(pre-up|up|post-up|pre-down|down|post-down)\s+(.*\bmtu\b.*)$")
ROUTE = re.compile(r"\bip(?:\s+-\S+)*\s+ro?u?t?e?\s[^;&|]*")
"""A command on a route, whose MTU is not the interface's."""
OPTION = re.compile(r"\s*mtu\s+(\S+)\s*$")
DATAGRAM_MOST = 4092
"""InfiniBand's 4096 bytes less IPoIB's header; Documentation/infiniband/ipoib.rst of the kernel."""
HAS_MTU_OPTION = {("inet", "static"), ("inet", "manual")}


def output_of(*argv):
    """Standard output of a command that must succeed."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=20, check=True)
    return done.stdout.decode("utf-8", "replace")


def ip(*arguments):
    return json.loads(output_of("ip", "-j", *arguments) or "[]")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as handle:
            return handle.read()
    except OSError:
        return ""


# Which interfaces carry management


def session_addresses():
    """Both addresses of the SSH session that this process runs in: (client, server), or None.

    sudo clears the environment, so it is looked for in the ancestors too.
    """
    pid = os.getpid()
    while pid > 1:
        try:
            with open("/proc/%d/environ" % pid, "rb") as handle:
                for entry in handle.read().split(b"\0"):
                    if entry.startswith(b"SSH_CONNECTION="):
                        words = entry.decode("ascii", "replace").split("=", 1)[1].split()
                        return words[0], words[2]
            with open("/proc/%d/stat" % pid) as handle:
                pid = int(handle.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            return None
    return None


def management(links, over_ssh):
    """Interfaces that must not be touched, each with the reason, and what is not known."""
    reasons, unknown = {}, []
    for family in ("-4", "-6"):
        for route in ip(family, "route", "show", "default"):
            for hop in route.get("nexthops", [route]):
                reasons.setdefault(hop.get("dev"), "has the default route")
    session = session_addresses()
    if session:
        client, server = session
        for link in ip("address", "show"):
            if any(entry.get("local") == server.split("%")[0] for entry in link["addr_info"]):
                reasons[link["ifname"]] = "carries this SSH session"
        for route in ip("route", "get", client.split("%")[0]):
            reasons[route["dev"]] = "carries this SSH session"
    elif over_ssh:
        unknown.append("It cannot be told which interface carries this SSH session.")
    return with_what_is_below(links, reasons), unknown


def with_what_is_below(links, reasons):
    """The same reasons, and for what those interfaces are built on as well."""
    reasons = dict(reasons)
    pending = list(reasons)
    while pending:
        name = pending.pop()
        for link in links.values():
            below = link["ifname"] == links.get(name, {}).get("link") or link.get("master") == name
            if below and link["ifname"] not in reasons:
                reasons[link["ifname"]] = "is below '%s', which %s" % (name, reasons[name])
                pending.append(link["ifname"])
    return reasons


# What manages an interface


def netif_state(index):
    """What systemd-networkd has written down about a link."""
    lines = read("/run/systemd/netif/links/%d" % index).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def network_file(index):
    state = netif_state(index)
    return "" if state.get("ADMIN_STATE") == "unmanaged" else state.get("NETWORK_FILE", "")


def network_manager_devices():
    try:
        text = output_of("nmcli", "-t", "-f", "DEVICE,STATE", "device")
    except (OSError, subprocess.SubprocessError):
        return set()
    rows = [line.rsplit(":", 1) for line in text.splitlines() if ":" in line]
    return {name for name, state in rows if state not in ("unmanaged", "unavailable")}


def interfaces_files(path=INTERFACES, seen=None):
    """Files of ifupdown in the order in which they are read, each with its lines."""
    seen = {} if seen is None else seen
    if path in seen or not os.path.isfile(path):
        return seen
    seen[path] = read(path).split("\n")
    for line in seen[path]:
        words = line.split()
        if len(words) < 2 or words[0] not in ("source", "source-directory"):
            continue
        for word in words[1:]:
            pattern = os.path.join(os.path.dirname(path), word)
            if words[0] == "source-directory":
                names = glob.glob(os.path.join(pattern, "*"))
                found = [name for name in names if re.match(r"[\w-]+$", os.path.basename(name))]
            else:
                found = glob.glob(pattern)
            for name in sorted(found):
                interfaces_files(name, seen)
    return seen


def stanzas(lines, name):
    """(index of the iface line, index after the last line) of each stanza of an interface."""
    starts = [at for at, line in enumerate(lines) if STANZA.match(line.lstrip())] + [len(lines)]
    return [
        (start, end)
        for start, end in zip(starts[:-1], starts[1:])
        if lines[start].split()[:2] == ["iface", name]
    ]


def managers(name, index, files, nm_devices):
    """Every configuration that claims an interface."""
    found = []
    network = network_file(index)
    if network.startswith("/run/systemd/network/") and "netplan" in network:
        found.append(NETPLAN)
    elif network:
        found.append(NETWORKD)
    if any(stanzas(lines, name) for lines in files.values()):
        found.append(IFUPDOWN)
    if name in nm_devices:
        found.append(NETWORK_MANAGER)
    return found


# What to do


def edit(files, name, mtu):
    """Have ifupdown's files give an interface this MTU, once. Other lines stay as they are."""
    places = [(lines, start) for lines in files.values() for start, _ in stanzas(lines, name)]
    inet = [place for place in places if place[0][place[1]].split()[2:3] == ["inet"]]
    target, at = (inet or places)[0]
    kind = tuple(target[at].split()[2:4])
    option = "mtu %d" if kind in HAS_MTU_OPTION else "post-up ip link set dev $IFACE mtu %d"
    if [(line.strip(), id(lines), start) for lines, start, line in settings(files, name)] == [
        (option % mtu, id(target), at)
    ]:
        return
    for lines in files.values():
        for start, end in reversed(stanzas(lines, name)):
            kept = [line for line in lines[start + 1 : end] if not sets_mtu(line, name)]
            lines[start + 1 : end] = kept
            if lines is target and start == at:
                lines.insert(start + 1, "    " + option % mtu)


def settings(files, name):
    """(lines, index of the iface line, line) of each line that sets the MTU of an interface."""
    for lines in files.values():
        for start, end in stanzas(lines, name):
            for line in lines[start + 1 : end]:
                if sets_mtu(line, name):
                    yield lines, start, line


def sets_mtu(line, name):
    """Whether a line of a stanza is the MTU option, or the command that we write in its place."""
    command = COMMAND.match(line)
    ours = r"ip link set dev (\$IFACE|%s) mtu \d+\s*$" % re.escape(name)
    return bool(OPTION.match(line) or (command and re.match(ours, command.group(2))))


def foreign_commands(files, name):
    for path, lines in files.items():
        for start, end in stanzas(lines, name):
            for line in lines[start + 1 : end]:
                if COMMAND.match(ROUTE.sub("", line)) and not sets_mtu(line, name):
                    yield path, line.strip()


def link_problems(link, mtu, asked, links):
    """Why an interface cannot have this MTU."""
    name = link["ifname"]
    most, least = link.get("max_mtu") or mtu, link.get("min_mtu") or mtu
    if not least <= mtu <= most:
        yield "'%s' can have an MTU from %d to %d, not %d." % (name, least, most, mtu)
    master = links.get(link.get("master"), {})
    if master.get("linkinfo", {}).get("info_kind") in ("bond", "team"):
        yield "'%s' is a member of '%s': name that one instead." % (name, master["ifname"])
    if link.get("link_type") == "infiniband" and mtu > DATAGRAM_MOST:
        mode = read("/sys/class/net/%s/mode" % name).strip()
        if mode != "connected":
            yield (
                "'%s' is InfiniBand in %s mode, which carries %d bytes at most; its mode is not "
                "changed by this role." % (name, mode or "an unknown", DATAGRAM_MOST)
            )
    for below in built_on(link, links):
        if below["mtu"] < mtu and below["ifname"] not in asked:
            yield "'%s' is built on '%s', whose MTU is %d: name that one too." % (
                name, below["ifname"], below["mtu"],
            )  # fmt: skip


def built_on(link, links):
    """What an interface stands on: the link below a VLAN, the ports of a bridge."""
    below = links.get(link.get("link"))
    if below:
        yield below
    if link.get("linkinfo", {}).get("info_kind") == "bridge":
        for other in links.values():
            if other.get("master") == link["ifname"]:
                yield other


def height(link, links):
    """How many interfaces are below each other, down from this one."""
    return 1 + max((height(below, links) for below in built_on(link, links)), default=0)


def in_order(differing, mtu, links):
    """What goes down from the top, then what goes up from the bottom: no child above its parent."""
    rank = {link["ifname"]: height(link, links) for link in differing}
    down = sorted(
        (one for one in differing if one["mtu"] > mtu), key=lambda one: -rank[one["ifname"]]
    )
    up = sorted((one for one in differing if one["mtu"] < mtu), key=lambda one: rank[one["ifname"]])
    return [{"name": one["ifname"], "mtu": one["mtu"]} for one in down + up]


def manager_problems(name, found):
    """Why the MTU of an interface cannot be persisted."""
    if not found:
        yield "No network configuration that this role knows manages '%s'." % name
    if len(found) > 1:
        yield "'%s' is configured by %s at once: leave it to one." % (name, " and by ".join(found))


def shared_problems(name, links, asked):
    mine = network_file(links[name]["ifindex"])
    others = [
        other
        for other, link in sorted(links.items())
        if other not in asked and network_file(link["ifindex"]) == mine
    ]
    if others:
        yield (
            "'%s' shares '%s' with '%s', which would get the MTU too: give it a file of its own."
            % (name, mine, "', '".join(others))
        )


def main(asked):
    names, mtu = asked["interfaces"], asked["mtu"]
    links = {link["ifname"]: link for link in ip("-d", "link", "show")}
    reasons, problems = management(links, asked["over_ssh"])
    files = interfaces_files()
    before = {path: list(lines) for path, lines in files.items()}
    nm_devices = network_manager_devices()
    drop_ins, profiles = set(), {NETPLAN: [], NETWORK_MANAGER: []}
    if not names:
        problems.append("'jumbo_mtu_interfaces' is empty: name the data interfaces.")
    for name in names:
        if name not in links:
            there = ", ".join(sorted(other for other in links if other != "lo"))
            problems.append("There is no interface '%s'; there are: %s." % (name, there))
            continue
        if name in reasons:
            problems.append("'%s' %s: it is never changed." % (name, reasons[name]))
        found = managers(name, links[name]["ifindex"], files, nm_devices)
        problems.extend(link_problems(links[name], mtu, names, links))
        problems.extend(manager_problems(name, found))
        if NETWORKD in found:
            problems.extend(shared_problems(name, links, names))
            network = os.path.basename(network_file(links[name]["ifindex"]))
            drop_ins.add("/etc/systemd/network/%s.d/%s" % (network, asked["drop_in"]))
        for one, managed in profiles.items():
            if found == [one]:
                managed.append(name)
        if IFUPDOWN in found:
            for path, line in foreign_commands(files, name):
                problems.append(
                    "The line '%s' in '%s' sets an MTU by a command: remove it." % (line, path)
                )
            edit(files, name, mtu)
    edits = [
        {"path": path, "content": "\n".join(lines), "mode": "%04o" % safe_mode(path)}
        for path, lines in files.items()
        if lines != before[path] or not is_safe(path)
    ]
    directories = sorted({os.path.dirname(path) for path in drop_ins})
    ours = glob.glob("/etc/systemd/network/*.network.d/" + asked["drop_in"])
    return {
        "problems": problems,
        "drop_ins": sorted(drop_ins),
        "missing_directories": [path for path in directories if not os.path.isdir(path)],
        "shut_directories": [path for path in directories if is_shut(path)],
        "edits": edits,
        "left_over": sorted(set(ours) - drop_ins) + left_over_netplan(asked, profiles),
        "differing": in_order(
            [links[name] for name in names if name in links and links[name]["mtu"] != mtu],
            mtu,
            links,
        ),
        "netplan": profiles[NETPLAN],
        "network_manager": profiles[NETWORK_MANAGER],
    }


def left_over_netplan(asked, profiles):
    """Our file of netplan where neither netplan nor NetworkManager, whom it may tell, has a say."""
    path = asked["netplan_file"]
    return [path] if os.path.exists(path) and not any(profiles.values()) else []


def safe_mode(path):
    """A file's mode, without writing for others. It may hold keys: never made more readable."""
    return os.stat(path).st_mode & 0o7777 & ~0o022


def is_shut(path):
    """Whether a folder is there and networkd, which is not root, cannot read what is in it."""
    return os.path.isdir(path) and os.stat(path).st_mode & 0o005 != 0o005


def is_safe(path):
    info = os.stat(path)
    return (info.st_uid, info.st_gid, info.st_mode & 0o022) == (0, 0, 0)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
