"""Spread the interrupts of NIC queues over physical cores near the NIC. See the role's README.

    irq_affinity.py plan      where each interrupt belongs, and where it is
    irq_affinity.py status    the same, with what would be changed; changes nothing
    irq_affinity.py apply     change what is not as planned, and read it back

Prints JSON. ``apply`` ends with 1 when something could not be made as planned. Standard library
only, any Python from 3.6.
"""

import argparse
import errno
import fcntl
import json
import os
import sys

from irq_plan import CONFIG, STATE, Node, Survey, load, machine_of, malformed, state_of, status

MANAGED = (errno.EIO, errno.EPERM)
"""What the kernel answers for an interrupt whose affinity is its own: EIO, newer kernels EPERM."""


def set_up(survey, before):
    """Have ethtool change what differs. What a driver rounded or refused is not asked for again.

    Each change takes the link down for a moment: asking every minute would keep it down.
    """
    asked, problems = {}, []
    for name, changes in survey.settings.items():
        index = survey.node.read("/sys/class/net/%s/ifindex" % name)
        for option in sorted({change[0] for change in changes}, reverse=True):
            words = [w for change in changes if change[0] == option for w in change[1:3]]
            what = " ".join(["ethtool", option, name] + words)
            asked[what] = index
            if before.get(what) == index:
                problems.append("'%s' did not take effect when it was asked before." % what)
                continue
            code, _, complaint = survey.node.ethtool(option, name, *words)
            if code:
                problems.append("'%s' ended with %d: %s" % (what, code, complaint[:200]))
    return asked, problems


def move(node, survey):
    """Move interrupts. Gives what became of each, and problems."""
    results, problems = {}, []
    for irq, row in survey.misplaced().items():
        path = "/proc/irq/%d/smp_affinity_list" % irq
        try:
            node.write(path, str(row["cpu"]))
        except FileNotFoundError:
            results[irq] = "vanished"
            continue
        except OSError as error:
            if error.errno in MANAGED:
                results[irq] = "managed"
                continue
            results[irq] = "refused"
            problems.append(
                "Interrupt %d (%s) cannot be moved to CPU %d: %s."
                % (irq, row["name"], row["cpu"], error.strerror)
            )
            continue
        now = node.read(path, "gone")
        results[irq] = "moved" if now == str(row["cpu"]) else "refused"
        if now != str(row["cpu"]):
            problems.append(
                "Interrupt %d (%s) was moved to CPU %d, and is on %s again."
                % (irq, row["name"], row["cpu"], now)
            )
    return results, problems


def steer(node, survey):
    problems = []
    for path, mask in survey.steering():
        try:
            node.write(path, mask)
        except OSError as error:
            problems.append("'%s' cannot be set to %s: %s." % (path, mask, error.strerror))
    return problems


def counts(node, survey, irq):
    """How often an interrupt has come, by CPU; only CPUs where it has."""
    words = node.read("/sys/kernel/irq/%d/per_cpu_count" % irq).split(",")
    pairs = zip(survey.topology.possible, words)
    return {str(cpu): int(word) for cpu, word in pairs if word.isdigit() and word != "0"}


def record(node, survey, irq, results, before):
    """What the state file says of one interrupt: where it belongs, and where it came before."""
    row = survey.plan[irq]
    old = before.get("interrupts", {}).get(str(irq), {})
    result = results.get(irq, "in place")
    stayed = result in ("in place", "managed") and before.get("boot_id") == boot_id(node)
    now = counts(node, survey, irq)
    known = stayed and all(old.get(key) == row[key] for key in ("name", "cpu"))
    # An interrupt that was given back and asked for again counts from zero.
    known = known and all(now.get(cpu, 0) >= count for cpu, count in old["before"].items())
    return {
        "interface": row["interface"], "name": row["name"], "cpu": row["cpu"],
        "result": old["result"] if known and result == "in place" else result,
        # What comes after it was moved must come to its CPU.
        "before": old["before"] if known else now,
    }  # fmt: skip


def boot_id(node):
    return node.read("/proc/sys/kernel/random/boot_id")


def apply(node, config):
    """Make the node as planned. Gives the report; writes the state file."""
    before = state_of(node)
    survey = Survey(node, config)
    asked, problems = set_up(survey, before.get("asked", {}))
    if asked:
        # New channels are new interrupts.
        survey = Survey(node, config)
        left = {
            "ethtool %s %s " % (row[0], name)
            for name, rows in survey.settings.items()
            for row in rows
        }
        asked = {what: asked[what] for what in asked if what.startswith(tuple(left))}
    results, unmoved = move(node, survey)
    problems = survey.refusals + survey.problems + problems + unmoved + steer(node, survey)
    rows = {str(irq): record(node, survey, irq, results, before) for irq in survey.plan}
    state = {"boot_id": boot_id(node), "interrupts": rows, "asked": asked, "problems": problems}
    target = node.path(STATE)
    with open(target + ".new", "w", encoding="ascii") as handle:
        json.dump(state, handle, sort_keys=True)
    os.replace(target + ".new", target)
    return dict(state, changed=bool(results or asked))


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["plan", "status", "apply"])
    parser.add_argument("--config", default=CONFIG, help="a file, or JSON text")
    parser.add_argument("--root", default="/", help="a directory that stands for /")
    parser.add_argument("--json", action="store_true", help="accepted; JSON is the only form")
    asked = parser.parse_args(argv)
    node, config = Node(asked.root), load(asked.config)
    if asked.command != "apply":
        answer = status(node, config, machine_of(asked.root))
        print(json.dumps(answer["interrupts"] if asked.command == "plan" else answer))
        return 0
    problems = malformed(config)
    if not problems:
        # The unit at boot, udev and the timer may come together.
        with open(node.path(STATE + ".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            report = apply(node, config)
        print(json.dumps(report))
        problems = report["problems"]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
