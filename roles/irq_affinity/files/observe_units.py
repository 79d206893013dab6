"""Say of our units and of irqbalance what systemd knows and runs, as JSON. Changes nothing.

Arguments: the service, the timer, irqbalance's unit, the policy script that it must run with.
Standard library only, any Python from 3.6.
"""

import json
import shutil
import subprocess
import sys

WANTED = "LoadState,ActiveState,UnitFileState,NeedDaemonReload,MainPID"


def show(unit):
    done = subprocess.run(
        ["systemctl", "show", "--property=" + WANTED, "--", unit],
        stdout=subprocess.PIPE, timeout=20, check=True,
    )  # fmt: skip
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def policies(pid):
    """The policy scripts on the command line of a process; the last one counts."""
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as handle:
            words = handle.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return []
    return [word.split("=", 1)[1] for word in words if word.startswith("--policyscript=")]


def main(service, timer, balancer, policy):
    ours, ticks, other = show(service), show(timer), show(balancer)
    runs = other["ActiveState"] in ("active", "activating", "reloading")
    return {
        "ethtool": shutil.which("ethtool", path="/usr/sbin:/sbin:/usr/bin") is not None,
        "known": ours["LoadState"] == "loaded" and ticks["LoadState"] == "loaded",
        "reload_needed": [
            name
            for name, one in ((service, ours), (timer, ticks), (balancer, other))
            if one["NeedDaemonReload"] == "yes"
        ],
        "timer_runs": ticks["ActiveState"] == "active",
        "balancer_known": other["LoadState"] == "loaded",
        "balancer_strays": runs and policies(other["MainPID"])[-1:] != [policy],
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
