"""The text of ``devlink dev info`` and ``devlink health show``.

A device stands at the beginning of a line; what belongs to it is indented below. Source: iproute2's
``devlink/devlink.c`` and examples in the kernel's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import integer, not_understood, numbered
from hfprov.regex import regex

_DEVICE = regex(r"(?P<device>[a-z_]{1,20}/[^\s:]\S{0,100}?):?")
_GROUPS = ("versions:", "fixed:", "running:", "stored:")


class TextInfo(Struct):
    """One device of ``dev info`` while its lines are read: words, and versions by group."""

    device: str
    opened: bool
    """Whether something is to follow below it; ``dev show`` only names devices."""
    words: dict[str, str] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    reporters: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Of ``health show``: name, and words such as ``state`` and ``error``."""


def read_devices(text: str) -> list[TextInfo]:
    """Devices with what is said of each. Raises NotUnderstoodError for a line of another shape."""
    devices: list[TextInfo] = []
    group = ""
    for number, line in numbered(text):
        words = line.split()
        match = _DEVICE.fullmatch(line)
        if match is not None:
            devices.append(TextInfo(match["device"], opened=line.endswith(":")))
            group = ""
        elif not devices or not line.startswith((" ", "\t")):
            raise _refused(number, line)
        elif line.strip() in _GROUPS:
            group = words[0].rstrip(":")
        elif words[0] == "reporter" and len(words) == len(("reporter", "name")):
            devices[-1].reporters.append((words[1], {}))
        elif devices[-1].reporters and len(words) % 2 == 0:
            devices[-1].reporters[-1][1].update(zip(words[::2], words[1::2], strict=True))
        else:
            name, _, value = line.strip().partition(" ")
            if not value:
                raise _refused(number, line)
            target = devices[-1].versions.setdefault(group, {}) if group else devices[-1].words
            target[name] = value.strip()
    _check_whole(devices)
    return devices


def _check_whole(devices: list[TextInfo]) -> None:
    if not devices:
        raise NotUnderstoodError("devlink: the output is empty.")
    for device in devices:
        if device.opened and not (device.words or device.versions or device.reporters):
            raise NotUnderstoodError(f"devlink: nothing is said of '{device.device[:60]}'.")


def _refused(number: int, line: str) -> NotUnderstoodError:
    if "kernel answers" in line or line.lower().startswith("error"):
        return NotUnderstoodError(f"devlink did not answer: '{line.strip()[:120]}'.")
    return not_understood("devlink", number, line, "a device, or indented words below one")


def reporters_of(device: TextInfo) -> Iterator[tuple[str, str, int, int]]:
    """Name, state, errors and recoveries. Raises NotUnderstoodError where one of them lacks."""
    for name, words in device.reporters:
        missing = [key for key in ("state", "error", "recover") if key not in words]
        if missing:
            raise NotUnderstoodError(
                f"devlink: reporter '{name[:40]}' of '{device.device[:60]}' has no '{missing[0]}': "
                "the output is cut off."
            )
        what = f"devlink: a count of reporter '{name[:40]}'"
        yield name, words["state"], integer(words["error"], what), integer(words["recover"], what)
