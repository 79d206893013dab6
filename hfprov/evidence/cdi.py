"""Container Device Interface: specification files (YAML, JSON) and ``nvidia-ctk cdi list``.

Scalars are kept as text: ``name: 0`` and ``name: "0"`` are the same device. Anchors and aliases
are refused, because a short file can stand for gigabytes with them and no tool writes them.

Source: CNCF container-device-interface SPEC.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import json_value, mapping, numbered_lines, sequence
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

TOOL = "cdi"
_LARGEST = 1024 * 1024
_DEEPEST = 24


class DeviceNode(Struct, frozen=True):
    path: str
    """In the container."""
    host_path: str
    """On the host; the same as ``path`` when the file names none."""


class Hook(Struct, frozen=True):
    name: str
    path: str
    arguments: tuple[str, ...] = ()


class Mount(Struct, frozen=True):
    host_path: str
    container_path: str


class Edits(Struct, frozen=True):
    device_nodes: tuple[DeviceNode, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] | None = None


class Device(Struct, frozen=True):
    name: str
    edits: Edits


class CdiSpec(Struct, frozen=True):
    version: str
    kind: str
    """``vendor/class``: ``nvidia.com/gpu``."""
    devices: tuple[Device, ...]
    edits: Edits
    """What every container gets that asks for any of the devices."""
    placeholders: tuple[str, ...] = ()
    """``{{ .name }}`` left in the file: a template that was never rendered, unusable as it is."""


class CdiList(Struct, frozen=True):
    """Qualified device names as the toolkit lists them."""

    devices: tuple[str, ...]
    announced: int | None
    """The count that the tool logs; None when its log went elsewhere."""


_FAILURES = failure_table(
    {
        FailureKind.OTHER: ("level=(?:error|fatal)", r"^ERRO\[", r"^error\b", "failed to"),
    }
)
_FOUND = regex(r"Found ([0-9]{1,9}) CDI devices?")
_QUALIFIED = regex(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*=[^\s=]+$")
_PLACEHOLDER = regex(r"\{\{ *\.?([A-Za-z0-9_.]{1,60}) *\}\}")
_SPEC_KEY = regex(r"^(?:cdiVersion|kind|devices|containerEdits)[ \t]*:", re.MULTILINE)


def parse(text: str) -> CdiSpec | CdiList | ToolFailure:
    """Facts of one specification or listing. Raises NotUnderstoodError when it is neither."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The '{TOOL}' document is empty.")
    if len(text) > _LARGEST:
        raise NotUnderstoodError(
            f"The '{TOOL}' document has {len(text)} characters; at most {_LARGEST} are read."
        )
    if text.lstrip().startswith("{"):
        return _spec(json_value(text), ())
    if _SPEC_KEY.search(text):
        placeholders = tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))
        return _spec(_yaml(_PLACEHOLDER.sub(r"<\1>", text)), placeholders)
    listed = _listing(text)
    if listed is not None:
        return listed
    failure = find_failure(text, _FAILURES)
    if failure is None:
        raise NotUnderstoodError(
            f"The '{TOOL}' document is in no known form; it begins '{excerpt(text)}'."
        )
    return failure


def _listing(text: str) -> CdiList | None:
    announced = None
    devices = []
    for _, line in numbered_lines(text, TOOL):
        stripped = line.strip()
        if found := _FOUND.search(stripped):
            announced = int(found[1])
        elif _QUALIFIED.match(stripped):
            devices.append(stripped)
    if not devices and announced is None:
        return None
    if announced is not None and announced != len(devices):
        raise NotUnderstoodError(
            f"'nvidia-ctk cdi list' announces {announced} devices and lists {len(devices)}."
        )
    return CdiList(tuple(devices), announced)


_BASE_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def _yaml(text: str) -> Any:
    """The YAML document with every scalar as text."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_BASE_LOADER):
            if isinstance(event, yaml.AliasEvent):
                raise NotUnderstoodError(f"The '{TOOL}' document uses YAML aliases; refused.")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _DEEPEST:
                raise NotUnderstoodError(f"The '{TOOL}' document is nested over {_DEEPEST} deep.")
        # A loader that makes nothing but text, lists and mappings: no object is constructed.
        return yaml.load(text, Loader=_BASE_LOADER)  # noqa: S506 - see above
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise NotUnderstoodError(
            f"The '{TOOL}' document is not valid YAML: {excerpt(str(error), 200)}."
        ) from error


def _spec(document: Any, placeholders: tuple[str, ...]) -> CdiSpec:
    values = mapping(document, f"The '{TOOL}' document")
    devices = sequence(values.get("devices"), f"'devices' of the '{TOOL}' document")
    if not devices:
        raise NotUnderstoodError(f"The '{TOOL}' document has no devices.")
    return CdiSpec(
        version=_text(values, "cdiVersion"),
        kind=_text(values, "kind"),
        devices=tuple(_device(each) for each in devices),
        edits=_edits(values.get("containerEdits", {}), "the document"),
        placeholders=placeholders,
    )


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if isinstance(value, (dict, list)) or value in (None, ""):
        raise NotUnderstoodError(f"'{name}' is missing in the '{TOOL}' document.")
    return str(value)


def _device(value: Any) -> Device:
    values = mapping(value, f"A device of the '{TOOL}' document")
    name = _text(values, "name")
    return Device(name, _edits(values.get("containerEdits"), f"device '{excerpt(name)}'"))


def _entries(values: Mapping[str, Any], name: str, what: str) -> list[Mapping[str, Any]]:
    entries = values.get(name)
    if entries is None:
        return []
    where = f"'{name}' of {what} in the '{TOOL}' document"
    return [mapping(each, f"An entry of {where}") for each in sequence(entries, where)]


def _edits(value: Any, what: str) -> Edits:
    values = mapping(value, f"'containerEdits' of {what} in the '{TOOL}' document")
    environment = [str(each) for each in sequence(values.get("env") or [], f"'env' of {what}")]
    nodes = _entries(values, "deviceNodes", what)
    hooks = _entries(values, "hooks", what)
    mounts = _entries(values, "mounts", what)
    pairs = (each.partition("=") for each in environment)
    return Edits(
        device_nodes=tuple(
            DeviceNode(_text(node, "path"), str(node.get("hostPath") or node["path"]))
            for node in nodes
        ),
        hooks=tuple(
            Hook(_text(hook, "hookName"), _text(hook, "path"), _arguments(hook)) for hook in hooks
        ),
        mounts=tuple(
            Mount(_text(each, "hostPath"), _text(each, "containerPath")) for each in mounts
        ),
        environment={name: value for name, _, value in pairs} or None,
    )


def _arguments(hook: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(each) for each in sequence(hook.get("args") or [], "'args' of a hook"))
