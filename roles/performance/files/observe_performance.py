"""Say what of CPU frequency, huge pages and kernel settings is in effect, as JSON. Changes nothing.

Standard library only, any Python from 3.6. The argument is a JSON object: what is wanted, as in
the role's variables; 'leave' means that a setting is not ours.
"""

import glob
import json
import os
import re
import subprocess
import sys

CONTAINERS = {
    "systemd-nspawn", "lxc", "lxc-libvirt", "docker", "podman", "openvz", "rkt", "wsl", "proot",
    "pouch", "container-other",
}  # fmt: skip
# Of a network namespace; the other settings are the whole kernel's, and so the container's host's.
NAMESPACED = re.compile(r"net\.ipv[46]\.|net\.core\.somaxconn$")
# A kernel that was built without the feature has no such file, and does not do it.
ABSENT_IS_OFF = {"kernel.numa_balancing", "vm.zone_reclaim_mode"}


def output_of(*argv):
    # systemd-detect-virt ends with 1 where there is no virtualization.
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=20, check=False)
    return done.stdout.decode("utf-8", "replace")


def text_of(path):
    with open(path) as handle:
        return " ".join(handle.read().split())


def machine():
    name = output_of("systemd-detect-virt").strip()
    if name == "none":
        return "bare_metal"
    if not name:
        sys.exit("systemd-detect-virt does not say what this machine is.")
    return "container" if name in CONTAINERS else "virtual_machine"


def has_amd_accelerator():
    for path in glob.glob("/sys/bus/pci/devices/*/uevent"):
        text = text_of(path)
        if re.search(r"PCI_CLASS=(12|302|380)[0-9A-F]{2,4}( |$)", text) and " PCI_ID=1002:" in text:
            return True
    return False


def settings(asked):
    """Kernel settings that are ours, as text."""
    wanted = {name: " ".join(str(value).split()) for name, value in asked["sysctls"].items()}
    balancing = asked["numa_balancing"]
    if balancing == "auto":
        balancing = "disabled" if has_amd_accelerator() else "leave"
    if balancing != "leave":
        wanted.setdefault("kernel.numa_balancing", "0" if balancing == "disabled" else "1")
    return {name: value for name, value in wanted.items() if value != "leave"}


def path_of(name):
    return "/proc/sys/" + name.replace(".", "/")


def misnamed(wanted, place):
    for name, value in wanted.items():
        if not re.match(r"[a-z0-9_]+(\.[A-Za-z0-9_-]+)+$", name):
            yield "'%s' is not the name of a kernel setting, with dots." % name
        elif not value:
            yield "'%s' has no value." % name
        elif not (name in ABSENT_IS_OFF or is_hosts(name, place) or os.path.exists(path_of(name))):
            yield "This kernel has no setting '%s'; is a module missing?" % name


def is_hosts(name, place):
    return place == "container" and not NAMESPACED.match(name)


def stale_settings(wanted, place):
    for name, value in sorted(wanted.items()):
        if is_hosts(name, place) or not os.path.exists(path_of(name)):
            continue
        if text_of(path_of(name)) != value:
            yield "%s=%s" % (name, value)


def unsuited(asked, place):
    """Sentences on values that the kernel would refuse or that would have no effect."""
    for path, value in asked["kernel_files"].items():
        if value == "leave" or place == "container":
            continue
        if path.endswith("_us") and not re.match(r"[0-9]{1,6}$", value):
            yield "'performance_idle_latency_us' must be a number or 'leave', not '%s'." % value
        if path.endswith("/scaling_governor"):
            offers = glob.glob(path.replace("_governor", "_available_governors"))
            if not offers and place == "bare_metal":
                yield (
                    "The kernel cannot set the CPUs' frequency: the firmware does. Allow it in the "
                    "BIOS (OS control), or set 'performance_governor' to 'leave' for this host."
                )
            elif offers and value not in text_of(offers[0]).split():
                yield "The CPUs of this node offer the governors '%s', not '%s'." % (
                    "', '".join(text_of(offers[0]).split()), value,
                )  # fmt: skip


def chosen(text):
    """The word in brackets of 'always [madvise] never', or the text."""
    found = re.search(r"\[([^\]]+)\]", text)
    return found.group(1) if found else text


def stale_kernel(asked, place, unit):
    if place == "container":
        return
    if unit.get("Result", "success") != "success":
        yield "'%s' failed when it was last started." % asked["unit"]
    for pattern, value in asked["kernel_files"].items():
        paths = [path for path in glob.glob(pattern) if value != "leave"]
        bad = [path for path in paths if chosen(text_of(path)) != value]
        if bad:
            yield "%d of %d '%s' are not '%s'." % (len(bad), len(paths), pattern, value)


def units(names):
    """Properties of each unit, in order."""
    wanted = "LoadState,ActiveState,UnitFileState,NeedDaemonReload,Result"
    text = output_of("systemctl", "show", "--property=" + wanted, *names)
    return [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in text.strip().split("\n\n")
    ]


def is_rival(unit):
    runs = unit["ActiveState"] in ("active", "activating", "reloading")
    return unit["LoadState"] != "not-found" and (
        runs or unit["UnitFileState"].startswith("enabled")
    )


def swaps(asked, place):
    if place == "container" or asked["swap"] != "disabled":
        return []
    with open("/proc/swaps") as handle:
        return [line.split() for line in handle.read().splitlines()[1:]]


def too_full(used):
    """A sentence when what is swapped out does not fit into memory."""
    with open("/proc/meminfo") as handle:
        free = next(int(line.split()[1]) for line in handle if line.startswith("MemAvailable:"))
    if used > free:
        yield (
            "%d KiB are swapped out and only %d KiB of memory are free: drain the node before "
            "swap space is taken out of use." % (used, free)
        )


def main(asked):
    place, wanted = machine(), settings(asked)
    services = [name + ".service" for name in asked["stop_services"]]
    ours, *others = units([asked["unit"]] + services)
    in_use = swaps(asked, place)
    return {
        "machine": place,
        "problems": [
            *misnamed(wanted, place), *unsuited(asked, place),
            *too_full(sum(int(row[3]) for row in in_use)),
        ],
        "sysctls": wanted,
        "stale_sysctls": list(stale_settings(wanted, place)),
        "left_to_host": [name for name in sorted(wanted) if is_hosts(name, place)],
        "stale_kernel": list(stale_kernel(asked, place, ours)),
        "unit_known": ours["LoadState"] != "not-found",
        "reload_needed": ours["NeedDaemonReload"] == "yes",
        "rivals": [name for name, unit in zip(services, others) if is_rival(unit)],
        "swaps": [row[0] for row in in_use],
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
