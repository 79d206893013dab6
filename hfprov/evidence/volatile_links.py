"""Configuration that is kept where a reboot empties it: links below /etc into /run, /tmp, /dev/shm.

What is there now is read as if it were whole: nothing but where the link leads tells of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.evidence import chrony, ifupdown, limits, modprobe, networkd, sshd, sysctl_files
from hfprov.reading import Observation, Read, Source, file, listing

_FOLDERS = tuple(
    file(f"/etc/{name}", limit=0)
    for name in (
        *("modprobe.d", "modules-load.d", "netplan", "network", "network/interfaces.d"),
        *("security", "security/limits.d", "ssh", "ssh/sshd_config.d", "sysctl.d", "systemd"),
        *("systemd/network", "systemd/system", "udev/rules.d"),
    )
)
"""A link in place of a folder takes all its files with it."""
_READS: tuple[Read, ...] = (
    *_FOLDERS,
    # All but the last two are read for what they say, too.
    *(ifupdown.MAIN, ifupdown.DIRECTORY, limits.PAM_FILE, limits.PAM_DIRECTORY),
    *chrony.MAIN_FILES,
    *(networkd.FILES[0], networkd.DROP_INS[0], sshd.MAIN, sshd.DROP_INS),
    *(sysctl_files.DIRECTORIES[0], sysctl_files.LATER_FILES[0], modprobe.DIRECTORIES[0]),
    listing("/etc/modules-load.d/*.conf"),
    listing("/etc/systemd/network/*.network.d"),
)
_EMPTIED = ("/run/", "/tmp/", "/dev/shm/", "/var/run/")  # noqa: S108 - no file is made there


def _parse(seen: Observation, _: Baseline) -> Mapping[str, str]:
    return {
        result.name: result.link
        for read in _READS
        for result in seen.each(read)
        if result.link.startswith(_EMPTIED)
    }


VOLATILE: Source[Mapping[str, str]] = Source("links that a reboot breaks", lambda _: _READS, _parse)
"""Where each link leads, by its path."""
