"""Say what of the hardening is in effect on this node, and what it must refuse. Changes nothing.

Standard library only, any Python from 3.6. The argument is a JSON object, see vars/main.yml; the
answer is one, too.
"""

import fnmatch
import glob
import ipaddress
import json
import os
import re
import stat
import subprocess
import sys

CONTAINERS = {
    "systemd-nspawn", "lxc", "lxc-libvirt", "docker", "podman", "openvz", "rkt", "wsl", "proot",
    "pouch", "container-other",
}  # fmt: skip
GUARD = "hfprov-guard.timer"
# Whatever the value: each breaks nodes of this kind, or belongs to another role.
REFUSED_SYSCTLS = {
    "net.ipv4.ip_forward": "containers have no network without forwarding",
    "net.ipv*.conf.*.forwarding": "containers have no network without forwarding",
    "net.bridge.*": "container runtimes set it themselves",
    "kernel.modules_disabled": "drivers, fabric managers and CDI load modules long after boot",
    "kernel.kexec_load_disabled": "kdump could not load its kernel",
    "kernel.unprivileged_userns_clone": "rootless containers need user namespaces",
    "user.max_*_namespaces": "rootless containers need user namespaces",
    "kernel.yama.ptrace_scope": "it has a variable of its own, 'hardening_ptrace_scope'",
    "net.ipv4.conf.*.rp_filter": "it has a variable of its own, 'hardening_rp_filter'",
    "net.ipv4.tcp_*": "the role 'performance' tunes TCP",
    "net.core.*": "the role 'performance' tunes it",
    "vm.*": "the role 'performance' tunes it",
    "kernel.numa_balancing": "the role 'performance' tunes it",
    "kernel.core_pattern": "crash analysis needs core dumps",
    "fs.nr_open": "the role 'limits' relies on it",
    "fs.file-max": "the role 'limits' relies on it",
}
SYSCTL_NAME = re.compile(r"(kernel|net|fs|dev|user|debug)(\.[A-Za-z0-9_*-]+)+")
NEEDED_MODULES = (
    "ib_*", "rdma_*", "iw_*", "mlx*", "irdma", "bnxt*", "qedr", "efa", "hns_roce*", "siw",
    "nvidia*", "amdgpu", "habanalabs", "xe", "nvme*", "overlay", "squashfs", "vfat", "fat",
    "nls_*", "loop",
    "dm_*", "xfs", "ext4", "btrfs", "fuse", "nfs*", "sunrpc", "br_netfilter", "nf_*", "nft_*",
    "ip_tables", "veth", "tun", "ipmi_*",
)  # fmt: skip
# Module by name of file system, where they differ.
MODULES_OF = {
    "vfat": ("vfat", "fat"),
    "msdos": ("msdos", "fat"),
    "iso9660": ("isofs",),
    "nfs4": ("nfs", "nfsv4"),
    "ext2": ("ext2", "ext4"),
    "ext3": ("ext3", "ext4"),
}


def run(*argv):
    """Exit code, standard output and errors; code None when there is no such command."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=20, check=False,
        )  # fmt: skip
    except OSError:
        return None, "", ""
    return (
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )


def text_of(path):
    try:
        with open(path, errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


def is_written(path, text):
    """Whether a file is as the role writes it."""
    try:
        info = os.lstat(path)
    except OSError:
        return False
    rights = stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid
    return stat.S_ISREG(info.st_mode) and rights == (0o644, 0, 0) and text_of(path) == text


# Logins


def session():
    """(user, own port, peer's address) of the ssh session that this runs in; None without one."""
    pid, user, connection = os.getpid(), None, ""
    while pid > 1:
        words = text_of("/proc/%d/cmdline" % pid).split("\0")
        match = re.match(r"sshd(?:-session)?: ([^ @\[]+)(?:@| \[priv\])", words[0])
        if match:
            user = match.group(1)
            break
        for entry in text_of("/proc/%d/environ" % pid).split("\0"):
            if entry.startswith("SSH_CONNECTION="):
                connection = entry.split("=", 1)[1]
        status = re.search(r"^PPid:\s*(\d+)", text_of("/proc/%d/status" % pid), re.MULTILINE)
        pid = int(status.group(1)) if status else 0
    fields = connection.split()
    if len(fields) != 4:
        return user, None, None
    return user, int(fields[3]), fields[0]


def ssh_problems(asked, user):
    code, _, errors = run("/usr/sbin/sshd", "-t")
    if code != 0:
        yield (
            "sshd's configuration is not valid, so that a reload would end it: %s"
            % (errors.strip().splitlines() or ["no sshd"])[-1]
        )
    if not re.search(
        r"^\s*Include\s+/etc/ssh/sshd_config\.d/\*\.conf",
        text_of("/etc/ssh/sshd_config"),
        re.MULTILINE | re.IGNORECASE,
    ):
        yield (
            "'/etc/ssh/sshd_config' does not include '/etc/ssh/sshd_config.d/*.conf': add that "
            "line at its top."
        )
    if user == "root" and asked["permit_root_login"] in ("no", "forced-commands-only"):
        yield (
            "It is root who is logged in here, and 'hardening_ssh_permit_root_login' is '%s': log "
            "in as another user first, and become root." % asked["permit_root_login"]
        )


def newest_of(paths):
    return max([os.path.getmtime(path) for path in paths if os.path.exists(path)], default=0)


def ssh_is_stale():
    """Whether sshd has read its files since they were last written: it writes its PID then."""
    pid_file = "/run/sshd.pid"
    if not os.path.exists(pid_file):
        return False
    files = glob.glob("/etc/ssh/sshd_config.d/*.conf") + ["/etc/ssh/sshd_config"]
    return newest_of(files) > os.path.getmtime(pid_file)


# The kernel


def is_refused(name):
    for pattern, reason in REFUSED_SYSCTLS.items():
        if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(pattern, name):
            return reason
    return ""


def sysctl_problems(asked):
    for name in sorted(asked["extra_sysctls"]):
        reason = is_refused(name)
        if reason:
            yield "'hardening_extra_sysctls' names '%s': %s." % (name, reason)
        elif not SYSCTL_NAME.fullmatch(name):
            yield "'hardening_extra_sysctls' names '%s', which is no kernel setting." % name


def stale_sysctls(wanted, in_container):
    """(settings to set, as path=value; settings that belong to a container's host)."""
    stale, hosts = [], []
    for name, value in sorted(wanted.items()):
        if in_container and not name.startswith(("net.ipv4.", "net.ipv6.")):
            hosts.append(name)
            continue
        paths = sorted(glob.glob("/proc/sys/" + name.replace(".", "/")))
        if not paths and "*" not in name:
            stale.append("%s=%s" % (name.replace(".", "/"), value))
        stale += [
            "%s=%s" % (path[len("/proc/sys/") :], value)
            for path in paths
            if " ".join(text_of(path).split()) != str(value)
        ]
    return stale, hosts


def filesystems_in_use():
    """Kinds of file systems that are mounted, or will be: {kind: where that is said}."""
    found = {}
    for path in ["/proc/self/mounts", "/etc/fstab"] + glob.glob("/etc/systemd/system/*.mount"):
        for line in text_of(path).splitlines():
            fields = line.split("#")[0].split()
            if path.endswith(".mount"):
                match = re.match(r"\s*Type\s*=\s*(\S+)", line)
                kinds = [match.group(1)] if match else []
            else:
                kinds = fields[2].split(",") if len(fields) > 3 else []
            for kind in kinds:
                for module in MODULES_OF.get(kind, (kind.split(".")[0],)):
                    found.setdefault(module, path)
    return found


def module_problems(asked, in_container):
    used = filesystems_in_use()
    loaded = {line.split()[0] for line in text_of("/proc/modules").splitlines() if line}
    for given in asked["modules"]:
        name = given.replace("-", "_")
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in NEEDED_MODULES):
            yield "'hardening_disabled_modules' names '%s', which nodes like this need." % given
        elif name in used:
            yield (
                "'hardening_disabled_modules' names '%s', but '%s' has such a file system: the "
                "node might not boot." % (given, used[name])
            )
        elif name in loaded and not in_container:
            yield (
                "'hardening_disabled_modules' names '%s', which is loaded: unload it, or take it "
                "off the list for this host." % given
            )
        elif not re.fullmatch(r"[A-Za-z0-9_]+", name):
            yield "'hardening_disabled_modules' names '%s', which is no module." % given


# Packages, timers, auditd


def missing_packages(names, manager):
    if not names:
        return []
    if manager == "apt":
        form = "${Package} ${db:Status-Status}\n"
        text = run("dpkg-query", "--show", "--showformat=" + form, "--", *names)[1]
        return [name for name in names if name + " installed" not in text.splitlines()]
    return [name for name in names if run("rpm", "-q", name)[0] != 0]


def timers_off(names):
    """Timers that do not run or do not start at boot."""
    found = []
    for name in names:
        text = run("systemctl", "show", "--property=ActiveState,UnitFileState", "--", name)[1]
        if sorted(text.split()) != ["ActiveState=active", "UnitFileState=enabled"]:
            found.append(name)
    return found


def audit_is_stale(asked, in_container):
    """Whether the kernel has not all the declared rules. A container has no audit of its own."""
    if not asked["audit"] or in_container:
        return False
    code, text, _ = run("auditctl", "-l")
    loaded = text.splitlines()
    return code != 0 or any(rule not in loaded for rule in asked["audit_rules"])


# The firewall


def rules(text):
    """Lines of a ruleset without comments; sets sorted, and of one element as nft writes them."""
    found = []
    for line in text.splitlines():
        plain = " ".join(line.split())
        if plain and not plain.startswith(("#", "delete table")):
            found.append(re.sub(r"\{ ([^{}]*) \}", _sorted_set, plain))
    # The first line only makes sure that there is a table to delete.
    return [one for one in found if one != "table inet hfprov_management"]


def _sorted_set(match):
    elements = sorted(part.strip() for part in match.group(1).split(","))
    return elements[0] if len(elements) == 1 else "{ %s }" % ", ".join(elements)


def firewall_problems(asked, port, peer):
    if not asked["firewall"]:
        return
    name = asked["firewall_interface"]
    if not os.path.isdir("/sys/class/net/%s" % name) or not re.fullmatch(r"[\w.:-]{1,15}", name):
        yield (
            "'hardening_management_interface' is '%s', and there is no such interface on this node."
            % name
        )
    networks = []
    for source in asked["firewall_sources"]:
        try:
            networks.append(ipaddress.ip_network(source))
        except ValueError as error:
            yield "'hardening_firewall_sources' names '%s': %s." % (source, error)
    if port is None:
        return
    if port not in asked["firewall_ports"]:
        yield (
            "The connection in use comes in at port %d, which 'hardening_firewall_tcp_ports' does "
            "not name: it would be the last one." % port
        )
    address = ipaddress.ip_address(peer.split("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if networks and not any(address in one for one in networks if one.version == address.version):
        yield (
            "The connection in use comes from '%s', which 'hardening_firewall_sources' leaves out: "
            "it would be the last one." % peer
        )


def guard_problems():
    if run("systemctl", "is-active", "--quiet", GUARD)[0] == 0:
        yield (
            "A change of an earlier run is not confirmed, and '%s' will take it back within "
            "minutes: wait until it has, then run again." % GUARD
        )


def main(asked):
    # systemd-detect-virt ends with 1 where there is no virtualization.
    in_container = run("systemd-detect-virt")[1].strip() in CONTAINERS
    user, port, peer = session()
    stale, hosts = stale_sysctls(asked["sysctls"], in_container)
    code, live, _ = run("nft", "--stateless", "list", "table", "inet", "hfprov_management")
    listed = code == 0
    ours = [asked["firewall_file"], "/etc/systemd/system/" + asked["firewall_unit"]]
    problems = [
        *ssh_problems(asked, user),
        *sysctl_problems(asked),
        *module_problems(asked, in_container),
        *firewall_problems(asked, port, peer),
        *guard_problems(),
        *(
            "'hardening_updates_excluded' names '%s', which is no beginning of a package's name."
            % name
            for name in asked["excluded"]
            if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name)
        ),
    ]
    return {
        "in_container": in_container,
        "problems": problems,
        "ssh_due": not is_written(asked["ssh_file"], asked["ssh_text"]) or ssh_is_stale(),
        "stale_sysctls": stale,
        "left_to_host": hosts,
        "missing_packages": missing_packages(
            asked["packages"] + ([] if in_container else asked["kernel_packages"]),
            asked["manager"],
        ),
        "timers_off": timers_off(asked["timers"]),
        "audit_stale": audit_is_stale(asked, in_container),
        "firewall_due": asked["firewall"]
        and (not listed or rules(live) != rules(asked["firewall_text"])),
        "firewall_left": not asked["firewall"]
        and (listed or any(os.path.lexists(path) for path in ours)),
        "firewall_enabled": os.path.lexists(
            "/etc/systemd/system/sysinit.target.wants/" + asked["firewall_unit"]
        ),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
