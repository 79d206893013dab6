"""Start a container the way users do, look at what it gets, and keep that as the node's proof.

The image is made here, of the node's own programs: no registry is asked. Standard library, Python
3.6 and later. Says what is wrong in sentences, and then writes no proof.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile

import runtime_facts as facts
from merge_settings import RefusedError

IMAGE = "localhost/hfprov-proof"
NAME = "hfprov-proof-%d" % os.getpid()
DEADLINE = 90
APPLETS = ("sh", "cat", "df", "find")
CUT = "hfprov-proof-cut"
# What the container does: its limits, its /dev/shm, its pids.max, and each device that it may open.
LOOK = """cat /proc/self/limits; echo {cut}; df -k /dev/shm; echo {cut}
cat /sys/fs/cgroup/pids.max 2>/dev/null; echo {cut}
for d in $(find /dev -type c) $(find /dev -type b); do
  if (: < $d) 2>/dev/null; then echo "open $d"; else echo "closed $d"; fi
done""".format(cut=CUT)  # fmt: skip
LIMITS = {
    "memlock": "Max locked memory",
    "nofile": "Max open files",
    "nproc": "Max processes",
    "stack": "Max stack size",
}


def libraries_of(program):
    """Shared libraries of a program, as ldd tells; none of a static one."""
    _, text = facts.run(["ldd", program])
    return sorted(set(re.findall(r"(/[^\s:()]+)", text))) if "not a dynamic" not in text else []


def make_image(root, programs):
    """A directory that holds just the programs and their libraries, at their places."""
    os.makedirs(os.path.join(root, "bin"))
    for program in programs:
        found = shutil.which(program, path=facts.PATH)
        if found is None:
            raise RefusedError("There is no program '%s' to make an image of." % program)
        shutil.copy(os.path.realpath(found), os.path.join(root, "bin", program))
        for library in libraries_of(os.path.realpath(found)):
            target = root + library
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.realpath(library), target)
    for applet in APPLETS if "busybox" in programs else ():
        os.symlink("busybox", os.path.join(root, "bin", applet))


def started(argv):
    """What a container says that is started so."""
    code, text = facts.run(argv, timeout=DEADLINE)
    if code != 0:
        said = (text.strip().splitlines() or ["nothing"])[-1][:500]
        raise RefusedError("No container can be started: %s" % said)
    return text


def in_docker(root, options):
    tar = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
    code, text = facts.run(["docker", "import", "-", IMAGE], timeout=DEADLINE, stdin=tar.stdout)
    tar.stdout.close()
    if tar.wait() != 0 or code != 0:
        raise RefusedError("The image cannot be given to Docker: %s" % text.strip()[-300:])
    argv = ["docker", "run", "--rm", "--name", NAME, "--network", "none", *options, IMAGE]
    try:
        return started([*argv, "/bin/sh", "-c", LOOK])
    finally:
        facts.run(["docker", "rm", "--force", NAME])
        facts.run(["docker", "rmi", "--force", IMAGE])


def in_podman(root, options):
    argv = ["podman", "run", "--rm", "--name", NAME, "--network", "none", *options]
    argv += ["--security-opt", "label=disable", "--rootfs", root]
    try:
        return started([*argv, "/bin/sh", "-c", LOOK])
    finally:
        facts.run(["podman", "rm", "--force", "--ignore", NAME])


def in_containerd(root, _):
    """As containers of Kubernetes: with no limits of their own they inherit containerd's."""
    spec = json.loads(facts.output_of(["ctr", "oci", "spec"]))
    spec["process"].pop("rlimits", None)
    spec["process"].update(terminal=False, args=["/bin/sh", "-c", LOOK])
    spec["root"] = {"path": root, "readonly": True}
    spec["linux"].pop("resources", None)
    spec["linux"]["cgroupsPath"] = "/" + NAME
    path = root + ".json"
    with open(path, "w") as handle:
        json.dump(spec, handle)
    try:
        return started(["ctr", "run", "--rm", "--config", path, NAME])
    finally:
        os.unlink(path)


START = {"docker": in_docker, "podman": in_podman, "containerd": in_containerd}


def parsed(text):
    """What one container said: limits in bytes or things, /dev/shm in MiB, pids.max, devices."""
    parts = text.split(CUT + "\n")
    if len(parts) != 4:
        raise RefusedError("The container did not say what it was asked: %s" % text[-300:])
    limits = {}
    for name, title in LIMITS.items():
        row = re.search(r"^%s\s+(\S+)\s+(\S+)" % title, parts[0], re.MULTILINE)
        limits[name] = [-1 if one == "unlimited" else int(one) for one in row.groups()]
    size = re.search(r"\s(\d+)\s+\d+\s+\d+\s+\d+%\s+/dev/shm", parts[1])
    return {
        "ulimits": limits,
        "shm_mib": int(size.group(1)) // 1024 if size else 0,
        "pids_max": parts[2].strip(),
        "devices": {
            line.split(" ", 1)[1]: line.startswith("open ")
            for line in parts[3].splitlines()
            if line.startswith(("open ", "closed "))
        },
    }


def look(engine, root, options):
    return parsed(START[engine](root, options))


def given(plain, seen):
    """Devices that a container has and one without them has not; whether it may open each."""
    return {path: ok for path, ok in seen["devices"].items() if path not in plain["devices"]}


def wrong(engine, seen, wanted):
    """Sentences on what the container does not get as declared."""
    for name, pair in wanted["ulimits"].items():
        got = seen["ulimits"][name]
        if got[0] != pair[0] or (name != "stack" and got[1] != pair[1]):
            yield "A container gets the limit '%s' %s instead of %s." % (name, got, pair)
    if engine != "containerd" and seen["shm_mib"] != wanted["shm_mib"]:
        yield "A container gets %d MiB of /dev/shm instead of %d." % (
            seen["shm_mib"], wanted["shm_mib"],
        )  # fmt: skip
    pids = str(wanted["pids_limit"] or "max")
    if engine == "podman" and seen["pids_max"] not in ("", pids):
        yield "A container gets pids.max %s instead of %s." % (seen["pids_max"], pids)
    for name in [*wanted["devices"], *filter(None, [wanted["runtime"]])]:
        if engine == "containerd":
            continue
        paths = seen["given"].get(name)
        if not paths:
            yield "A container that is given '%s' sees no device of it." % name
            continue
        for path in sorted(path for path, ok in paths.items() if not ok):
            yield "A container that is given '%s' may not open '%s'." % (name, path)


def ways_of(asked, row, wanted):
    """Options by the name of what is given to the container with them."""
    if asked["engine"] == "containerd":
        # Its client knows neither CDI nor the runtimes of Kubernetes.
        return {}
    ways = {name: ["--device", name] for name in wanted["devices"]}
    if wanted["runtime"]:
        path = row["name"] if asked["engine"] == "docker" else row["path"]
        ways[wanted["runtime"]] = ["--runtime", path, "--env", row["environment"] + "=all"]
    return ways


def prove(asked):
    engine = asked["engine"]
    row = asked["vendors"].get(facts.vendor_of(asked))
    wanted = facts.wanted_of(asked, row)
    folder = tempfile.mkdtemp(prefix="hfprov-proof-", dir="/run")
    try:
        root = os.path.join(folder, "root")
        make_image(root, asked["proof_programs"])
        seen = look(engine, root, [])
        seen["given"] = {
            name: given(seen, look(engine, root, options))
            for name, options in ways_of(asked, row, wanted).items()
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    problems = list(wrong(engine, seen, wanted))
    if problems:
        raise RefusedError(" ".join(problems))
    return dict(facts.fingerprint(asked), wanted=wanted, seen=seen)


def write(path, stamp):
    """In one move, so that a proof is whole or is not there."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path + ".new", "w") as handle:
        os.fchmod(handle.fileno(), 0o644)
        json.dump(stamp, handle, indent=1, sort_keys=True)
        handle.write("\n")
    os.rename(path + ".new", path)


def main(asked):
    try:
        write(asked["stamp"], prove(asked))
    except RefusedError as error:
        return {"problems": [str(error)]}
    return {"problems": []}
