"""Say what of the limits is in effect on this node, as JSON. Changes nothing.

Standard library only, any Python from 3.6. The argument is a JSON object: the wanted limits as pam
writes them, the services, the files that the role will write.
"""

import json
import os
import resource
import subprocess
import sys

UNLIMITED = resource.RLIM_INFINITY
# name: (resource, bytes per unit, name in /proc/PID/limits, name in systemd, variable of the role)
LIMITS = {
    "memlock": (
        resource.RLIMIT_MEMLOCK, 1024, "Max locked memory", "MEMLOCK", "limits_memlock_kib",
    ),
    "nofile": (resource.RLIMIT_NOFILE, 1, "Max open files", "NOFILE", "limits_nofile"),
    "nproc": (resource.RLIMIT_NPROC, 1, "Max processes", "NPROC", "limits_nproc"),
    "stack": (resource.RLIMIT_STACK, 1024, "Max stack size", "STACK", "limits_stack_kib"),
}  # fmt: skip


def output_of(*argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=20, check=True)
    return done.stdout.decode("utf-8", "replace")


def amounts(asked):
    """Wanted (soft, hard) per limit, in bytes where they are bytes."""
    wanted = {}
    for name, (_, unit, _, _, variable) in LIMITS.items():
        if asked[name] == "unlimited":
            soft = UNLIMITED
        elif asked[name].isdigit() and int(asked[name]) > 0:
            soft = int(asked[name]) * unit
        else:
            sys.exit("'%s' must be 'unlimited' or a number, not '%s'." % (variable, asked[name]))
        wanted[name] = (soft, UNLIMITED if name == "stack" else soft)
    return wanted


def is_settable(kind, soft, hard):
    """Whether a child of ours may set this limit. A child, so that ours stay as they are."""
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError):
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def misnamed(asked):
    """Sentences on service names that would be passed over without a word."""
    for variable in ("services", "restart_services"):
        for name in asked[variable]:
            if name.endswith(".service"):
                yield "Write '%s' in 'limits_%s' without '.service'." % (name, variable)


def is_within(wanted, most):
    return most == UNLIMITED or (wanted != UNLIMITED and wanted <= most)


def refusals(wanted):
    """Sentences on limits that cannot be set here; pam and systemd would pass over them quietly."""
    # What is started anew descends from systemd: this login may have less, and get more.
    first = process_limits(1)
    for name, (kind, unit, _, _, variable) in LIMITS.items():
        soft, hard = wanted[name]
        most = first[name][1]
        # The hard limit of the stack is left as it is, so only the soft one must be settable.
        if name == "stack":
            hard = soft
        if is_within(hard, most) or is_settable(kind, soft, hard):
            continue
        top = "unlimited" if most == UNLIMITED else most // unit
        yield (
            "Root of this node may not raise the limit '%s' above %s (no CAP_SYS_RESOURCE, as in "
            "many containers), and pam_limits and systemd would pass over it with a line in the "
            "log: set '%s' to at most %s for this host." % (name, top, variable, top)
        )


def properties(names, units):
    """One dict per unit, in order; of the manager itself when there are no units."""
    text = output_of("systemctl", "show", "--property=" + ",".join(names), *units)
    return [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in text.strip().split("\n\n")
    ]


def differs(wanted, seen):
    """Whether some (soft, hard) that were seen are not the wanted ones."""
    for name, (soft, hard) in wanted.items():
        if seen[name][0] != soft or (name != "stack" and seen[name][1] != hard):
            return True
    return False


def amount(text):
    # Older systemd prints infinity as the largest 64-bit number.
    return UNLIMITED if text in ("infinity", "unlimited", str(2**64 - 1)) else int(text)


def manager_differs(wanted):
    names = ["DefaultLimit" + row[3] + part for row in LIMITS.values() for part in ("", "Soft")]
    found = properties(names, [])[0]
    seen = {
        name: (
            amount(found["DefaultLimit%sSoft" % row[3]]),
            amount(found["DefaultLimit%s" % row[3]]),
        )
        for name, row in LIMITS.items()
    }
    return differs(wanted, seen)


def process_differs(wanted, pid):
    try:
        return differs(wanted, process_limits(pid))
    except OSError:
        # It has ended meanwhile.
        return False


def process_limits(pid):
    """Limits (soft, hard) of a running process."""
    with open("/proc/%d/limits" % pid) as handle:
        lines = handle.read().splitlines()
    seen = {}
    for name, row in LIMITS.items():
        line = next(line for line in lines if line.startswith(row[2]))
        soft, hard = line[len(row[2]) :].split()[:2]
        seen[name] = (amount(soft), amount(hard))
    return seen


def removes_ipc():
    """What the running logind does; None when there is none to ask."""
    service = "org.freedesktop.login1"
    path, interface = "/org/freedesktop/login1", service + ".Manager"
    try:
        text = output_of("busctl", "get-property", service, path, interface, "RemoveIPC")
    except (OSError, subprocess.SubprocessError):
        return None
    return text.split() == ["b", "true"]


def main(asked):
    wanted = amounts(asked)
    names = [name + ".service" for name in asked["services"]]
    units = properties(
        ["Id", "LoadState", "MainPID", "NeedDaemonReload"], ["user@0.service", *names]
    )
    user, services = units[0], {}
    for unit in units[1:]:
        # An alias and its unit have one Id. A masked service never starts.
        if unit["LoadState"] == "loaded":
            services[unit["Id"]] = unit
    drop_ins = [
        os.path.join("/etc/systemd/system", unit + ".d", asked["drop_in"])
        for unit in ["user@.service", *sorted(services)]
    ]
    directories = sorted({os.path.dirname(path) for path in asked["files"] + drop_ins})
    return {
        "problems": [*misnamed(asked), *refusals(wanted)],
        "drop_ins": drop_ins,
        "missing_directories": [path for path in directories if not os.path.isdir(path)],
        "reload_needed": manager_differs(wanted)
        or any(unit["NeedDaemonReload"] == "yes" for unit in [user, *services.values()]),
        "logind_stale": removes_ipc() == (not asked["remove_ipc"]),
        "stale_services": sorted(
            name[: -len(".service")]
            for name, unit in services.items()
            if unit["MainPID"] != "0" and process_differs(wanted, int(unit["MainPID"]))
        ),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
