"""Say which kernel is declared, installed, booted by default and running, as JSON. Changes nothing.

Standard library only, any Python from 3.6. The argument is a JSON object: what is wanted, as in
the role's variables, and the names that the distribution uses.

One file, though it is long: the role runs it as an argument of Python, and asks packages and boot
loader in one round trip.
"""

import functools
import glob
import json
import os
import re
import shlex
import subprocess
import sys

CONTAINERS = {
    "systemd-nspawn", "lxc", "lxc-libvirt", "docker", "podman", "openvz", "rkt", "wsl", "proot",
    "pouch", "container-other",
}  # fmt: skip
# What GRUB would take as its own, and not hand to the kernel.
PARAMETER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(=[A-Za-z0-9_.,:/@+%*!^~=\-]*)?$")
ADDED_BY_LOADER = ("BOOT_IMAGE", "initrd", "vt.handoff")


def run(*argv, codes=(0,)):
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False,
        env=dict(os.environ, LC_ALL="C"),
    )  # fmt: skip
    if done.returncode not in codes:
        sys.exit("'%s' failed: %s" % (" ".join(argv), done.stderr.decode("utf-8", "replace")))
    return done.stdout.decode("utf-8", "replace")


def text_of(path):
    try:
        with open(path, errors="replace") as handle:
            return handle.read()
    except FileNotFoundError:
        return ""


def machine():
    # systemd-detect-virt ends with 1 where there is no virtualization.
    name = run("systemd-detect-virt", codes=(0, 1)).strip()
    if not name:
        sys.exit("systemd-detect-virt does not say what this machine is.")
    if name == "none":
        return "bare_metal"
    return "container" if name in CONTAINERS else "virtual_machine"


def matches(version, pin):
    """Whether a version is the pinned one, or begins with it up to the end of a number."""
    return not pin or version == pin or re.match(re.escape(pin) + r"[.~+\-]", version) is not None


def key_of_dpkg():
    def compare(one, other):
        done = subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False)
        return -1 if done.returncode == 0 else int(one != other)

    return functools.cmp_to_key(compare)


def key_of_rpm(version):
    parts = re.findall(r"\d+|[a-zA-Z]+", version)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]


class Debian:
    """Packages of dpkg and apt."""

    def __init__(self, asked):
        self.asked = asked
        self.arch = run("dpkg", "--print-architecture").strip()
        self.stream = asked["streams"][asked["stream"]]
        self.image, self.headers = (
            self.stream[kind].replace("{arch}", self.arch) for kind in ("image", "headers")
        )
        self.wanted = [self.image] + ([self.headers] if asked["headers"] else [])
        self.found = {}
        form = "${db:Status-Abbrev}\t${Package}\t${Version}\t${Depends}\n"
        for line in run(
            "dpkg-query", "-W", "-f=" + form, "dpkg", "linux-*", codes=(0, 1)
        ).splitlines():
            codes, name, version, depends = line.split("\t")
            if codes[1] not in "nc":
                self.found[name] = {"codes": codes, "version": version, "depends": depends}

    def is_of_stream(self, version):
        return bool(self.stream.get("backport")) == ("~bpo" in version)

    def is_whole(self, name):
        codes = self.found.get(name, {"codes": "un "})["codes"]
        return codes[1] not in "nHUF" and codes[2:3] != "R"

    def fits(self, version):
        return matches(version, self.asked["version"]) and self.is_of_stream(version)

    @property
    def version(self):
        """Version of the declared kernel's package, where it is installed as declared."""
        version = self.found.get(self.image, {}).get("version", "")
        return version if version and self.fits(version) else ""

    def needed(self, name, prefix):
        depends = self.found.get(name, {}).get("depends", "")
        found = re.findall(
            r"(?:^|[,|]\s*)(%s(?:unsigned-)?\d[^\s,(|]*)" % re.escape(prefix), depends
        )
        return found[0] if found else ""

    @property
    def target(self):
        package = self.needed(self.image, "linux-image-") if self.version else ""
        return re.sub(r"^linux-image-(unsigned-)?", "", package)

    @property
    def due(self):
        """Whether something has to be installed."""
        ours = [self.found.get(name, {}).get("version") for name in self.wanted]
        parts = [self.needed(self.image, "linux-image-")]
        if self.asked["headers"] and self.target:
            parts.append("linux-headers-" + self.target)
        return not self.version or set(ours) != {self.version} or not all(map(self.is_whole, parts))

    def candidates(self):
        lines = run("apt-cache", "madison", *self.wanted).splitlines()
        offers = {name: set() for name in self.wanted}
        for line in lines:
            name, version = (part.strip() for part in line.split("|")[:2])
            offers[name].add(version)
        both = set.intersection(*offers.values())
        return sorted((one for one in both if self.is_of_stream(one)), key=key_of_dpkg())

    def installable(self):
        """What to install, and why it cannot be."""
        if not self.due:
            return [], []
        offers = self.candidates()
        fitting = [one for one in offers if self.fits(one)]
        if self.version and self.version in fitting:
            fitting = [self.version]
        if not fitting:
            return [], [
                "No repository of this node has '%s' in a version '%s' of the stream '%s'; there "
                "are: %s." % (
                    "' with '".join(self.wanted), self.asked["version"] or "of any kind",
                    self.asked["stream"], ", ".join(offers) or "none",
                )
            ]  # fmt: skip
        return ["%s=%s" % (name, fitting[-1]) for name in self.wanted], []

    def kernels(self):
        """Release by package, of kernels; Debian's debugging symbols have none."""
        names = {name: re.match(r"linux-image-(?:unsigned-)?(\d.*)$", name) for name in self.found}
        return {
            name: match.group(1) for name, match in names.items()
            if match and not match.group(1).endswith(("-dbg", "-unsigned"))
        }  # fmt: skip

    def ours(self):
        """Packages that are held: of the declared kernel, with and without it inside."""
        names = [self.image, self.headers, *self.stream.get("parents", [])]
        names += [name for name, release in self.kernels().items() if release == self.target]
        names.append("linux-headers-" + self.target)
        return sorted(name for name in names if name in self.found)

    def to_hold(self):
        held = {name for name in self.ours() if self.found[name]["codes"][0] == "h"}
        if self.asked["hold"]:
            return sorted(set(self.ours()) - held), []
        return [], sorted(held)

    def removable(self, running, default):
        """Packages of old kernels above the declared number, and of their headers."""
        old = {
            name: release for name, release in self.kernels().items()
            if release not in (self.target, running, default)
        }  # fmt: skip
        beside = {running, default} & set(self.kernels().values()) - {self.target}
        order = sorted(old, key=lambda name: key_of_dpkg()(self.found[name]["version"]))
        keep = max(0, self.asked["old_kept"] - len(beside))
        surplus = order[: len(order) - keep] if keep < len(order) else []
        needed = {
            name for name in surplus for other in self.found.values()
            if re.search(r"(^|[,|]\s*)%s(\s|,|$)" % re.escape(name), other["depends"])
        }  # fmt: skip
        releases = [old[name] for name in surplus if name not in needed]
        return sorted(
            name for name in self.found
            if any(re.match(r"linux-[a-z-]+-%s$" % re.escape(one), name) for one in releases)
        )  # fmt: skip

    def broken(self):
        return sorted(name for name, one in self.found.items() if one["codes"][1] in "UF")

    def damaged(self):
        lost = self.target and not os.path.isfile("/boot/vmlinuz-" + self.target)
        return [name for name, one in self.kernels().items() if lost and one == self.target]

    def problems(self):
        if glob.glob("/var/lib/dpkg/updates/[0-9]*"):
            yield "dpkg was interrupted here: run 'dpkg --configure -a' by hand, and look at why."
        for name, one in sorted(self.found.items()):
            if one["codes"][1] == "H" or one["codes"][2:3] == "R":
                yield (
                    "Package '%s' is half installed: reinstall it by hand, and look at why." % name
                )


class Rpm:
    """Packages of rpm and dnf. Written for Enterprise Linux 9 and not tested there."""

    def __init__(self, asked):
        self.asked = asked
        self.arch = os.uname().machine
        form = r"%{NAME}\t%{VERSION}-%{RELEASE}\n"
        names = ("kernel", "kernel-core", "kernel-devel")
        self.found = {name: [] for name in names}
        for line in run("rpm", "-q", "--queryformat", form, *names, codes=range(4)).splitlines():
            if "\t" in line:
                name, version = line.split("\t")
                self.found[name].append(version)
        fitting = [one for one in self.found["kernel-core"] if matches(one, asked["version"])]
        self.version = max(fitting, key=key_of_rpm) if fitting else ""
        self.target = self.version and "%s.%s" % (self.version, self.arch)
        self.headers = "kernel-devel"
        self.image = "kernel"

    @property
    def due(self):
        has_headers = not self.asked["headers"] or self.version in self.found["kernel-devel"]
        return not self.version or self.version not in self.found["kernel"] or not has_headers

    def installable(self):
        if not self.due:
            return [], []
        version = self.version
        if not version:
            text = run("dnf", "-q", "repoquery", "--qf", "%{version}-%{release}\n", "kernel-core")
            offers = sorted(set(text.split()), key=key_of_rpm)
            fitting = [one for one in offers if matches(one, self.asked["version"])]
            if not fitting:
                return [], [
                    "No repository of this node has a kernel in version '%s'; there are: %s."
                    % (self.asked["version"], ", ".join(offers) or "none")
                ]
            version = fitting[-1]
        names = ["kernel"] + (["kernel-devel"] if self.asked["headers"] else [])
        return ["%s-%s" % (name, version) for name in names], []

    def to_hold(self):
        return [], []

    def removable(self, running, default):
        old = [
            one for one in sorted(self.found["kernel-core"], key=key_of_rpm)
            if "%s.%s" % (one, self.arch) not in (self.target, running, default)
        ]  # fmt: skip
        everything = {"%s.%s" % (one, self.arch) for one in self.found["kernel-core"]}
        beside = {running, default} & everything - {self.target}
        keep = max(0, self.asked["old_kept"] - len(beside))
        return ["kernel-core-" + one for one in (old[: len(old) - keep] if keep < len(old) else [])]

    def broken(self):
        return []

    def damaged(self):
        return []

    def problems(self):
        return iter(())


def words_of(text):
    """Words of a command line, without those that a loader adds."""
    words = [word.replace('"', "") for word in text.split()]
    return [word for word in words if name_of(word) not in ADDED_BY_LOADER and "$" not in word]


def name_of(parameter):
    return parameter.split("=")[0].replace("-", "_")


def lacking(declared, words):
    """Declared parameters that a command line has not, or not as the last of their name."""
    line = words[: words.index("--")] if "--" in words else words
    bad = []
    for name in sorted({name_of(one) for one in declared}):
        wanted = [one for one in declared if name_of(one) == name]
        if [one for one in line if name_of(one) == name][-len(wanted) :] != wanted:
            bad += wanted
    return bad


def grub_entries(text):
    """Entries of a grub.cfg that boot Linux: id path, numbers, release, words, initrd."""
    stack, entries = [{"kind": "submenu", "count": 0}], []
    for raw in text.splitlines():
        line = " ".join(raw.split())
        heading = re.match(r"(menuentry|submenu) (.*)\{$", line)
        if heading:
            words = shlex.split(heading.group(2))
            ids = [b for a, b in zip(words, words[1:]) if "menuentry_id_option" in a or a == "--id"]
            parent = [one for one in stack if one["kind"] == "submenu"][-1]
            block = {
                "kind": heading.group(1), "id": ids[0] if ids else words[0], "title": words[0],
                "number": parent["count"], "count": 0,
            }  # fmt: skip
            parent["count"] += 1
            stack.append(block)
            if block["kind"] == "menuentry":
                chain = [one for one in stack[1:] if one["kind"] != "other"]
                entries.append({
                    "path": ">".join(one["id"] for one in chain),
                    "steps": [(one["id"], one["title"], str(one["number"])) for one in chain],
                    "release": "", "words": [], "initrd": "",
                })  # fmt: skip
        elif line.endswith("{"):
            stack.append({"kind": "other", "count": 0})
        elif line == "}" and len(stack) > 1:
            stack.pop()
        elif stack[-1]["kind"] == "menuentry":
            first, _, rest = line.partition(" ")
            if first in ("linux", "linux16", "linuxefi"):
                path, _, arguments = rest.partition(" ")
                entries[-1]["words"] = words_of(arguments)
                found = re.search(r"vmlinu[xz]-(\S+)$", path)
                entries[-1]["release"] = found.group(1) if found else ""
            elif first.startswith("initrd"):
                entries[-1]["initrd"] = rest
    return entries


def default_of(entries, text, environment):
    """The entry that boots by default, and in words why."""
    found = [one.strip("\"'") for one in re.findall(r"^\s*set default=(.*)$", text, re.MULTILINE)]
    found = [one for one in found if "next_entry" not in one]
    wanted = re.sub(
        r"\$\{?(\w+)\}?", lambda m: environment.get(m.group(1), ""), (found or ["0"])[-1]
    )
    steps = (wanted or "0").split(">")
    for entry in entries:
        pairs = list(zip(steps, entry["steps"]))
        if len(steps) <= len(entry["steps"]) and all(step in names for step, names in pairs):
            return entry, wanted
    return (entries[0] if entries else None), wanted


class Grub:
    """The menu of grub.cfg, on Debian and Ubuntu."""

    CONFIG = "/boot/grub/grub.cfg"
    leftover = ()

    def __init__(self, asked, target):
        text = text_of(self.CONFIG)
        pairs = (line.split("=", 1) for line in text_of("/boot/grub/grubenv").splitlines())
        environment = {pair[0]: pair[1] for pair in pairs if len(pair) > 1}
        self.asked, self.target = asked, target
        self.entries = grub_entries(text)
        self.default, self.wanted = default_of(self.entries, text, environment)
        named = [one for one in self.entries if target and one["release"] == target]
        exact = [
            one for one in named
            if target in one["path"] and not {"single", "recovery"} & set(one["words"])
        ]  # fmt: skip
        self.entry = (exact or named or [None])[0]

    @property
    def default_release(self):
        return self.default["release"] if self.default else ""

    def settings(self):
        """GRUB's settings as grub-mkconfig reads them, or None where that cannot be foretold."""
        found = {}
        for path in ["/etc/default/grub"] + sorted(glob.glob("/etc/default/grub.d/*.cfg")):
            for name, value in re.findall(r"^\s*(GRUB_\w+)=(.*)$", text_of(path), re.MULTILINE):
                try:
                    plain = " ".join(shlex.split(value, comments=True))
                except ValueError:
                    return None
                plain = re.sub(r"\$\{?(GRUB_\w+)\}?", lambda m: found.get(m.group(1), ""), plain)
                if "$" in plain or "`" in plain:
                    return None
                found[name] = plain
        return found

    def stale(self):
        """Why the menu has to be written anew."""
        if self.entry is None or self.default is None:
            yield "it does not list kernel '%s'" % self.target
            return
        if self.default_release != self.target:
            yield "it boots '%s' by default" % self.default_release
        missing = lacking(self.asked["parameters"], self.default["words"])
        if missing:
            yield "its default entry lacks '%s'" % " ".join(missing)
        settings = self.settings()
        if settings is not None:
            names = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
            wanted = words_of(" ".join(settings.get(name, "") for name in names))
            if wanted and self.default["words"][-len(wanted) :] != wanted:
                yield "its default entry is not made of the present settings"
        if os.path.exists("/boot/initrd.img-" + self.target) and not self.default["initrd"]:
            yield "its default entry loads no initramfs"


class Grubby:
    """The entries of the Boot Loader Specification, by grubby. Not tested."""

    def __init__(self, asked, target):
        text = run("grubby", "--info=DEFAULT")
        found = dict(re.findall(r'^(\w+)="?(.*?)"?$', text, re.MULTILINE))
        words = words_of("root=%s %s" % (found.get("root", ""), found.get("args", "")))
        release = re.search(r"vmlinuz-(\S+)$", found.get("kernel", ""))
        self.asked, self.target = asked, target
        self.default_release = release.group(1) if release else ""
        self.default = {"words": words, "path": found.get("id", "")}
        self.wanted = found.get("id", "")
        self.entry = {"path": "/boot/vmlinuz-" + target} if target else None
        recorded = text_of(asked["state_file"]).splitlines()
        ours = [one for one in recorded if one and not one.startswith("#")]
        self.leftover = [one for one in ours if one not in asked["parameters"]]

    def stale(self):
        if self.default_release != self.target:
            yield "it boots '%s' by default" % self.default_release
        if lacking(self.asked["parameters"], self.default["words"]):
            yield "its default entry lacks parameters"
        if set(self.leftover) & set(self.default["words"]):
            yield "its default entry has parameters that are no longer declared"


def initramfs_due(target, manager):
    """'missing', 'stale' or ''."""
    pattern = "/boot/initrd.img-%s" if manager == "apt" else "/boot/initramfs-%s.img"
    path = pattern % target
    if not target:
        return ""
    if not os.path.exists(path) or os.path.getsize(path) < 1024:
        return "missing"
    made = os.path.getmtime(path)
    inputs = glob.glob("/etc/initramfs-tools/**", recursive=True) + glob.glob("/etc/dracut.conf*")
    inputs += glob.glob("/etc/dracut.conf.d/*")
    return (
        "stale"
        if any(os.path.isfile(one) and os.path.getmtime(one) > made for one in inputs)
        else ""
    )


def module_problems(asked, target):
    """Modules from outside of the kernel that the declared kernel lacks."""
    for name in asked["modules"]:
        pattern = r"^(?:[^:]*/)?%s\.ko(\.\w+)?:" % re.escape(name).replace("_", "[_-]")
        having = {
            path.split("/")[3] for path in glob.glob("/lib/modules/*/modules.dep")
            if re.search(pattern, text_of(path), re.MULTILINE)
        }  # fmt: skip
        # Where no kernel has it, it is yet to be installed.
        if having and target not in having:
            yield "kernel '%s' has module '%s', and this one has not" % (having.pop(), name)
    if any(os.path.exists(os.path.join(one, "dkms")) for one in ("/usr/sbin", "/sbin", "/usr/bin")):
        line = re.compile(r"([^\s,/:]+)(?:/|, )([^\s,:/]+)(?:, ([^\s,:]+))?[^:]*: (installed|\S+)")
        builds = [
            one.groups() for one in map(line.match, run("dkms", "status").splitlines()) if one
        ]
        for name in sorted({build[0] for build in builds}):
            states = [build[3] for build in builds if build[0] == name and build[2] == target]
            if not any(state.startswith("installed") for state in states):
                yield "DKMS has not built '%s' for it" % name


def boot_space_problem(asked):
    info = os.statvfs("/boot")
    free = info.f_bavail * info.f_frsize // (1 << 20)
    if free < asked["boot_space_mib"]:
        yield (
            "Only %d MiB are free in '/boot', and a kernel with its initramfs takes up to %d: "
            "remove an old one first." % (free, asked["boot_space_mib"])
        )


def unsuited(asked, packages):
    for parameter in asked["parameters"]:
        if not PARAMETER.match(parameter):
            yield (
                "'%s' is no boot parameter that can be handed on whole: GRUB takes blanks, quotes, "
                "'$', ';' and brackets for itself." % parameter
            )
        elif name_of(parameter) in ("root", "ro", "rw", "init", "BOOT_IMAGE"):
            yield "'%s' is the boot loader's business, and not set by this role." % parameter
    yield from packages.problems()
    if packages.due:
        yield from boot_space_problem(asked)


def reboot_reasons(loader, running, words):
    """What is different between the running system and the one that boots by default."""
    if loader.default is None:
        return
    if loader.default_release != running:
        yield "kernel '%s' runs and '%s' boots by default" % (running, loader.default_release)
    ours = [one for one in loader.default["words"] if one not in words]
    theirs = [one for one in words if one not in loader.default["words"]]
    if ours or theirs:
        yield "parameters: to be added '%s', to be dropped '%s'" % (
            " ".join(ours),
            " ".join(theirs),
        )


def has_grub():
    tools = ("/usr/sbin/update-grub", "/sbin/update-grub")
    return any(map(os.path.exists, (*tools, Grub.CONFIG)))


def main(asked):
    place = machine()
    if place == "container" and not asked["in_containers"]:
        return {"machine": place, "managed": False, "problems": []}
    if asked["stream"] not in asked["streams"]:
        return {"machine": place, "managed": True, "problems": [
            "This distribution has no stream '%s' of kernels; it has: '%s'."
            % (asked["stream"], "', '".join(sorted(asked["streams"])))
        ]}  # fmt: skip
    packages = (Debian if asked["manager"] == "apt" else Rpm)(asked)
    target = packages.target
    if asked["manager"] == "apt" and not has_grub():
        return {"machine": place, "managed": True, "problems": [
            "The node is not booted by GRUB: it has no '%s' and no 'update-grub'." % Grub.CONFIG
        ]}  # fmt: skip
    loader = (Grub if asked["manager"] == "apt" else Grubby)(asked, target)
    running = "" if place == "container" else os.uname().release
    words = words_of(text_of("/proc/cmdline"))
    install, unavailable = packages.installable() if asked["look_up"] else ([], [])
    hold, unhold = packages.to_hold()
    reasons = [] if place == "container" else list(reboot_reasons(loader, running, words))
    return {
        "machine": place, "managed": True,
        "problems": list(unsuited(asked, packages)), "unavailable": unavailable,
        "due": packages.due, "install": install, "broken": packages.broken(),
        "damaged": packages.damaged(), "image": packages.image, "headers": packages.headers,
        "version": packages.version or (re.split("=", install[0])[-1] if install else ""),
        "target": target, "hold": hold, "unhold": unhold,
        "remove": packages.removable(running, loader.default_release) if target else [],
        "listed": loader.entry is not None, "entry": loader.entry["path"] if loader.entry else "",
        "stale": list(loader.stale()), "chosen_by": loader.wanted,
        "leftover": list(loader.leftover),
        "default": loader.default_release, "initramfs": initramfs_due(target, asked["manager"]),
        "modules": list(module_problems(asked, target)) if target else [],
        "running": running, "reboot": reasons,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
