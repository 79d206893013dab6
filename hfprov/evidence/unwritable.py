"""What not even root can write (``chattr +i``), and what adapters do in place of the CPUs.

Both in one process: a shell looks, and then becomes ``ethtool``. The kernel denies root to write an
immutable file, access(2), ioctl_iflags(2); a shell without ``faccessat`` sees no such file.
With a star for the name ethtool tells of all interfaces at once, from version 5.7 and kernel 5.6 on
(ethtool(8), ethtool netlink); what is older tells of no interface of that name.
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.ethtool import dispatch
from hfprov.evidence.ethtool.settings import Feature, Features
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Source, command, complete_text
from hfprov.regex import regex

_FOLDERS = (
    *("/etc", "/etc/apt/apt.conf.d", "/etc/apt/preferences.d", "/etc/audit/rules.d"),
    *("/etc/chrony", "/etc/chrony/conf.d", "/etc/chrony.d", "/etc/default/grub.d", "/etc/docker"),
    *("/etc/hfprov", "/etc/modprobe.d", "/etc/modules-load.d", "/etc/netplan"),
    *("/etc/network", "/etc/network/interfaces.d", "/etc/security/limits.d", "/etc/ssh"),
    *("/etc/ssh/sshd_config.d", "/etc/sysctl.d", "/etc/systemd/logind.conf.d"),
    *("/etc/systemd/network", "/etc/systemd/system", "/etc/systemd/system.conf.d"),
    *("/etc/systemd/user.conf.d", "/etc/udev/rules.d", "/usr/bin", "/usr/sbin"),
    *("/usr/local/bin", "/usr/local/lib/hfprov", "/usr/local/sbin", "/boot"),
)
_FILES = (
    *(f"{folder}/*hfprov*" for folder in _FOLDERS if folder.endswith(".d")),
    *("/etc/hfprov/*", "/etc/systemd/system/*hfprov*", "/etc/systemd/system/*.d/*hfprov*"),
    *("/etc/systemd/network/*hfprov*", "/etc/systemd/network/*.d/*hfprov*"),
    *("/etc/netplan/*", "/etc/network/interfaces", "/etc/network/interfaces.d/*"),
    *("/etc/chrony.conf", "/etc/chrony/chrony.conf", "/etc/default/chrony", "/etc/default/grub"),
    *("/etc/docker/daemon.json", "/etc/nccl.conf", "/etc/rccl.conf", "/etc/ssh/sshd_config"),
    *("/etc/sysconfig/chronyd", "/usr/local/lib/hfprov/*", "/boot/grub/grub.cfg"),
    *("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/fstab", "/etc/modules"),
)
"""What roles write, and what packages and accounts need to."""
_MARK, _NO_ETHTOOL = "hfprov-offloads", "hfprov-no-ethtool"
_SCRIPT = f"""\
ask=$1
shift
IFS=
for places; do
  for place in $places; do
    [ ! -e "$place" ] || [ -w "$place" ] || printf '%s\\0' "$place"
  done
done
echo {_MARK}
[ "$ask" ] || exit 0
command -v ethtool >/dev/null || {{ echo {_NO_ETHTOOL}; exit 0; }}
exec ethtool -k '*'"""
_TOO_OLD = regex(r"No such device|not supported|bad command line|Invalid argument")
_ANY = range(256)
"""Exit codes are ethtool's; what the shell saw is whole where the mark follows it."""


def _read(baseline: Baseline) -> Read:
    ask = "offloads" if baseline.get("jumbo_mtu_interfaces") else ""
    arguments = (ask, *_FOLDERS, *_FILES)
    return command("sh", "-c", _SCRIPT, "sh", *arguments, timeout=10, limit=1 << 20)


def _halves(seen: Observation, baseline: Baseline) -> tuple[str, str]:
    read = _read(baseline)
    text = complete_text(read, seen.one(read), codes=_ANY)
    places, mark, told = text.rpartition(f"{_MARK}\n")
    if not mark:
        raise NoEvidenceError("The shell did not look at all places.")
    return places, told


def _parse_places(seen: Observation, baseline: Baseline) -> tuple[str, ...]:
    if seen.uid != 0:
        raise NoEvidenceError("What root can write only root can tell.")
    places, _ = _halves(seen, baseline)
    return tuple(dict.fromkeys(excerpt(clean(one), 200) for one in places.split("\0") if one))


UNWRITABLE: Source[tuple[str, ...]] = Source(
    "what root cannot write", lambda baseline: (_read(baseline),), _parse_places
)
"""Paths of files and folders."""


def _parse_offloads(
    seen: Observation, baseline: Baseline
) -> Mapping[str, Mapping[str, Feature]] | None:
    result, (_, told) = seen.one(_read(baseline)), _halves(seen, baseline)
    if told.strip() == _NO_ETHTOOL or (result.code and _TOO_OLD.search(result.stderr)):
        return None
    if result.code:
        raise NoEvidenceError(f"'ethtool -k' ended with {result.code}: {excerpt(result.stderr)}")
    found = dispatch.parse(told)
    features: dict[str, Mapping[str, Feature]] = {}
    for one in found if isinstance(found, tuple) else (found,):
        if not isinstance(one, Features) or one.interface is None:
            raise NotUnderstoodError("'ethtool -k' did not tell features of interfaces.")
        features[one.interface] = one.features
    return features


OFFLOADS: Source[Mapping[str, Mapping[str, Feature]] | None] = Source(
    "offloads of adapters", lambda baseline: (_read(baseline),), _parse_offloads
)
"""By interface and ethtool's name; None where ethtool is absent, or too old to tell of all.

Asked for where data interfaces are declared."""
