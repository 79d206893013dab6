"""Where the interrupts of NIC queues belong, and what differs from that. Changes nothing.

    irq_plan.py CONFIG [ROOT]

CONFIG is a file or JSON text, ROOT a directory that stands for ``/``; prints JSON. Standard library
only, any Python from 3.6. One file, though it is long: the role runs it as an argument of Python,
before anything of it is on the node.
"""

import json
import os
import re
import subprocess
import sys

CONFIG = "/etc/hfprov/irq-affinity.json"
STATE = "/run/hfprov-irq-affinity.json"
MOST_CPUS = 65536
PCI_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
CONTROL = re.compile(
    r"async|config|misc|ctrl|mgmn?t|admin|aeq|cmd|mbx|mbox|event|pages|ptp", re.IGNORECASE
)
QUEUE = re.compile(
    r"(?:comp|[-_.](?:tx-?rx|rx-?tx|rx|tx|input|output|fp|q|queue|ring|blk|ceq|nq)?[-_.]?)(\d+)$",
    re.IGNORECASE,
)


# Lists and masks of CPUs


def parse_list(text):
    """CPUs of ``0-3,8``, as a sorted list. Raises ValueError for anything else."""
    cpus = set()
    for part in text.strip().split(",") if text.strip() else []:
        first, dash, last = part.partition("-")
        numbers = first, last if dash else first
        # int() would take signs, underscores and digits of other scripts as well.
        low, high = (int(one) if one and set(one) <= set("0123456789") else -1 for one in numbers)
        if not 0 <= low <= high < MOST_CPUS:
            raise ValueError("'%s' is not a list of CPUs." % text.strip()[:60])
        cpus.update(range(low, high + 1))
    return sorted(cpus)


def parse_mask(text):
    """CPUs of a mask in groups of 32 bits: ``00000001,00000000`` is CPU 32."""
    value = int("".join(part.rjust(8, "0") for part in text.strip().split(",")), 16)
    return [cpu for cpu in range(value.bit_length()) if value >> cpu & 1]


def format_mask(cpus):
    """A mask as the kernel takes it: groups of exactly eight digits, none of them left out."""
    value = sum(1 << cpu for cpu in set(cpus))
    digits = "%x" % value
    digits = digits.rjust(-(-len(digits) // 8) * 8, "0")
    return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))


# The node


class Node:
    """Files below a root directory, and ethtool."""

    def __init__(self, root="/"):
        self.root = root

    def path(self, path):
        return os.path.join(self.root, path.lstrip("/"))

    def real(self, path):
        """Where a path leads to, below the root as well."""
        root = os.path.realpath(self.root)
        return "/" + os.path.relpath(os.path.realpath(self.path(path)), root)

    def read(self, path, missing=""):
        """Text of a file; ``missing`` where there is none, or the driver refuses to say."""
        try:
            with open(self.path(path), encoding="utf-8", errors="replace") as handle:
                return handle.read().strip()
        except OSError:
            return missing

    def write(self, path, text):
        """Write in one call, as sysfs wants it. Raises OSError with the kernel's answer."""
        fd = os.open(self.path(path), os.O_WRONLY)
        try:
            os.write(fd, text.encode("ascii"))
        finally:
            os.close(fd)

    def names(self, path):
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def exists(self, path):
        return os.path.exists(self.path(path))

    def ethtool(self, *arguments):
        """(exit code, output, complaint)."""
        try:
            done = subprocess.run(
                ("ethtool",) + arguments,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return 127, "", str(error)
        out, err = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
        return done.returncode, out, err.strip() or out.strip()


# Which cores there are


class Topology:
    """Cores that interrupts may use: all their running CPUs are neither isolated nor reserved."""

    def __init__(self, node, reserved):
        cpu = "/sys/devices/system/cpu/"
        online = parse_list(node.read(cpu + "online"))
        self.possible = parse_list(node.read(cpu + "possible")) or online
        self.online = set(online)
        kept = set(parse_list(reserved))
        for name in ("isolated", "nohz_full"):
            text = node.read(cpu + name)
            kept.update(parse_list(text) if re.match(r"[0-9,-]+$", text) else [])
        self.threads = {}
        for one in online:
            text = node.read("%scpu%d/topology/thread_siblings_list" % (cpu, one), str(one))
            self.threads[one] = tuple(sorted(self.online & set(parse_list(text)) | {one}))
        self.cores = sorted(set(self.threads.values()))
        self.usable = [core for core in self.cores if not kept & set(core)]
        self.nodes, self.distances = {}, {}
        for name in node.names("/sys/devices/system/node"):
            if re.match(r"node[0-9]+$", name):
                place = "/sys/devices/system/node/" + name
                number = int(name[4:])
                self.nodes[number] = set(parse_list(node.read(place + "/cpulist"))) & self.online
                self.distances[number] = node.read(place + "/distance").split()

    def near(self, number):
        """Usable cores of a NUMA node; all of them where the firmware did not say which it is.

        A node without CPUs (memory only) stands for the nearest node that has some.
        """
        if number not in self.nodes:
            return self.usable
        if not self.nodes[number]:
            with_cpus = [other for other in sorted(self.nodes) if self.nodes[other]]
            row = [int(word) for word in self.distances[number]]
            known = dict(zip(sorted(self.nodes), row))
            number = min(with_cpus, key=lambda other: (known.get(other, 0), other))
        return [core for core in self.usable if core[0] in self.nodes[number]]


def spread(queues, smt):
    """CPU by queue. ``queues``: for each adapter its name, its cores and its queues' numbers.

    The least used core comes first, so that no core gets two queues while one it could use has
    none. Adapters with fewer cores to choose from come first.
    """
    on_core, on_cpu, found = {}, {}, {}
    for name, cores, numbers in sorted(queues, key=lambda one: (len(one[1]), one[0])):
        for number in numbers if cores else []:
            core = min(cores, key=lambda one: (on_core.get(one, 0), one))
            threads = core if smt == "threads" else core[:1]
            cpu = min(threads, key=lambda one: (on_cpu.get(one, 0), one))
            on_core[core] = on_core.get(core, 0) + 1
            on_cpu[cpu] = on_cpu.get(cpu, 0) + 1
            found[name, number] = cpu
    return found


# Which adapters and interrupts there are


def adapters(node, name, seen=None):
    """Interfaces with hardware at the bottom of one: members of a bond, what a VLAN is on."""
    seen = set() if seen is None else seen
    if name in seen:
        return []
    seen.add(name)
    place = "/sys/class/net/" + name
    if node.exists(place + "/device"):
        return [name]
    below = [one[6:] for one in node.names(place) if one.startswith("lower_")]
    return [found for one in below for found in adapters(node, one, seen)]


def device_of(node, name):
    """Path of an adapter's PCI device below the root; a virtio device is below its own."""
    path = node.real("/sys/class/net/%s/device" % name)
    while path.startswith("/sys/"):
        if node.exists(path + "/msi_irqs") or re.match(PCI_ADDRESS + "$", os.path.basename(path)):
            return path
        path = os.path.dirname(path)
    return ""


def queue_number(action, interface, alone):
    """The number of the queue that an interrupt belongs to; None for one that serves no queue."""
    plain = re.sub(r"@.*|" + PCI_ADDRESS, "", action.replace(interface, ""), flags=re.IGNORECASE)
    match = QUEUE.search(plain)
    if match and not CONTROL.search(plain):
        return int(match.group(1))
    return 0 if alone else None


def interrupts_of(node, name):
    """Interrupts of an adapter that are in use: (number, name, queue)."""
    device = device_of(node, name)
    listed = node.names(device + "/msi_irqs") if device else []
    if device and not listed:
        listed = [node.read(device + "/irq", "0")]
    numbers = sorted(int(one) for one in listed if one.isdigit() and int(one) > 0)
    # The number of a vector that the driver has not asked for is listed, without a directory.
    there = [one for one in numbers if node.exists("/proc/irq/%d/smp_affinity_list" % one)]
    actions = {one: node.read("/sys/kernel/irq/%d/actions" % one) for one in there}
    used = [one for one in there if actions[one]]
    return [(one, actions[one], queue_number(actions[one], name, len(used) == 1)) for one in used]


# What is wanted of an adapter


def sizes(text):
    """``ethtool -l`` or ``-g``: (largest, current) by name; only what is a number."""
    blocks, into = ({}, {}), None
    for line in text.splitlines():
        key, _, value = (part.strip().lower() for part in line.partition(":"))
        if key == "pre-set maximums":
            into = blocks[0]
        elif key == "current hardware settings":
            into = blocks[1]
        elif into is not None and value.isdigit():
            into[key] = int(value)
    return blocks


def moderation(text):
    """``ethtool -c`` as the words that ``-C`` takes: ``adaptive-rx`` on or off, ``rx-usecs`` 8."""
    found = {}
    for line in text.splitlines():
        both = re.match(r"Adaptive RX:\s*(\S+)\s+TX:\s*(\S+)", line)
        one = re.match(r"([a-z-]+):\s*([0-9]+)\s*$", line)
        if both:
            found["adaptive-rx"], found["adaptive-tx"] = both.groups()
        elif one:
            found[one.group(1)] = one.group(2)
    return found


class Wanted:
    """What ethtool has to change on one adapter, and what it cannot be told."""

    def ask(self, node, option):
        code, text, complaint = node.ethtool(option, self.name)
        if code and "not supported" not in complaint:
            self.problems.append("'ethtool %s %s': %s" % (option, self.name, complaint[:200]))
        return "" if code else text

    def __init__(self, node, config, name, most_channels):
        self.changes, self.problems, self.name = [], [], name
        self.channels(node, str(config["channels"]), most_channels)
        for side in ("rx", "tx"):
            self.ring(node, side, str(config["ring_" + side]))
        if config["coalescing"]:
            self.coalescing(node, config["coalescing"])

    def add(self, option, key, wanted, current):
        if str(wanted) != str(current):
            self.changes.append((option, key, str(wanted), str(current)))

    def refuse(self, what, wanted, most):
        self.problems.append(
            "'%s' cannot have %s %s: its driver allows %s." % (self.name, wanted, what, most)
        )

    def channels(self, node, wanted, cores):
        if wanted == "leave":
            return
        largest, current = sizes(self.ask(node, "-l"))
        kinds = [kind for kind in ("combined", "rx", "tx") if largest.get(kind)]
        if not kinds:
            if wanted != "auto":
                self.refuse("channels", wanted, "no choice")
            return
        for kind in kinds[:1] if kinds[0] == "combined" else kinds:
            number = min(cores, largest[kind]) if wanted == "auto" else int(wanted)
            if number > largest[kind]:
                self.refuse("channels", number, "at most %d" % largest[kind])
            elif number:
                self.add("-L", kind, number, current.get(kind))

    def ring(self, node, side, wanted):
        if wanted == "leave":
            return
        largest, current = sizes(self.ask(node, "-g"))
        if not largest.get(side):
            self.refuse("descriptors per %s ring" % side, wanted, "no choice")
        elif wanted != "max" and int(wanted) > largest[side]:
            what = "descriptors per %s ring" % side
            self.refuse(what, wanted, "at most %d" % largest[side])
        else:
            number = largest[side] if wanted == "max" else int(wanted)
            self.add("-G", side, number, current.get(side))

    def coalescing(self, node, wanted):
        current = moderation(self.ask(node, "-c"))
        for key, value in sorted(wanted.items()):
            text = {True: "on", False: "off"}.get(value, str(value))
            if key in current:
                self.add("-C", key, text, current[key])
            else:
                self.problems.append("'%s' has no setting '%s' in ethtool -c." % (self.name, key))


# What is, and what must be done


def malformed(config):
    """What of the configuration has no meaning on any node, in sentences."""
    problems = []
    for key, words in (("channels", "auto"), ("ring_rx", "max"), ("ring_tx", "max")):
        if not re.match(r"(leave|%s|[1-9][0-9]{0,5})$" % words, str(config[key])):
            shown = (key, words, config[key])
            problems.append("'irq_affinity_%s' is 'leave', '%s' or a number, not '%s'." % shown)
    try:
        parse_list(config["reserved_cpus"])
    except ValueError:
        shown = config["reserved_cpus"][:60]
        problems.append("'irq_affinity_reserved_cpus' is '%s', which is no CPU list." % shown)
    if not config["interfaces"]:
        problems.append("No data interface is declared: 'jumbo_mtu_interfaces' is empty.")
    bad = [one for one in config["interfaces"] if not re.match(r"[A-Za-z0-9_.@-]{1,15}$", one)]
    return problems + ["'%s' cannot be the name of an interface." % name for name in bad]


def unsuited(node, config, topology):
    """What of the configuration this node cannot have, in sentences."""
    problems = []
    for name in config["interfaces"]:
        if not node.exists("/sys/class/net/" + name):
            there = ", ".join(one for one in node.names("/sys/class/net") if one != "lo")
            problems.append("There is no interface '%s'; there are: %s." % (name, there))
    beyond = set(parse_list(config["reserved_cpus"])) - set(topology.possible)
    if beyond:
        problems.append("This node has no CPU %d, which is reserved." % min(beyond))
    if not topology.usable:
        problems.append("Every core is isolated or reserved: none is left for interrupts.")
    return problems


class Survey:
    """The node as it is now, against the plan."""

    def __init__(self, node, config):
        self.node, self.config = node, config
        self.topology = Topology(node, config["reserved_cpus"])
        self.refusals = unsuited(node, config, self.topology)
        self.problems, self.settings, self.adapters = [], {}, {}
        names = set()
        for name in config["interfaces"]:
            below = adapters(node, name)
            names.update(below)
            if not below and node.exists("/sys/class/net/" + name):
                self.problems.append("'%s' has no adapter below it." % name)
        for name in sorted(names):
            self.look_at(name)
        self.place()

    def look_at(self, name):
        text = self.node.read(device_of(self.node, name) + "/numa_node", "-1")
        number = int(text) if re.match(r"-?[0-9]+$", text) else -1
        cores = self.topology.near(number)
        threads = sum(len(core) for core in cores)
        most = threads if self.config["smt"] == "threads" else len(cores)
        wanted = Wanted(self.node, self.config, name, most)
        found = interrupts_of(self.node, name)
        flags = self.node.read("/sys/class/net/%s/flags" % name, "0x0")
        up = bool(int(flags, 16) & 1)
        self.settings[name] = wanted.changes
        self.problems += wanted.problems
        if not cores:
            self.problems.append("'%s': no core of NUMA node %d is left." % (name, number))
        if up and not any(queue is not None for _, _, queue in found):
            self.problems.append("'%s' is up, and no interrupt of a queue was found." % name)
        self.adapters[name] = {"node": number, "cores": cores, "up": up, "interrupts": found}

    def place(self):
        """Give each queue a CPU. An interrupt that two interfaces share is placed once."""
        queues, taken = [], set()
        for name, one in self.adapters.items():
            mine = [row for row in one["interrupts"] if row[2] is not None and row[0] not in taken]
            taken.update(row[0] for row in mine)
            one["placed"] = mine
            queues.append((name, one["cores"], sorted({row[2] for row in mine})))
        found = spread(queues, self.config["smt"])
        self.plan = {
            row[0]: {
                "interface": name, "name": row[1], "queue": row[2], "cpu": found[name, row[2]],
                "now": self.node.read("/proc/irq/%d/smp_affinity_list" % row[0]),
                "effective": self.node.read("/proc/irq/%d/effective_affinity_list" % row[0]),
            }
            for name, one in self.adapters.items()
            for row in one["placed"]
            if (name, row[2]) in found
        }  # fmt: skip

    def misplaced(self):
        return {irq: row for irq, row in self.plan.items() if row["now"] != str(row["cpu"])}

    def steering(self):
        """(path, mask) of each file of RPS and XPS that is not as wanted."""
        for name in self.adapters:
            place = "/sys/class/net/%s/queues/" % name
            cpus = {r["queue"]: r["cpu"] for r in self.plan.values() if r["interface"] == name}
            senders = [one for one in self.node.names(place) if one.startswith("tx-")]
            for one in self.node.names(place):
                number = int(one[3:]) if one[3:].isdigit() else -1
                if one.startswith("rx-") and self.config["rps"] == "off":
                    yield from self.differing(place + one + "/rps_cpus", [])
                # With a single queue there is nothing to choose: the kernel refuses the file.
                matched = self.config["xps"] == "match" and len(senders) > 1
                if one in senders and matched and number in cpus:
                    threads = self.topology.threads[cpus[number]]
                    yield from self.differing(place + one + "/xps_cpus", list(threads))

    def differing(self, path, wanted):
        text = self.node.read(path)
        if text and parse_mask(text) != wanted:
            yield path, format_mask(wanted)

    def stale(self, managed=()):
        """What would be changed, in words; interrupts that only the kernel moves are left out."""
        for name, changes in self.settings.items():
            for option, key, wanted, current in changes:
                yield "ethtool %s %s %s %s (now %s)" % (option, name, key, wanted, current)
        for irq, row in self.misplaced().items():
            if irq not in managed:
                words = (irq, row["name"], row["cpu"], row["now"])
                yield "interrupt %d (%s): CPU %d (now %s)" % words
        for path, mask in self.steering():
            yield "%s: %s" % (path, mask)


# The answer


def status(node, config, machine):
    """What is, and what would be changed; in a container nothing, as its host has the hardware."""
    answer = {"machine": machine, "problems": [], "stale": [], "managed": [], "interrupts": {}}
    refusals = malformed(config)
    if refusals or machine == "container":
        return dict(answer, refusals=refusals)
    survey = Survey(node, config)
    rows = state_of(node).get("interrupts", {})
    managed = {int(irq) for irq, row in rows.items() if row.get("result") == "managed"}
    return dict(
        answer,
        refusals=survey.refusals,
        problems=survey.problems,
        stale=list(survey.stale(managed)),
        managed=sorted(managed & set(survey.plan)),
        interrupts=survey.plan,
    )


def state_of(node):
    """What the last ``apply`` has written; empty where there was none."""
    try:
        return json.loads(node.read(STATE, "{}"))
    except ValueError:
        return {}


def load(config):
    """The configuration from JSON text or from a file."""
    if config.startswith("{"):
        return json.loads(config)
    with open(config, encoding="utf-8") as handle:
        return json.load(handle)


def machine_of(root):
    if root != "/":
        return "made up"
    done = subprocess.run(
        ["systemd-detect-virt", "--container"], stdout=subprocess.PIPE, timeout=20, check=False
    )
    return "container" if done.returncode == 0 else "machine"


def main(config, root="/"):
    print(json.dumps(status(Node(root), load(config), machine_of(root))))


if __name__ == "__main__":
    main(*sys.argv[1:])
