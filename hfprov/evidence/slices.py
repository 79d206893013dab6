"""What files of systemd say of the slices that logins and the system's services are in.

A slice is a control group; what bounds it bounds all that runs in it, systemd.resource-control(5).
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.evidence.systemd import Setting, parse_settings
from hfprov.reading import Observation, Read, Result, Source, complete_text, glob
from hfprov.regex import regex

_FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
)
"""Highest first, systemd.unit(5). Those ``….control`` are of ``systemctl set-property``."""
_WHOLE = glob("/etc/systemd/system/*.slice")
"""As ``systemctl edit --full`` writes them."""
_DROP_INS = tuple(glob(f"{folder}/*.slice.d/*.conf") for folder in _FOLDERS)
SLICE_FILES: tuple[Read, ...] = (*_DROP_INS, _WHOLE)
_CONCERNED = regex(r"(?:-|system|user|user-|user-[0-9]+)\.slice")
"""Slices of logins and of the system's services; others bound what somebody put into them."""


def slice_settings(seen: Observation) -> Mapping[str, tuple[Setting, ...]]:
    """Settings in a section ``[Slice]`` in the order in which systemd applies them, by slice.

    ``user-.slice`` stands for those of all users. Raises NoEvidenceError when a file is not whole.
    """
    found: dict[str, list[tuple[Read, Result]]] = {}
    for result in seen.each(_WHOLE):
        found.setdefault(result.name.rpartition("/")[2], []).append((_WHOLE, result))
    for name, drop_ins in sorted(_drop_ins(seen).items()):
        found.setdefault(name, []).extend(drop_ins[one] for one in sorted(drop_ins))
    return {
        name: tuple(
            setting
            for read, result in files
            # A link to /dev/null hides a file of that name; it is not a regular file.
            if result.type == "file" and result.status != "absent"
            for setting in parse_settings(complete_text(read, result), result.name)[0]
            if setting.section == "Slice"
        )
        for name, files in found.items()
        if _CONCERNED.fullmatch(name)
    }


def _drop_ins(seen: Observation) -> dict[str, dict[str, tuple[Read, Result]]]:
    """The file of each name that holds, by slice."""
    found: dict[str, dict[str, tuple[Read, Result]]] = {}
    for read in _DROP_INS:
        for result in seen.each(read):
            folder, file = result.name.split("/")[-2:]
            found.setdefault(folder.removesuffix(".d"), {}).setdefault(file, (read, result))
    return found


SLICE_SETTINGS: Source[Mapping[str, tuple[Setting, ...]]] = Source(
    "settings of slices", lambda _: SLICE_FILES, lambda seen, _: slice_settings(seen)
)
"""As :func:`slice_settings`."""
