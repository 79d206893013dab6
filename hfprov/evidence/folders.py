"""Who may write the folders from which root's programs take files: their owners and modes.

Whoever may write such a folder may put a file of his own into it, or another in place of one of
root's, however well that one's own mode guards it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Source, file, listing
from hfprov.regex import regex

PLACES = (
    "/etc/ssh",
    "/etc/ssh/sshd_config.d",
    "/etc/sysctl.d",
    "/etc/security",
    "/etc/security/limits.d",
    "/etc/modprobe.d",
    "/etc/modules-load.d",
    "/etc/systemd/system",
    "/etc/systemd/network",
    "/etc/udev/rules.d",
    "/etc/apt/apt.conf.d",
    "/etc/sudoers.d",
    "/etc/cron.d",
    "/etc/profile.d",
    "/etc/hfprov",
    "/usr/local",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/usr/local/bin",
)
_FOLDERS = tuple(listing(place) for place in PLACES)
_GROUPS = file("/etc/group", limit=256 * 1024)
_STAFF = regex(r"^staff:[^:\n]*:50:[ \t]*$", re.MULTILINE)
"""The group without a member. Debian has given it /usr/local, mode 2775; Debian Policy, 9.1.2."""


class Folder(Struct, frozen=True):
    """One folder, or that to which a link of this name leads."""

    owner: int
    group: int
    mode: int
    empty_group: bool
    """Whether the group is Debian's ``staff``, and nobody is named in it."""


def _parse(seen: Observation, _: Baseline) -> Mapping[str, Folder]:
    groups = seen.one(_GROUPS)
    nobody = groups.ok and not groups.truncated and bool(_STAFF.search(clean(groups.text)))
    found = {}
    for read in _FOLDERS:
        for result in seen.each(read):
            if result.status == "absent":
                continue
            if not result.ok or None in (result.uid, result.gid, result.mode):
                raise NoEvidenceError(f"'{read}' was not observed: {result.stderr}")
            owner, group, mode = result.uid or 0, result.gid or 0, result.mode or 0
            found[result.name] = Folder(owner, group, mode, nobody and group == 50)
    if not found:
        raise NoEvidenceError("None of root's folders was found.")
    return found


FOLDERS: Source[Mapping[str, Folder]] = Source(
    "root's folders", lambda _: (*_FOLDERS, _GROUPS), _parse
)
"""Those that the node has, by path."""
