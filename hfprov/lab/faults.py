"""Practice faults: what goes wrong in real racks, as data.

Each script runs inside the node as root, with ``sh -eu``. It looks for what it breaks instead of
knowing which file a role writes, and fails when there is nothing to break.
"""

from __future__ import annotations

from dataclasses import dataclass

from hfprov.errors import LabError

_PROVISIONED = "The node must be provisioned before this can be broken: hfprov provision"
_NETWORK_FILES = "/etc/systemd/network /etc/network"
_MEMLOCK_FILES = "files=$(grep -lE '^[^#]*memlock' /etc/security/limits.d/*.conf)"
_TIME_UNIT = (
    "unit=$(systemctl list-unit-files --no-legend 'chrony*.service' 'ntpsec.service' "
    "'systemd-timesyncd.service' | awk '$2 == \"enabled\" {print $1; exit}')\n"
    '[ -n "$unit" ] || { echo "no time daemon is enabled" >&2; exit 1; }\n'
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to break. ``trips`` says which checks notice, as ``hfprov drift`` names them."""

    name: str
    description: str
    trips: str
    script: str
    needs: str = ""
    """What must be so for the script to find something to break."""


_FAULTS = (
    Fault(
        name="mtu-runtime",
        description="The data NIC runs with an MTU of 1500; its configuration says otherwise.",
        trips="mtu.live",
        script="ip link set dev eth1 mtu 1500",
    ),
    Fault(
        name="mtu-file",
        description="The data NIC's MTU is gone from its configuration: right until the next boot.",
        trips="mtu.persistent, mtu.files",
        script=(
            f"files=$(grep -rlE '^ *(MTUBytes=|mtu )' {_NETWORK_FILES})\n"
            "sed -i -E '/^ *(MTUBytes=|mtu )/d' $files"
        ),
        needs=_PROVISIONED,
    ),
    Fault(
        name="data-link-down",
        description="The data NIC was taken down by hand.",
        trips="nic.link, mtu.address, mtu.address.files",
        script="ip link set dev eth1 down",
    ),
    Fault(
        name="limits-file-removed",
        description="The file in /etc/security/limits.d that allows pinned memory is gone.",
        trips="limits.pam.file, limits.session",
        script=f"{_MEMLOCK_FILES}\nrm $files",
        needs=_PROVISIONED,
    ),
    Fault(
        name="limits-value",
        description="The pinned memory limit in /etc/security/limits.d was set to 64 KiB.",
        trips="limits.pam.file, limits.session",
        script=f"{_MEMLOCK_FILES}\nsed -i -E 's/(memlock[[:space:]]+)[^[:space:]]+/\\164/' $files",
        needs=_PROVISIONED,
    ),
    Fault(
        name="limits-stray",
        description="Another file in /etc/security/limits.d sorts last and wins with 64 KiB.",
        trips="limits.pam.rivals, limits.session",
        script=(
            "for who in '*' root; do echo \"$who - memlock 64\"; done "
            "> /etc/security/limits.d/zz-site.conf"
        ),
    ),
    Fault(
        name="systemd-limits-dropin-removed",
        description="The drop-in with systemd's default limits is gone: services get 8 MiB.",
        trips="limits.systemd.files, limits.systemd.defaults",
        script=(
            "files=$(grep -lE '^DefaultLimit' /etc/systemd/system.conf.d/*.conf)\n"
            "rm $files\nsystemctl daemon-reload"
        ),
        needs=_PROVISIONED,
    ),
    Fault(
        name="limits-service",
        description="A drop-in lowers the pinned memory limit of one service, the SSH server.",
        trips="limits.units, limits.running, limits.session",
        script=(
            "mkdir -p /etc/systemd/system/ssh.service.d\n"
            "printf '[Service]\\nLimitMEMLOCK=65536\\n' "
            "> /etc/systemd/system/ssh.service.d/zz-site.conf\n"
            "systemctl daemon-reload\nsystemctl restart ssh.service"
        ),
    ),
    Fault(
        name="time-stopped",
        description="The time daemon is stopped; it starts again at the next boot.",
        trips="time.daemon",
        script=f'{_TIME_UNIT}systemctl stop "$unit"',
        needs=_PROVISIONED,
    ),
    Fault(
        name="time-disabled",
        description="The time daemon runs but is not enabled: no time after the next boot.",
        trips="time.daemon",
        script=f'{_TIME_UNIT}systemctl disable "$unit"',
        needs=_PROVISIONED,
    ),
    Fault(
        name="time-server-changed",
        description="The time daemon asks a server that does not exist.",
        trips="time.files, time.config, time.sources",
        script=(
            "files=$(grep -rlE '^(server|pool|peer) ' /etc/chrony)\n"
            "sed -i -E 's/^(server|pool|peer) +[^ ]+/\\1 198.51.100.123/' $files\n"
            "systemctl restart chrony.service"
        ),
        needs=_PROVISIONED,
    ),
    Fault(
        name="time-second-daemon",
        description="A second time daemon, systemd-timesyncd, runs beside the first.",
        trips="time.rivals",
        # Unpacked, not installed: the packages exclude each other. Aside first, because unpacking
        # over '/' replaces the links of a merged /usr. The drop-in lets it run in a container,
        # where it cannot set the clock.
        script=(
            "dpkg-deb -x /srv/hfprov-lab/apt/systemd-timesyncd_*.deb /var/tmp/timesyncd\n"
            "for tree in /var/tmp/timesyncd/lib /var/tmp/timesyncd/usr/lib; do\n"
            '    [ ! -d "$tree" ] || cp -a "$tree/." /usr/lib/\n'
            "done\n"
            "systemd-sysusers\n"
            "mkdir -p /etc/systemd/system/systemd-timesyncd.service.d\n"
            "printf '[Unit]\\nConditionVirtualization=\\nConditionCapability=\\n' "
            "> /etc/systemd/system/systemd-timesyncd.service.d/lab.conf\n"
            "systemctl daemon-reload\nsystemctl enable --now systemd-timesyncd.service"
        ),
    ),
    Fault(
        name="sshd-down",
        description="The SSH server and every open connection are gone: unreachable.",
        trips="unreachable",
        script=(
            "systemctl stop ssh.socket 2>/dev/null || :\n"
            "systemctl kill --signal=KILL ssh.service\nsystemctl stop ssh.service"
        ),
    ),
    Fault(
        name="host-key-changed",
        description="The node shows another host key than the pinned one.",
        trips="unreachable: wrong host key",
        script=(
            "rm /etc/ssh/ssh_host_*\n"
            "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key\n"
            "systemctl kill --signal=KILL ssh.service\nsystemctl restart ssh.service"
        ),
    ),
    Fault(
        name="python-gone",
        description="There is no Python interpreter at /usr/bin/python3.",
        trips="unreachable: no Python",
        script="mv /usr/bin/python3 /usr/bin/python3.gone",
    ),
    Fault(
        name="python-hangs",
        description="Python starts and never says anything, as on a node with a dead NFS mount.",
        trips="unreachable: no answer in time",
        script=(
            "mv /usr/bin/python3 /usr/bin/python3.real\n"
            "printf '#!/bin/sh\\nexec sleep 3600\\n' > /usr/bin/python3\nchmod 755 /usr/bin/python3"
        ),
    ),
    Fault(
        name="noisy-shell",
        description="Logging in prints a banner on standard output, ahead of a command's output.",
        trips="nothing: must not matter",
        script=(
            'printf \'echo "*** Authorised use only ***"; echo "{}"\\n\' > /tmp/noise\n'
            "cat /root/.bashrc >> /tmp/noise 2>/dev/null || :\nmv /tmp/noise /root/.bashrc"
        ),
    ),
    Fault(
        name="disk-full",
        description="No space is left in /tmp, /var/tmp and Ansible's temporary directory.",
        trips="node.filesystems",
        # Small file systems of their own: the node's disk is the machine's.
        script=(
            "for place in /tmp /var/tmp /root/.ansible; do\n"
            '    mkdir -p "$place"\n'
            '    mount -t tmpfs -o size=64k,mode=1777 full "$place"\n'
            '    head -c 1M /dev/zero > "$place/full" 2>/dev/null || :\n'
            "done"
        ),
    ),
    Fault(
        name="inodes-used-up",
        description="Small files used up the inodes of /tmp: room is left, no file can be made.",
        trips="node.filesystems",
        script=(
            "mount -t tmpfs -o size=64m,nr_inodes=64,mode=1777 full /tmp\n"
            "number=0\n"
            'while [ "$number" -lt 99 ]; do\n'
            '    number=$((number + 1)); touch "/tmp/small.$number" 2>/dev/null || break\n'
            "done"
        ),
    ),
    Fault(
        name="folder-open",
        description="Everybody may write /etc/sysctl.d, from which root sets up the kernel.",
        trips="node.folders",
        script="chmod 0777 /etc/sysctl.d",
    ),
    Fault(
        name="address-lost",
        description="The data NIC lost its address; its configuration has it still.",
        trips="mtu.address, mtu.address.files",
        script="ip addr flush dev eth1",
    ),
    Fault(
        name="host-name-changed",
        description="The node has another host name than /etc/hostname gives.",
        trips="node.host_name",
        script="hostname other",
    ),
    Fault(
        name="package-unfinished",
        description="dpkg was cut off while it configured openssh-server.",
        trips="node.packages",
        script=(
            "sed -i '/^Package: openssh-server$/,/^$/"
            "s/^Status:.*/Status: install ok half-configured/' /var/lib/dpkg/status"
        ),
    ),
    Fault(
        name="shared-memory-small",
        description="Shared memory has 64 MiB, as in a container without '--shm-size'.",
        trips="node.shared_memory",
        script="mount -o remount,size=64m /dev/shm",
    ),
)


def faults() -> tuple[Fault, ...]:
    """Every fault, in the order in which they are listed."""
    return _FAULTS


def find_fault(name: str) -> Fault:
    """Raises :class:`LabError` for a name that is not listed."""
    for fault in _FAULTS:
        if fault.name == name:
            return fault
    raise LabError(f"There is no fault '{name}'.", hint="hfprov lab break --list")
