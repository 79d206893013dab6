"""What a node has of its accelerators' driver, and what it lacks, as JSON. Changes nothing.

Standard library only, any Python from 3.6. The argument is a JSON object, __accelerator_question in
the role's vars: what must be there.
"""

import glob
import json
import os
import re
import subprocess
import sys

MODULE_PLACES = ("updates/dkms", "updates", "extra", "weak-updates", "kernel/nvidia*")
ASCEND = "/usr/local/Ascend/%s/version.info"
KEPT_LINES = 15


def run(argv, timeout=60):
    """Exit code and output of a command; None and the reason when it gave none."""
    env = dict(os.environ, LC_ALL="C", PATH="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin")
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
            env=env,
        )
    except subprocess.TimeoutExpired:
        return None, "it did not end within %d seconds" % timeout
    except OSError as error:
        return None, error.strerror.lower()
    return done.returncode, done.stdout.decode("utf-8", "replace")


def text_of(path):
    try:
        with open(path, errors="replace") as handle:
            return handle.read(1 << 20)
    except OSError:
        return ""


def upstream(version):
    """A package's version without the epoch and revision of its distribution."""
    return version.split(":", 1)[-1].rsplit("-", 1)[0]


def fits(version, wanted):
    """Whether a package's version is the declared one: whole, or without epoch and revision."""
    return not wanted or wanted in (version, version.split(":", 1)[-1], upstream(version))


def begins(name, beginnings):
    return name.startswith(tuple(beginnings)) if beginnings else False


# Packages


def of_driver(name, driver):
    return begins(name, driver["held"]) and not begins(name, driver["others"])


def installed(manager):
    """{name: (version, whole, held)} of every package."""
    found = {}
    if manager == "apt":
        form = "${db:Status-Abbrev}\t${Package}\t${Version}\n"
        _, text = run(["dpkg-query", "--show", "--showformat=" + form])
        for line in text.splitlines():
            row = line.split("\t")
            if len(row) == 3 and row[0][1:2] not in ("n", "c"):
                found[row[1]] = (row[2], row[0][1:2] == "i", row[0][:1] == "h")
        return found
    locked = text_of("/etc/dnf/plugins/versionlock.list")
    _, text = run(["rpm", "-qa", "--queryformat", "%{NAME}\t%{VERSION}-%{RELEASE}\n"])
    for line in text.splitlines():
        row = line.split("\t")
        if len(row) == 2:
            held = re.search(r"^!?%s-\d+:\d" % re.escape(row[0]), locked, re.MULTILINE)
            found[row[0]] = (row[1], True, held is not None)
    return found


def available(names):
    """{name: versions} that apt could install."""
    found = {}
    if names:
        _, text = run(["apt-cache", "madison", "--"] + sorted(names))
        for line in text.splitlines():
            row = [part.strip() for part in line.split("|")]
            if len(row) == 3:
                found.setdefault(row[0], []).append(row[1])
    return found


def packages(asked, found):
    """What to install, as the package manager wants it; and sentences on what cannot be."""
    driver = asked["driver"]
    wanted = {}
    for word in asked["packages"]:
        name, _, version = word.partition("=")
        moves = begins(name, driver["same"])
        wanted[name] = version or (asked["version"] if moves else "")
    for name in found:
        if of_driver(name, driver) and begins(name, driver["same"]):
            wanted.setdefault(name, asked["version"])
    due = {
        name: version
        for name, version in wanted.items()
        if name not in found or not found[name][1] or not fits(found[name][0], version)
    }
    if asked["manager"] != "apt":
        return sorted("-".join(part for part in item if part) for item in due.items()), []
    offered = available(due)
    specs, missing = [], []
    for name, version in sorted(due.items()):
        right = [one for one in offered.get(name, []) if fits(one, version)]
        if right:
            specs.append("%s=%s" % (name, right[0]) if version else name)
        elif name in found and fits(found[name][0], version):
            specs.append(name)
        else:
            missing.append("%s %s" % (name, version or "of any version"))
    return specs, missing


# The kernel that boots next


def order(release):
    """Sorts 6.1.0-9 before 6.1.0-10, and names of flavours after numbers."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.findall(r"\d+|[a-z]+", release)
    ]


def target_kernel(declared):
    if declared:
        return declared
    code, text = run(["grubby", "--default-kernel"])
    if code == 0 and "vmlinuz-" in text:
        return text.strip().rpartition("vmlinuz-")[2]
    bootable = sorted(
        {path.partition("vmlinuz-")[2] for path in glob.glob("/boot/vmlinuz-*")}, key=order
    )
    settings = text_of("/etc/default/grub")
    for path in sorted(glob.glob("/etc/default/grub.d/*.cfg")):
        settings += "\n" + text_of(path)
    chosen = (re.findall(r"(?m)^\s*GRUB_DEFAULT=(.*)$", settings) or [""])[-1]
    if "saved" in chosen:
        saved = re.search(r"(?m)^saved_entry=(.*)$", text_of("/boot/grub/grubenv"))
        chosen = saved.group(1) if saved else ""
    named = [
        one
        for one in bootable
        if re.search(r"(?<!\S)%s\b" % re.escape(one), chosen) or ("-%s-" % one) in chosen
    ]
    return (named or bootable or [""])[-1]


def modules_of(release, names):
    """Files of the driver's modules for a kernel, in the order in which modprobe takes them."""
    start = "/lib/modules/%s/" % release
    return [
        path
        for place in MODULE_PLACES
        for path in sorted(glob.glob("%s%s/*.ko*" % (start, place)))
        if os.path.basename(path).partition(".ko")[0] in names
    ]


def why_not_built(release, asked):
    """Why modprobe would not find the declared driver once this kernel runs; '' when it would."""
    files = modules_of(release, asked["driver"]["modules"])
    if not files:
        return "It was not built."
    inside = files[0][len("/lib/modules/%s/" % release) :]
    if not re.search(r"(?m)^%s:" % re.escape(inside), text_of_index(release)):
        return "'%s' is not in the index of modules." % inside
    code, text = run(["modinfo", "-F", "version", files[0]])
    version = text.strip() if code == 0 else ""
    if version and not fits(version, upstream(asked["version"])):
        return "'%s' is of version %s." % (inside, version[:60])
    return ""


def text_of_index(release):
    try:
        with open("/lib/modules/%s/modules.dep" % release, errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


def build_of(asked):
    """(name, version) of the sources of the declared version, for DKMS; two '' without any."""
    names = asked["driver"]["builds"]
    found = [
        (name, os.path.basename(path))
        for name in names
        for path in sorted(glob.glob("/var/lib/dkms/%s/[0-9]*" % name))
    ]
    # Sources that somebody took off DKMS's list are still where the package put them.
    found += [
        (name, path[len("/usr/src/%s-" % name) :])
        for name in names
        for path in sorted(glob.glob("/usr/src/%s-[0-9]*" % name))
    ]
    right = [one for one in found if fits(one[1], upstream(asked["version"]))]
    return (right or [("", "")])[0]


def last_log(asked):
    """The end of the newest log of a build that failed."""
    logs = [
        path
        for name in asked["driver"]["builds"]
        for path in glob.glob("/var/lib/dkms/%s/*/build/make.log" % name)
    ]
    if not logs:
        return ""
    lines = text_of(max(logs, key=os.path.getmtime)).strip().splitlines()
    return "\n".join(line[:300] for line in lines[-KEPT_LINES:])


def initrd_of(release):
    for form in ("/boot/initrd.img-%s", "/boot/initramfs-%s.img"):
        if os.path.exists(form % release):
            return form % release
    return ""


def initrd_is_older(release, path):
    """Whether the initramfs was made before the file that it must carry."""
    initrd = initrd_of(release)
    if not initrd or not path or not os.path.exists(path):
        return False
    return os.path.getmtime(initrd) < os.path.getmtime(path)


# What runs


def loaded_version(vendor):
    module = {"nvidia": "nvidia", "amd": "amdgpu", "gaudi": "habanalabs"}.get(vendor, "")
    if not module or not os.path.isdir("/sys/module/%s" % module):
        return ""
    version = text_of("/sys/module/%s/version" % module).strip()
    return version or "of the kernel"


def users():
    """Processes that have a GPU open, other than the driver's own daemons."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if re.match(r"/dev/(nvidia\d|nvidia-uvm$|kfd$|accel/|hl\d|davinci\d)", target):
            pid = path.split("/")[2]
            name = text_of("/proc/%s/comm" % pid).strip()
            if not name.startswith(("nvidia-persiste", "nv-fabricmanage", "nv-hostengine")):
                found.add("%s (%s)" % (name, pid))
    return sorted(found)


def units(asked):
    """Units that systemd has not as they must be: (off, stale)."""
    names = asked["units"]
    if not names:
        return [], False
    wanted = "--property=Id,LoadState,ActiveState,UnitFileState,NeedDaemonReload"
    _, text = run(["systemctl", "show", wanted, "--"] + names)
    off, stale = [], False
    for block in text.strip().split("\n\n"):
        one = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        stale = stale or one.get("NeedDaemonReload") == "yes"
        idle = bool(loaded_version(asked["vendor"])) and one.get("ActiveState") != "active"
        there = one.get("LoadState") != "not-found"
        if there and (idle or not one.get("UnitFileState", "").startswith("enabled")):
            off.append(one.get("Id", ""))
    return off, stale


def ascend_version(part):
    match = re.search(r"(?mi)^version=(\S+)", text_of(ASCEND % part))
    return match.group(1) if match else ""


# Judgement


def refusals(asked, loaded, busy):
    """Sentences on what must not be done to this node now."""
    vendor, version = asked["vendor"], asked["version"]
    if vendor and not version:
        yield "'accelerator_driver_version' is not declared: which one is right is your decision."
    if version and not re.match(r"^[0-9][0-9A-Za-z.+~:-]*$", version):
        yield "'accelerator_driver_version' is '%s', which is no version." % version
    kernel = asked["target_kernel"]
    if vendor and kernel and not os.path.isdir("/lib/modules/%s" % kernel):
        yield (
            "'accelerator_target_kernel' is '%s', and this node has no such kernel: install it "
            "first." % kernel
        )
    changes = loaded and version and not fits(loaded, upstream(version))
    if changes and loaded != "of the kernel" and busy:
        yield (
            "Driver %s is loaded and in use by %s: nothing new could start once its libraries are "
            "replaced. Drain the node first." % (loaded, ", ".join(busy[:3]))
        )
    if vendor == "ascend":
        driver, firmware = ascend_version("driver"), ascend_version("firmware")
        if driver and driver != version and asked["firmware"] != firmware:
            yield (
                "Driver %s is to be replaced, and the firmware is %s, not '%s': an upgrade is "
                "firmware first. Write it by hand with the vendor's installer; the role never does."
                % (driver, firmware or "not known", asked["firmware"])
            )


def main(asked):
    found = installed(asked["manager"])
    machine = run(["systemd-detect-virt", "--container"])[0]
    loaded, busy = loaded_version(asked["vendor"]), users()
    specs, missing = packages(asked, found) if asked["driver"]["held"] else ([], [])
    held = [name for name in found if of_driver(name, asked["driver"])]
    target = target_kernel(asked["target_kernel"]) if asked["driver"]["modules"] else ""
    directory = os.path.isdir("/lib/modules/%s" % target) and bool(target)
    headers = os.path.exists("/lib/modules/%s/build" % target)
    name, version = build_of(asked)
    in_container = machine == 0
    off, stale = units(asked)
    ours = "" if in_container else loaded
    differs = bool(asked["vendor"]) and not fits(ours, upstream(asked["version"]))
    return {
        "in_container": in_container,
        "problems": list(refusals(asked, ours, busy)),
        "specs": specs,
        "missing": missing,
        "damaged": sorted(name for name in held if not found[name][1]),
        "unheld": sorted(name for name in held if not found[name][2]),
        "target": target,
        "target_exists": directory,
        "headers_due": directory and not headers,
        "not_built": why_not_built(target, asked) if directory else "",
        "build": {"name": name, "version": version},
        "log": last_log(asked),
        "initrd_due": bool(target) and initrd_is_older(target, asked["nouveau_file"]),
        "leftovers": [path for path in asked["unwanted_files"] if os.path.lexists(path)],
        "missing_directories": sorted(
            {
                os.path.dirname(path)
                for path in asked["wanted_files"]
                if not os.path.isdir(os.path.dirname(path))
            }
        ),
        "units_off": off,
        "units_stale": stale,
        "peermem_due": asked["peermem"]
        and not in_container
        and bool(loaded)
        and not os.path.isdir("/sys/module/nvidia_peermem"),
        "nouveau_loaded": not in_container and os.path.isdir("/sys/module/nouveau"),
        "loaded": loaded,
        "ascend_due": asked["vendor"] == "ascend" and ascend_version("driver") != asked["version"],
        "ascend_upgrade": bool(ascend_version("driver")),
        "firmware": ascend_version("firmware"),
        "reboot_required": bool(ours) and differs,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
