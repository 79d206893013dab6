"""Say what of RDMA is in effect, and what is not as declared, as JSON. Changes nothing.

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
USER_SPACE = {
    "rdma-core", "ibverbs-providers", "libibverbs", "libibverbs1", "librdmacm", "librdmacm1",
    "librdmacm1t64",
}  # fmt: skip
VENDOR_KERNEL = re.compile(r"(mlnx-ofed-kernel|mlnx-ofa_kernel|kmod-mlnx-ofa_kernel)")
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
PORTS = "/sys/class/infiniband/*/ports/*"


def run(*argv):
    """Exit code and output; 127 where there is no such command."""
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, check=False
        )
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def text_of(path):
    """The text of a file; None where there is none, or the kernel has no value for it."""
    try:
        with open(path) as handle:
            return handle.read().strip()
    except OSError:
        return None


def machine():
    # It ends with 1 where there is no virtualization.
    name = run("systemd-detect-virt")[1].strip()
    if name == "none":
        return "bare_metal"
    if not re.match(r"[a-z0-9-]+$", name):
        sys.exit("systemd-detect-virt does not say what this machine is.")
    return "container" if name in CONTAINERS else "virtual_machine"


# Packages


def packages():
    """Version by name of everything that is installed."""
    code, text = run("dpkg-query", "-W", "-f=${Package} ${Version} ${db:Status-Status}\\n")
    if code == 127:
        form = "%{NAME} %{VERSION}-%{RELEASE} installed\\n"
        code, text = run("rpm", "--query", "--all", "--queryformat=" + form)
    if code != 0:
        sys.exit("The package manager does not say what is installed: " + text[:200])
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 3 and row[2] == "installed"}


def halves(installed, place):
    """What there is of the distribution's stack and of the vendor's: names by stack."""
    found = {"inbox": [], "vendor": []}
    for name, version in sorted(installed.items()):
        if name in USER_SPACE:
            found["vendor" if "mlnx" in version.lower() else "inbox"].append(name)
        elif VENDOR_KERNEL.match(name):
            found["vendor"].append(name)
    if place != "container" and os.path.exists("/sys/module/mlx_compat"):
        found["vendor"].append("the loaded module mlx_compat")
    return found


def stack_problems(asked, found):
    if found["inbox"] and found["vendor"]:
        yield (
            "This node has half of each RDMA stack, of the distribution ('%s') and of the vendor "
            "('%s'). Remove one of them by hand, on a drained node."
            % ("', '".join(found["inbox"]), "', '".join(found["vendor"]))
        )
    elif is_other(asked["stack"], found):
        yield (
            "This node has the other RDMA stack ('%s'), and 'rdma_stack' is '%s'. Remove it by "
            "hand, on a drained node: that takes the drivers of running NICs away."
            % ("', '".join(found["inbox"] + found["vendor"]), asked["stack"])
        )


def is_other(stack, found):
    """Libraries alone, which many programs bring, the vendor's packages replace by themselves."""
    return (stack == "inbox" and found["vendor"]) or (
        stack == "vendor" and "rdma-core" in found["inbox"]
    )


# Devices


def interface_of(port):
    """Interfaces of a port: of all entries of its GID table."""
    names = (text_of(path) for path in glob.glob(port + "/gid_attrs/ndevs/*"))
    return {name for name in names if name}


def ports_of(interface):
    """``(device, port)`` of an interface, whatever the device is called."""
    return [
        (port.split("/")[4], port.split("/")[6])
        for port in sorted(glob.glob(PORTS))
        if interface in interface_of(port)
    ]


def guid(text):
    return re.sub("[^0-9a-f]", "", text.lower())


def missing_devices(asked):
    """Declared devices that are not there; found by PCI address or GUID, never by name."""
    devices = glob.glob("/sys/class/infiniband/*")
    addresses = {os.path.basename(os.path.realpath(path + "/device")) for path in devices}
    guids = {guid(text_of(path + "/node_guid") or "") for path in devices}
    for one in asked["devices"]:
        if one.get("pci") and one["pci"] not in addresses:
            yield one["pci"]
        elif one.get("guid") and guid(one["guid"]) not in guids:
            yield one["guid"]


# What is declared and cannot be


def device_problems(asked):
    known = {"pci", "guid", "rate_gbit_per_s", "active_mtu_bytes", "link_layer"}
    for one in asked["devices"]:
        unknown = sorted(set(one) - known)
        if unknown:
            yield "An entry of 'rdma_devices' has '%s', which nothing reads." % unknown[0]
        if bool(one.get("pci")) == bool(one.get("guid")):
            yield "An entry of 'rdma_devices' needs 'pci' or 'guid', one of the two: %s." % one
        elif one.get("pci") and not PCI.match(one["pci"]):
            yield "'%s' in 'rdma_devices' is no PCI address such as 0000:17:00.0." % one["pci"]
        elif one.get("guid") and len(guid(one["guid"])) != 16:
            yield "'%s' in 'rdma_devices' is no GUID of 16 digits." % one["guid"]
    pci_declared = asked["max_read_request"] != "leave" or asked["relaxed_ordering"] != "leave"
    if pci_declared and not any(one.get("pci") for one in asked["devices"]):
        yield "PCI settings are declared, and no entry of 'rdma_devices' has 'pci'."


def number_problems(asked):
    tos = asked["roce_tos"]
    if tos != "leave" and not (tos.isdigit() and int(tos) <= 255):
        yield "'rdma_roce_tos' must be 0 to 255 or 'leave', not '%s'." % tos
    size = asked["max_read_request"]
    if size not in ("leave", "128", "256", "512", "1024", "2048", "4096"):
        yield "'rdma_max_read_request_bytes' cannot be '%s'." % size
    for name in ("pfc", "ecn"):
        if not {str(one) for one in asked[name]} <= set("01234567"):
            yield "'rdma_%s_priorities' has a priority that is not 0 to 7." % name
    for dscp, priority in asked["dscp"].items():
        if not (str(dscp).isdigit() and int(dscp) < 64 and str(priority) in list("01234567")):
            yield "'rdma_dscp_priorities' maps '%s' to '%s'." % (dscp, priority)
    if asked["qos_tool"] == "leave" and (asked["pfc"] or asked["dscp"]):
        yield "Priorities are declared, and 'rdma_qos_tool' is 'leave': nobody would set them."


def name_problems(asked):
    for name in sorted(set(asked["interfaces"] + asked["rxe"])):
        if not re.match(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,14}$", name):
            yield "'%s' cannot be the instance of a unit: rename the interface." % name
        elif not os.path.exists("/sys/class/net/" + name):
            yield "This node has no interface '%s'." % name
    for name in asked["modules"] + asked["before_services"]:
        if not re.match(r"[A-Za-z0-9_@.-]+$", name):
            yield "'%s' is no name of a module or a service." % name
    if not asked["modules"]:
        yield "'rdma_modules' is empty: programs would find no RDMA device."


def kernel_problems(asked, place):
    if place == "container":
        return
    names = asked["modules"] + (["rdma_rxe"] if asked["rxe"] else [])
    for name in names:
        if not os.path.exists("/sys/module/" + name) and run("modinfo", "-n", name)[0] != 0:
            yield "The kernel %s has no module '%s'." % (os.uname().release, name)
    for address in asked["acs_off"]:
        if place != "bare_metal":
            yield "Access control of PCI bridges is taken away on bare metal only."
        elif not PCI.match(address) or not os.path.exists("/sys/bus/pci/devices/" + address):
            yield "This node has no PCI bridge '%s'." % address


# What is not in effect


def roce_problems(asked, interface):
    wanted = {}
    if asked["roce_mode"] != "leave":
        wanted["default_roce_mode"] = asked["roce_mode"]
    if asked["roce_tos"] != "leave":
        wanted["default_roce_tos"] = asked["roce_tos"]
    ports = ports_of(interface) if wanted else []
    if wanted and not ports:
        yield "no RDMA device has it"
    for device, port in ports:
        for name, value in wanted.items():
            path = "/sys/kernel/config/rdma_cm/%s/ports/%s/%s" % (device, port, name)
            if text_of(path) != value:
                yield "%s of %s" % (name, device)
    for priority in asked["ecn"]:
        for side in ("roce_np", "roce_rp"):
            path = "/sys/class/net/%s/ecn/%s/enable/%s" % (interface, side, priority)
            if text_of(path) != "1":
                yield "ECN of priority %s" % priority


def qos_of(tool, interface):
    """``(priority by DSCP, priorities with flow control)``; None where the tool does not say."""
    if tool == "dcb":
        pfc = run("dcb", "-j", "-N", "pfc", "show", "dev", interface, "prio-pfc")
        app = run("dcb", "-j", "-N", "app", "show", "dev", interface, "dscp-prio")
        if pfc[0] or app[0]:
            return None
        enabled = json.loads(pfc[1] or "{}").get("prio_pfc", [])
        pairs = json.loads(app[1] or "{}").get("dscp_prio", [])
        return {int(a): int(b) for a, b in pairs}, [n for n, on in enumerate(enabled) if on]
    code, text = run("mlnx_qos", "-i", interface)
    row = re.search(r"^\s*enabled\s+([01 \t]+)$", text, re.MULTILINE)
    if code or not row:
        return None
    found = {}
    if "Priority trust state: dscp" in text:
        for priority, values in re.findall(r"prio:([0-7]) dscp:([0-9,]+)", text):
            found.update((int(one), int(priority)) for one in values.split(",") if one)
    return found, [n for n, on in enumerate(row.group(1).split()) if on == "1"]


def qos_problems(asked, interface):
    tool = asked["qos_tool"]
    if tool == "leave":
        return
    found = qos_of(tool, interface)
    if found is None:
        yield "'%s' does not tell its priorities" % tool
        return
    wanted = {int(dscp): int(priority) for dscp, priority in asked["dscp"].items()}
    dscp, pfc = found
    if tool == "mlnx_qos" and wanted:
        # The adapter has a priority for each DSCP; the others are not declared.
        dscp = {key: value for key, value in dscp.items() if key in wanted}
    if dscp != wanted:
        yield "priorities of DSCP"
    if pfc != sorted(int(one) for one in asked["pfc"]):
        yield "priority flow control"


def stale_interfaces(asked, place):
    if place == "container":
        return {}
    found = {}
    for name in asked["interfaces"]:
        problems = [*roce_problems(asked, name), *qos_problems(asked, name)]
        if problems:
            found[name] = problems
    return found


def stale_pci(asked, place):
    """PCI registers that are not as declared: ``(address, register, value:mask)``."""
    if place == "container":
        return
    wanted = []
    for address in (one["pci"] for one in asked["devices"] if one.get("pci")):
        if asked["max_read_request"] != "leave":
            code = (int(asked["max_read_request"]) // 128).bit_length() - 1
            wanted.append((address, "CAP_EXP+8.w", code << 12, 0x7000))
        if asked["relaxed_ordering"] != "leave":
            on = asked["relaxed_ordering"] == "enabled"
            wanted.append((address, "CAP_EXP+8.w", 0x10 if on else 0, 0x10))
    wanted += [(address, "ECAP_ACS+6.w", 0, 0xC) for address in asked["acs_off"]]
    for address, register, value, mask in wanted:
        code, text = run("setpci", "-s", address, register)
        if code or int(text.strip() or "0", 16) & mask != value:
            yield "%s %s" % (address, register)


def modules_missing(asked, place):
    if place == "container":
        return []
    return [name for name in asked["modules"] if not os.path.exists("/sys/module/" + name)]


def namespaces(asked, place):
    """The mode of network namespaces now; empty where it is not ours."""
    if asked["netns"] == "leave" or place == "container":
        return ""
    code, text = run("rdma", "system", "show")
    found = re.match(r"netns (shared|exclusive)", text)
    return found.group(1) if code == 0 and found else "unknown"


def soft_devices(place):
    """Names of soft-RoCE devices by interface."""
    if place == "container":
        return {}
    paths = glob.glob("/sys/class/infiniband/*/parent")
    return {text_of(path): path.split("/")[4] for path in paths}


# Units


def instances():
    """Instances of our units that are started with something."""
    paths = glob.glob("/etc/systemd/system/*.wants/hfprov-r*@*.service")
    names = {os.path.basename(path) for path in paths}
    return {name for name in names if re.match(r"hfprov-(rdma|rxe)@.", name)}


def units(names):
    """Properties of each unit, in order."""
    wanted = "LoadState,UnitFileState,NeedDaemonReload,Result"
    text = run("systemctl", "show", "--property=" + wanted, *names)[1]
    return [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in text.strip().split("\n\n")
    ]


def of_units(asked):
    found = dict(zip(asked["units"], units(asked["units"])))
    return {
        "disabled_units": [n for n, one in found.items() if one["UnitFileState"] != "enabled"],
        "unknown_units": [n for n, one in found.items() if one["LoadState"] == "not-found"],
        "failed_units": [n for n, one in found.items() if one["Result"] != "success"],
        "reload_needed": any(one["NeedDaemonReload"] == "yes" for one in found.values()),
        "leftovers": sorted(instances() - set(asked["units"])),
    }


def main(asked):
    place, installed = machine(), packages()
    soft = soft_devices(place)
    found = halves(installed, place)
    namespace = namespaces(asked, place)
    answer = {
        "machine": place,
        "problems": [
            *stack_problems(asked, found), *device_problems(asked), *number_problems(asked),
            *name_problems(asked), *kernel_problems(asked, place),
        ],
        "missing_packages": [name for name in asked["packages"] if name not in installed],
        "missing_modules": modules_missing(asked, place),
        "missing_devices": [] if place == "container" else list(missing_devices(asked)),
        "missing_rxe": [] if place == "container" else sorted(set(asked["rxe"]) - set(soft)),
        "stale_pci": [],
        "stale_interfaces": stale_interfaces(asked, place),
        "namespaces": namespace,
        "namespaces_stale": bool(namespace) and namespace != asked["netns"],
    }  # fmt: skip
    if not answer["problems"]:
        answer["stale_pci"] = list(stale_pci(asked, place))
    answer.update(of_units(asked))
    undeclared = [re.sub(r"hfprov-rxe@(.+)\.service$", r"\1", n) for n in answer["leftovers"]]
    answer["surplus_rxe"] = sorted(soft[name] for name in undeclared if name in soft)
    return answer


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
