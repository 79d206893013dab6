"""``dcb`` of iproute2: priority flow control, DSCP maps, ETS, buffers, trust; text and JSON.

Written from the sources of iproute2 (dcb/dcb_*.c); no recorded output was at hand. ``dcb`` prints
no name of a device: the command line had it. Ask for numbers (``-N``) and JSON (``-j``).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import (
    Node,
    empty,
    integer,
    json_value,
    not_understood,
    numbered,
    on_off,
    starts_like_json,
)
from hfprov.regex import regex


class Dcb(Struct, frozen=True):
    """What one or several ``dcb … show`` told. None: that object was not shown."""

    pfc: Mapping[int, bool] | None = None
    """Priority flow control by priority (0 to 7)."""
    pfc_requests: Mapping[int, int] | None = None
    pfc_indications: Mapping[int, int] | None = None
    dscp_priority: Mapping[int, int] | None = None
    """Priority by DSCP, where the application table has entries."""
    default_priority: tuple[int, ...] = ()
    priority_tc: Mapping[int, int] | None = None
    """Traffic class by priority."""
    tc_algorithm: Mapping[int, str] | None = None
    """``strict`` or ``ets`` by traffic class."""
    tc_bandwidth_percent: Mapping[int, int] | None = None
    priority_buffer: Mapping[int, int] | None = None
    buffer_bytes: Mapping[int, int] | None = None
    willing: bool | None = None
    """Whether the switch may overwrite the settings (DCBX)."""
    trust: tuple[str, ...] | None = None
    """Order of trust (``dscp``, ``pcp``) of ``dcb apptrust``."""
    dcbx: tuple[str, ...] | None = None
    """Modes of ``dcb dcbx`` (``host``, ``ieee``)."""
    other: Mapping[str, str] = field(default_factory=dict)


_ARRAYS = (
    "prio-pfc", "requests", "indications", "prio-tc", "tc-tsa", "tc-bw", "prio-buffer",
    "buffer-size", "reco-tc-bw", "reco-tc-tsa", "reco-prio-tc", "pg-bw", "dscp-prio",
    "ethtype-prio", "stream-port-prio", "dgram-port-prio", "port-prio", "pcp-prio", "tc-maxrate",
)  # fmt: skip
_SINGLES = ("pfc-cap", "macsec-bypass", "delay", "willing", "ets-cap", "cbs", "total-size")
_DCBX = frozenset({"host", "lld-managed", "cee", "ieee", "static"})
_SIZE = regex(r"(?P<number>[0-9]{1,12}(?:\.[0-9]+)?)(?P<unit>b|Kb|Mb|Gb|KiB|MiB)?")
_UNITS = {None: 1, "b": 1, "Kb": 1024, "Mb": 1024**2, "Gb": 1024**3, "KiB": 1024, "MiB": 1024**2}
_DSCP_NAMES = {
    "CS0": 0, "DF": 0, "LE": 1, "CS1": 8, "AF11": 10, "AF12": 12, "AF13": 14, "CS2": 16, "AF21": 18,
    "AF22": 20, "AF23": 22, "CS3": 24, "AF31": 26, "AF32": 28, "AF33": 30, "CS4": 32, "AF41": 34,
    "AF42": 36, "AF43": 38, "CS5": 40, "VA": 44, "EF": 46, "CS6": 48, "CS7": 56,
}  # fmt: skip


def parse(text: str) -> Dcb:
    """Facts of ``dcb pfc|app|ets|buffer|dcbx|apptrust show``. Raises NotUnderstoodError."""
    if starts_like_json(text):
        return _from_json(text)
    arrays: dict[str, dict[str, str]] = {}
    singles: dict[str, str] = {}
    defaults: tuple[int, ...] = ()
    trust: tuple[str, ...] | None = None
    dcbx: tuple[str, ...] | None = None
    seen = False
    for number, line in numbered(text):
        words = line.split()
        seen = True
        if words[0] in _ARRAYS:
            arrays[words[0]] = _array(number, line, words[1:])
        elif words[0] == "default-prio":
            defaults = tuple(_priority(word) for word in words[1:])
        elif words[0] == "order:":
            trust = tuple(words[1:])
        elif set(words) <= _DCBX:
            dcbx = tuple(words)
        elif words[0] in _SINGLES and len(words) % 2 == 0:
            singles.update(zip(words[::2], words[1::2], strict=True))
        else:
            raise not_understood("dcb", number, line, "a DCB attribute")
    if not seen:
        raise empty("dcb")
    return _facts(arrays, singles, defaults, trust, dcbx)


def _array(number: int, line: str, words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        key, colon, value = word.rpartition(":")
        if not colon or not key or not value:
            raise not_understood("dcb", number, line, "a list of 'key:value'")
        found[key] = value
    return found


def _facts(
    arrays: Mapping[str, Mapping[str, str]],
    singles: Mapping[str, str],
    defaults: tuple[int, ...],
    trust: tuple[str, ...] | None,
    dcbx: tuple[str, ...] | None,
) -> Dcb:
    def numbers(name: str) -> dict[int, int] | None:
        pairs = arrays.get(name)
        return None if pairs is None else {_key(key): _number(pairs[key]) for key in pairs}

    pfc = arrays.get("prio-pfc")
    tsa = arrays.get("tc-tsa")
    dscp = arrays.get("dscp-prio")
    if pfc is not None and len(pfc) != 8:
        raise NotUnderstoodError(f"dcb: 'prio-pfc' has {len(pfc)} priorities instead of 8.")
    willing = singles.get("willing")
    return Dcb(
        pfc=None if pfc is None else {_key(key): on_off(pfc[key], "dcb: PFC") for key in pfc},
        pfc_requests=numbers("requests"),
        pfc_indications=numbers("indications"),
        dscp_priority=None if dscp is None else {_dscp(key): _number(dscp[key]) for key in dscp},
        default_priority=defaults,
        priority_tc=numbers("prio-tc"),
        tc_algorithm=None if tsa is None else {_key(key): tsa[key] for key in tsa},
        tc_bandwidth_percent=numbers("tc-bw"),
        priority_buffer=numbers("prio-buffer"),
        buffer_bytes=numbers("buffer-size"),
        willing=None if willing is None else on_off(willing, "dcb: 'willing'"),
        trust=trust,
        dcbx=dcbx,
        other={key: value for key, value in singles.items() if key != "willing"},
    )


def _key(text: str) -> int:
    return integer(text, "dcb: the index")


def _priority(text: str) -> int:
    return integer(text, "dcb: the priority")


def _dscp(text: str) -> int:
    return _DSCP_NAMES[text] if text in _DSCP_NAMES else integer(text, "dcb: the DSCP")


def _number(text: str) -> int:
    """A number, or a size that iproute2 prints with a unit (``Kb`` is 1024 bytes there)."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise NotUnderstoodError(f"dcb: '{text[:60]}' is no number.")
    return round(float(match["number"]) * _UNITS[match["unit"]])


def _from_json(text: str) -> Dcb:
    node = Node(json_value(text), "dcb -j")
    arrays: dict[str, dict[str, str]] = {}
    singles: dict[str, str] = {}
    defaults: tuple[int, ...] = ()
    trust: tuple[str, ...] | None = None
    flags: list[str] = []
    for key, item in node.entries():
        name = key.replace("_", "-")
        if name in _ARRAYS:
            arrays[name] = _json_array(item)
        elif name == "default-prio":
            defaults = tuple(entry.as_int() for entry in item.items())
        elif name == "order":
            trust = tuple(entry.as_text().strip() for entry in item.items())
        elif name in _DCBX:
            flags += [name] if item.as_bool() else []
        else:
            singles[name] = (
                ("on" if item.value else "off") if isinstance(item.value, bool) else item.as_text()
            )
    if not (arrays or defaults or trust or flags or set(singles) & set(_SINGLES)):
        raise NotUnderstoodError("dcb -j: the object has no attribute of DCB.")
    dcbx = tuple(flags) if _DCBX & {key.replace("_", "-") for key in node.members} else None
    return _facts(arrays, singles, defaults, trust, dcbx)


def _json_array(node: Node) -> dict[str, str]:
    """``[a, b]`` is indexed from 0; ``[[key, value], …]`` brings its keys."""
    found: dict[str, str] = {}
    for at, item in enumerate(node.items()):
        if isinstance(item.value, list):
            pair = [str(part.value).strip().lstrip(":") for part in item.items()]
            pair = [part for part in pair if part]
            if len(pair) != 2:
                raise item.wrong("a pair")
            found[pair[0]] = pair[1]
        elif isinstance(item.value, bool):
            found[str(at)] = "on" if item.value else "off"
        else:
            found[str(at)] = item.as_text()
    return found
