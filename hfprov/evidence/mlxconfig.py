"""``mlxconfig`` (and ``mstconfig``): the stored settings of NVIDIA adapters.

``query`` with one column (next boot), with ``-e`` three (default, current, next boot), ``set`` with
``New``; excerpts cut out by ``grep`` too. A current value that differs from the one for the next
boot is a change that waits for a reset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import empty, not_understood, numbered
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class Setting(Struct, frozen=True):
    """One parameter. ``code`` is the number in parentheses behind a name: ``ETH(2)``."""

    name: str
    next_boot: str
    default: str | None = None
    current: str | None = None
    new: str | None = None
    code: int | None = None
    marked: bool = False
    """The tool put a ``*`` before it: it differs from the default or waits for a reset."""

    @property
    def pending(self) -> bool | None:
        """Whether a change waits for a reset; None when the current value was not shown."""
        return None if self.current is None else self.current != self.next_boot


class DeviceConfig(Struct, frozen=True):
    """Settings of one device. ``whole`` is False when lines were left out of the list."""

    device: str | None
    device_type: str | None
    name: str | None
    description: str | None
    settings: Mapping[str, Setting]
    whole: bool = True
    messages: tuple[str, ...] = field(default=())
    """What the tool said besides: ``-I- Please reboot …``, ``-E- …``."""

    def get(self, name: str) -> str | None:
        """Value for the next boot, or None when it was not listed."""
        found = self.settings.get(name)
        return found.next_boot if found else None


_DEVICE = regex(r"Device #[0-9]{1,4}:")
_PAIR = regex(r"(?P<key>Device type|Name|Description|Device|PCI device):\s+(?P<value>.*)")
_HEAD = regex(r"Configurations:\s+(?P<columns>.*)")
_COLUMNS = {
    "Default": "default", "Current": "current", "Next Boot": "next_boot", "New": "new",
}  # fmt: skip
_SETTING = regex(
    r"(?P<mark>\*)?\s*(?:RO\s+)?(?P<name>[A-Z][A-Z0-9_]+(?:\[[0-9.]+\])?)\s+(?P<values>\S.*)"
)
_CODE = regex(r".*\((?P<code>[0-9]{1,10})\)")
_MESSAGE = regex(r"-[IEW]- .*|Applying.*|.*Apply new Configuration.*|.*The '\*' shows .*")
_COMMAND = regex(r"(?:\S+[#$] )?(?:mlxconfig|mstconfig|\$ ).*")
_LEFT_OUT = regex(r"\(?\.\.\.\)?")


class _Draft(Struct):
    pairs: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    settings: dict[str, Setting] = field(default_factory=dict)
    whole: bool = True
    messages: list[str] = field(default_factory=list)


def parse(text: str) -> tuple[DeviceConfig, ...]:
    """One entry per device. Raises NotUnderstoodError."""
    drafts = [_Draft()]
    seen = False
    for number, line in numbered(text):
        seen = True
        if _DEVICE.fullmatch(line.strip()) and (drafts[-1].pairs or drafts[-1].settings):
            drafts.append(_Draft())
        else:
            _line(drafts[-1], number, line.strip())
    if not seen:
        raise empty("mlxconfig")
    return tuple(_config(draft) for draft in drafts)


def _line(draft: _Draft, number: int, line: str) -> None:
    pair = _PAIR.fullmatch(line)
    head = _HEAD.fullmatch(line)
    setting = _SETTING.fullmatch(line)
    if pair is not None:
        draft.pairs[pair["key"]] = pair["value"].strip()
    elif head is not None:
        draft.columns = _columns(head["columns"])
    elif _LEFT_OUT.fullmatch(line):
        draft.whole = False
    elif _MESSAGE.fullmatch(line):
        draft.messages.append(line)
    elif setting is not None and (draft.columns or len(setting["values"].split()) == 1):
        # Without a heading (cut away by grep), a single value is the one for the next boot.
        found = _setting(setting, draft.columns or ("next_boot",), number, line)
        draft.settings[found.name] = found
        draft.whole = draft.whole and draft.columns is not None
    elif not (_DEVICE.fullmatch(line) or _COMMAND.fullmatch(line) or not line.strip("-")):
        raise not_understood("mlxconfig", number, line, "a setting")


def _columns(text: str) -> tuple[str, ...]:
    if text.strip() == "Current":
        # Old versions call the stored settings so; they are what the next boot uses.
        return ("next_boot",)
    names = [part for part in re.split(r"\s{2,}", text.strip()) if part]
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown or "Next Boot" not in names:
        raise NotUnderstoodError(f"mlxconfig: the columns '{excerpt(text)}' are not known.")
    return tuple(_COLUMNS[name] for name in names)


def _setting(match: re.Match[str], columns: tuple[str, ...], number: int, line: str) -> Setting:
    values = match["values"].split()
    if len(values) != len(columns):
        raise not_understood("mlxconfig", number, line, f"a setting with {len(columns)} value(s)")
    named = dict(zip(columns, values, strict=True))
    code = _CODE.fullmatch(named["next_boot"])
    return Setting(
        match["name"],
        named["next_boot"],
        default=named.get("default"),
        current=named.get("current"),
        new=named.get("new"),
        code=int(code["code"]) if code else None,
        marked=match["mark"] is not None,
    )


def _config(draft: _Draft) -> DeviceConfig:
    failed = any(message.startswith("-E-") for message in draft.messages)
    if not draft.settings and not failed:
        raise NotUnderstoodError("mlxconfig: the output ends before the first setting.")
    pairs = draft.pairs
    return DeviceConfig(
        device=pairs.get("Device", pairs.get("PCI device")),
        device_type=pairs.get("Device type"),
        name=pairs.get("Name"),
        description=pairs.get("Description"),
        settings=draft.settings,
        whole=draft.whole,
        messages=tuple(draft.messages),
    )
