"""``ofed_info -s`` (MLNX_OFED, DOCA-OFED) and ``/etc/init.d/openibd status``."""

from __future__ import annotations

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import empty, numbered
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class OfedVersion(Struct, frozen=True):
    """``ofed_info -s``: ``MLNX_OFED_LINUX`` or ``OFED-internal`` (DOCA) and its version."""

    product: str
    version: str


class OpenibdStatus(Struct, frozen=True):
    """``openibd status``."""

    driver_loaded: bool
    configured_ipoib: tuple[str, ...]
    active_ipoib: tuple[str, ...]
    configured_en: tuple[str, ...]
    active_devices: tuple[str, ...]
    modules: tuple[str, ...]


_VERSION = regex(
    r"(?P<product>[A-Za-z][A-Za-z_-]*[A-Za-z])-(?P<version>[0-9]+(?:\.[0-9]+)+(?:-[0-9][0-9.]*)*):?"
)
_DRIVER = regex(r"HCA driver (?:is )?(?P<negated>not )?loaded")
_LISTS = {
    "Configured IPoIB devices:": "configured_ipoib",
    "Currently active IPoIB devices:": "active_ipoib",
    "Configured Mellanox EN devices:": "configured_en",
    "Currently active Mellanox devices:": "active_devices",
    "The following OFED modules are loaded:": "modules",
    "The following mlnx_ofed modules are loaded:": "modules",
}


def parse(text: str) -> OfedVersion | OpenibdStatus:
    """Facts of either form. Raises NotUnderstoodError."""
    lines = [line.strip() for _, line in numbered(text)]
    if not lines:
        raise empty("ofed_info")
    driver = next((match for line in lines if (match := _DRIVER.fullmatch(line))), None)
    if driver is not None:
        return _status(lines, loaded=not driver["negated"])
    version = _VERSION.fullmatch(lines[0])
    if version is None:
        raise NotUnderstoodError(f"ofed_info: '{excerpt(lines[0])}' is no product with a version.")
    return OfedVersion(version["product"], version["version"])


def _status(lines: list[str], *, loaded: bool) -> OpenibdStatus:
    found: dict[str, list[str]] = {}
    into: list[str] | None = None
    for line in lines:
        if line in _LISTS:
            into = found.setdefault(_LISTS[line], [])
        elif into is not None:
            into += line.split()
    if loaded and not found.get("modules"):
        raise NotUnderstoodError("openibd status: the output ends before the loaded modules.")
    lists = {key: tuple(found.get(key, ())) for key in _LISTS.values()}
    return OpenibdStatus(loaded, **lists)
