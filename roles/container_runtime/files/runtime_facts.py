"""What a node says of its container runtime. Changes nothing.

Standard library, Python 3.6 and later. ``asked`` is the role's question, see vars/main.yml.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess

from merge_settings import CONFIG_TOML, DAEMON_JSON, PODMAN_DROP_IN, TOML_DROP_IN, RefusedError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETTINGS = {
    "docker": (DAEMON_JSON,),
    "containerd": (CONFIG_TOML, TOML_DROP_IN),
    "podman": (PODMAN_DROP_IN,),
}
# Written anew at each start of the daemon, after it has read its settings. podman has no daemon.
STARTED = {"docker": "/run/docker.pid", "containerd": "/run/containerd/containerd.sock"}
DAEMONS = {"docker": "dockerd", "containerd": "containerd", "podman": "podman"}
CDI = ("/etc/cdi/*.json", "/etc/cdi/*.yaml", "/var/run/cdi/*.json", "/var/run/cdi/*.yaml")


def run(argv, timeout=30, stdin=None):
    """Exit code and text of a command; code None with the reason when it gave none."""
    try:
        done = subprocess.run(
            argv,
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
            env=dict(os.environ, PATH=PATH, LC_ALL="C"),
        )
    except subprocess.TimeoutExpired:
        return None, "it did not end within %d seconds" % timeout
    except OSError as error:
        return None, error.strerror.lower()
    return done.returncode, done.stdout.decode("utf-8", "replace")


def output_of(argv, timeout=30):
    """The text of a command that must end with 0. Raises RefusedError with what it said."""
    code, text = run(argv, timeout)
    if code != 0:
        said = (text.strip().splitlines() or ["nothing"])[-1][:300]
        raise RefusedError("'%s' failed: %s" % (" ".join(argv[:3]), said))
    return text


def is_there(program):
    return shutil.which(program, path=PATH) is not None


def text_of(path):
    """The text of a file; None when it is not there."""
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(
            "'%s' cannot be read (%s); nothing was changed." % (path, error)
        ) from None


def version_of(engine):
    """What the engine says of its version, and that as numbers; ("", ()) when it is not there."""
    if engine == "none" or not is_there(DAEMONS[engine]):
        return "", ()
    text = output_of([DAEMONS[engine], "--version"]).strip()
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if not found:
        raise RefusedError("'%s --version' tells no version: %s" % (DAEMONS[engine], text[:100]))
    return text, tuple(int(one) for one in found.groups() if one is not None)


def properties(unit):
    names = "LoadState,ActiveState,UnitFileState,ExecStart"
    text = output_of(["systemctl", "show", "--property=" + names, "--", unit])
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def vendor_of(asked):
    """The vendor whose accelerators containers shall have; "" for none."""
    if asked["vendor"] != "auto":
        return "" if asked["vendor"] == "none" else asked["vendor"]
    # A container sees its host's devices on the bus, and has none of them.
    if run(["systemd-detect-virt", "--container", "--quiet"])[0] == 0:
        return ""
    present = set()
    for path in glob.glob("/sys/bus/pci/devices/*"):
        with open(path + "/vendor") as vendor, open(path + "/class") as kind:
            present.add((vendor.read().strip(), kind.read().strip()[:6]))
    for name, row in asked["vendors"].items():
        if any((row["pci"], kind) in present for kind in row["classes"]):
            return name
    return ""


def driver_of(row):
    """Version of the loaded driver; "" when none is loaded or it tells none."""
    return (text_of(row["driver"]) or "").strip() if row and row.get("driver") else ""


def devices_of(asked, row):
    """CDI names that a container must be given: the declared ones, and all of the vendor's."""
    own = [row["device"]] if row and row["way"] == "cdi" else []
    return sorted(set(asked["devices"]) | set(own))


def ulimits_of(asked):
    """Soft and hard limit by name, in bytes where they are bytes; -1 is unlimited."""
    found = {}
    for name, unit in (("memlock", 1024), ("nofile", 1), ("nproc", 1), ("stack", 1024)):
        value = str(asked["limits"][name])
        if value == "unlimited":
            soft = -1
        elif value.isdigit() and int(value) > 0:
            soft = int(value) * unit
        else:
            raise RefusedError(
                "The limit '%s' must be 'unlimited' or a number, not '%s'." % (name, value)
            )
        found[name] = (soft, -1 if name == "stack" else soft)
    return found


def wanted_of(asked, row):
    """What a container must get, in the form in which the stamp keeps it."""
    return {
        "devices": devices_of(asked, row),
        "runtime": row["name"] if row and row["way"] == "runtime" else "",
        "ulimits": {name: list(pair) for name, pair in ulimits_of(asked).items()},
        "shm_mib": asked["shm_mib"],
        "pids_limit": asked["pids_limit"],
    }


def digest(path):
    try:
        with open(path, "rb") as handle:
            return hashlib.sha256(handle.read()).hexdigest()
    except OSError:
        return ""


def fingerprint(asked):
    """All that what a container gets depends on: the proof holds as long as this is the same."""
    row = asked["vendors"].get(vendor_of(asked))
    devices = devices_of(asked, row)
    specs = sorted(path for pattern in CDI for path in glob.glob(pattern)) if devices else []
    return {
        "engine": asked["engine"],
        "version": version_of(asked["engine"])[0],
        "files": {path: digest(path) for path in SETTINGS[asked["engine"]]},
        "specs": {path: digest(path) for path in specs},
        "driver": driver_of(row),
    }


def read_stamp(path):
    try:
        found = json.loads(text_of(path) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
