"""Say how this node keeps its time, as JSON. Changes nothing.

Standard library only, any Python from 3.6. The argument is a JSON object: the servers, the names of
units, files and directories.
"""

import glob
import itertools
import json
import os
import subprocess
import sys


def output_of(*argv):
    """Standard output of a command, and whether it succeeded. A missing command has failed."""
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", False
    return done.stdout.decode("utf-8", "replace"), done.returncode == 0


def units(names):
    """Properties per unit, in the order of the names."""
    wanted = "--property=LoadState,ActiveState,UnitFileState,MainPID,ActiveEnterTimestamp"
    text, _ = output_of("systemctl", "show", "--timestamp=unix", wanted, *names)
    blocks = text.strip().split("\n\n")
    return [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks
    ]


def is_rival(unit):
    return unit["LoadState"] == "loaded" and (
        unit["ActiveState"] in ("active", "activating", "reloading")
        or unit["UnitFileState"].startswith("enabled")
    )


def arguments_of(pid):
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as handle:
            return handle.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def stale(asked, unit):
    """Sentences on what the running chronyd does not do as declared."""
    text, answered = output_of("chronyc", "-c", "-N", "sources")
    if not answered:
        yield "chronyd does not answer."
        return
    names = {line.split(",")[2] for line in text.splitlines() if line.count(",") > 2}
    if names != set(asked["servers"]):
        yield "chronyd follows '%s'." % "', '".join(sorted(names))
    if ("-x" in arguments_of(unit["MainPID"])) == asked["control_clock"]:
        yield "chronyd runs with the wrong right to set the clock."
    started = int(unit["ActiveEnterTimestamp"].lstrip("@") or 0)
    found = [glob.glob(os.path.join(path, "*.conf")) for path in asked["directories"]]
    for path in sorted({*asked["files"], *itertools.chain(*found)}):
        if os.path.exists(path) and int(os.path.getmtime(path)) > started:
            yield "chronyd was started before '%s' was last written." % path


def amends(state, service):
    """What systemctl must do so that systemd knows the service and starts it at boot."""
    masks = {"masked": ["unmask"], "masked-runtime": ["unmask", "--runtime"]}
    if state in masks:
        return [masks[state]]
    linked = glob.glob("/etc/systemd/system/*.wants/" + glob.escape(service))
    return [["reenable"]] if state == "enabled" and not linked else []


def main(asked):
    chrony, *others = units([asked["service"]] + asked["rivals"])
    running = chrony["ActiveState"] == "active"
    needed = amends(chrony["UnitFileState"], asked["service"])
    unfit = ["systemd does not start chrony at boot."] if needed else []
    return {
        "systemctl": needed,
        "installed": chrony["LoadState"] != "not-found",
        "rivals": [name for name, unit in zip(asked["rivals"], others) if is_rival(unit)],
        "stale": unfit + (list(stale(asked, chrony)) if running else []),
        "missing_directories": [path for path in asked["directories"] if not os.path.isdir(path)],
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
