"""Say which tools run on this node and in what version, as JSON. Changes nothing.

Standard library only, any Python from 3.6. The argument is a JSON object: the tools with how each
is asked, their packages, the services that must be off or on, the elements of STREAM (0: none).
"""

import glob
import hashlib
import json
import os
import re
import subprocess
import sys

STREAM = ("/usr/local/src/hfprov/stream.c", "/usr/local/bin/stream")
STAMP = "/usr/local/src/hfprov/stream.stamp"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rocm/bin"


def run(argv):
    """Exit code and text of a command; code None with the reason when it gave none."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            check=False,
            env=dict(os.environ, PATH=PATH, LC_ALL="C"),
        )
    except subprocess.TimeoutExpired:
        return None, "it did not end within 20 seconds"
    except OSError as error:
        return None, error.strerror.lower()
    return done.returncode, done.stdout.decode("utf-8", "replace")


def ask(tool):
    """(version or "", problem or "") of one tool."""
    code, text = run(tool["argv"])
    if code is None:
        return "", text
    match = re.search(tool["says"], text, re.MULTILINE)
    if code not in tool["codes"] or match is None:
        said = (text.strip().splitlines() or ["nothing"])[-1]
        return "", "it ended with %d and said: %s" % (code, said[:200])
    return (match.group(1) if match.groups() else ""), ""


def installed(names, manager):
    """Those of the packages that are installed."""
    if not names:
        return set()
    if manager == "apt":
        form = "${Package} ${db:Status-Status}\n"
        _, text = run(["dpkg-query", "--show", "--showformat=" + form, "--"] + sorted(names))
        rows = [line.split() for line in text.splitlines()]
        return {row[0] for row in rows if len(row) == 2 and row[1] == "installed"}
    return {name for name in names if run(["rpm", "-q", name])[0] == 0}


def states(names):
    """Properties per service that the node has."""
    if not names:
        return {}
    units = ["%s.service" % name for name in names]
    wanted = "--property=LoadState,ActiveState,UnitFileState"
    _, text = run(["systemctl", "show", wanted, "--"] + units)
    blocks = [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in text.strip().split("\n\n")
    ]
    return {unit: one for unit, one in zip(units, blocks) if one.get("LoadState") != "not-found"}


def is_enabled(unit):
    return unit.get("UnitFileState", "").startswith("enabled")


def fabrics_storage():
    """Files that tell this node to connect to storage over fabrics."""
    found = []
    for path in glob.glob("/etc/nvme/discovery.conf") + glob.glob("/etc/nvme/config.json"):
        with open(path) as handle:
            lines = [line.strip() for line in handle]
        if any(line and not line.startswith("#") for line in lines):
            found.append(path)
    return found


def digest(path):
    try:
        with open(path, "rb") as handle:
            return hashlib.sha256(handle.read()).hexdigest()
    except OSError:
        return ""


def stream_is_built(elements):
    try:
        with open(STAMP) as handle:
            stamp = handle.read().split()
    except OSError:
        return False
    return stamp == ["%d" % elements] + [digest(path) for path in STREAM]


def refusals(off):
    """Sentences on services that this node needs."""
    files = fabrics_storage()
    for name in ("nvmf-autoconnect", "nvmefc-boot-connections"):
        if files and name + ".service" in off:
            yield (
                "This node connects to storage over fabrics ('%s'): take '%s' off "
                "'diagnostics_tools_services_off' for this host." % (files[0], name)
            )


def main(asked):
    answers = {name: ask(tool) for name, tool in asked["tools"].items()}
    broken = {name: problem for name, (_, problem) in answers.items() if problem}
    packages = {asked["packages"][name] for name in broken if name in asked["packages"]}
    there = installed(packages | set(asked["site_packages"]), asked["manager"])
    off = states(asked["services_off"])
    on = states(asked["services_on"])
    return {
        "versions": {name: version for name, (version, _) in answers.items()},
        "broken": broken,
        "missing_packages": sorted((packages | set(asked["site_packages"])) - there),
        "damaged_packages": sorted(packages & there),
        "services_on": sorted(
            name
            for name, one in off.items()
            if one["ActiveState"] not in ("inactive", "failed") or is_enabled(one)
        ),
        "services_failed": sorted(n for n, one in off.items() if one["ActiveState"] == "failed"),
        "services_off": sorted(
            name
            for name, one in on.items()
            if one["ActiveState"] != "active" or not is_enabled(one)
        ),
        "problems": list(refusals(off)),
        "stream_built": not asked["stream"] or stream_is_built(asked["stream"]),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
