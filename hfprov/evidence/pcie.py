"""PCI addresses and PCIe links, as lspci and sysfs both write them."""

from __future__ import annotations

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

ADDRESS = r"(?:[0-9a-fA-F]{2,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
"""A PCI address with or without its domain; VMD domains have five digits and more."""

_ADDRESS = regex(ADDRESS)
_SPEED = regex(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) ?GT/s(?: PCIe)?")
_WIDTH = regex(r"x?([0-9]{1,3})")

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""PCIe generation by transfer rate of one lane, in GT/s."""

_FASTEST_GTS = 128.0
_ALL_ONES = (63, 255)

WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})
"""Lane counts that a PCIe link can have."""


class Link(Struct, frozen=True):
    """A PCIe link: transfer rate of one lane in GT/s, and number of lanes.

    None stands for "the device says that it does not know": a virtual function, a link that is
    down.
    """

    speed_gts: float | None
    width: int | None

    @property
    def generation(self) -> int | None:
        return None if self.speed_gts is None else GENERATIONS.get(self.speed_gts)


def normal_address(text: str) -> str:
    """A PCI address in lower case and with its domain: ``44:00.0`` is ``0000:44:00.0``."""
    plain = text.strip().lower()
    if _ADDRESS.fullmatch(plain) is None:
        raise NotUnderstoodError(f"'{excerpt(text, 40)}' is not a PCI address.")
    if plain.count(":") == 1:
        return f"0000:{plain}"
    domain, rest = plain.split(":", 1)
    # nvidia-smi writes the domain with eight digits, the kernel with at least four.
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def parse_speed(text: str) -> float | None:
    """GT/s of one lane from ``16.0 GT/s PCIe``, ``16 GT/s`` or ``16GT/s``; None for ``Unknown``."""
    plain = text.strip()
    if plain.lower() in ("unknown", "unknown speed", "<unknown>"):
        return None
    match = _SPEED.fullmatch(plain)
    speed = float(match.group(1)) if match else 0.0
    # Not only the known rates: a broken link that reports an odd one must show as slow.
    if not 0 < speed <= _FASTEST_GTS:
        raise NotUnderstoodError(f"'{excerpt(plain, 40)}' is not a PCIe link speed.")
    return speed


def parse_width(text: str) -> int | None:
    """Lanes from ``16`` or ``x16``; None for a link that is down (0) or ``Unknown``.

    63 and 255 are what the registers of a device read as that fell off the bus (all ones), so
    they are refused, never taken for a wide link.
    """
    plain = text.strip()
    if plain.lower() in ("unknown", "0", "x0"):
        return None
    match = _WIDTH.fullmatch(plain)
    width = int(match.group(1)) if match else -1
    if width in _ALL_ONES:
        raise NotUnderstoodError(
            f"The link width {width} means that every bit reads as one.",
            hint="The device may have fallen off the bus: look for 'fallen off the bus' and AER "
            "messages in the kernel log.",
        )
    if width not in WIDTHS:
        raise NotUnderstoodError(f"'{excerpt(plain, 40)}' is not a PCIe link width.")
    return width
