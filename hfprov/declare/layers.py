"""Which file set a variable last, for values that cannot carry a tag themselves (bool, None).

Walks the places of ansible.vars.manager.VariableManager.get_vars from the highest precedence down.
Only where a value comes from is found here; the value itself is always Ansible's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.inventory.helpers import sort_groups
from ansible.inventory.host import Host

from hfprov.declare.engine import Engine
from hfprov.declare.values import where

_INVENTORY, _INVENTORY_FILES, _PLAY_FILES = "inventory", "plugins_inventory", "plugins_play"
"""The kinds of place, as the names in Ansible's setting VARIABLE_PRECEDENCE end."""


class Layers:
    """Looks up where variables are set. Results for whole groups are kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._of_groups: dict[tuple[str, tuple[str, ...]], str] = {}

    def names_of_host(self, host: Host) -> set[str]:
        """Names of variables that are set for this very host."""
        names = set(host.vars)
        for folder in self._folders("host_vars", _PLAY_FILES, _INVENTORY_FILES):
            for content in self._contents(folder, host.name):
                names |= set(content)
        return names

    def set_at(self, host: Host, name: str) -> str:
        """``path:line`` of the last assignment, or nothing when the inventory has none."""
        for kind in (_PLAY_FILES, _INVENTORY_FILES, _INVENTORY):
            found = self._search([host.name], "host_vars", kind, name)
            if found:
                return found
        groups = sort_groups([group for group in host.get_groups() if group.name != "all"])
        names = tuple(str(group.name) for group in reversed(groups))
        if (name, names) not in self._of_groups:
            self._of_groups[name, names] = self._search_groups(names, name)
        return self._of_groups[name, names]

    def _search_groups(self, groups: Sequence[str], name: str) -> str:
        for entry in reversed(constants.VARIABLE_PRECEDENCE):
            who, _, kind = str(entry).partition("_")
            found = self._search(["all"] if who == "all" else groups, "group_vars", kind, name)
            if found:
                return found
        return ""

    def _search(self, owners: Sequence[str], folder_name: str, kind: str, name: str) -> str:
        if kind == _INVENTORY:
            data = self._engine.manager.data
            known = data.groups if folder_name == "group_vars" else data.hosts
            for owner in owners:
                if name in known[owner].vars:
                    return data.untagged.get((owner, name)) or _key_at(known[owner].vars, name)
            return ""
        for folder in self._folders(folder_name, kind):
            for owner in owners:
                for content in self._contents(folder, owner):
                    if name in content:
                        return _key_at(content, name)
        return ""

    def _folders(self, folder_name: str, *kinds: str) -> Iterator[Path]:
        if _PLAY_FILES in kinds:
            yield self._engine.playbook_dir / folder_name
        if _INVENTORY_FILES in kinds:
            yield from (place / folder_name for place in reversed(self._engine.inventory_dirs))

    def _contents(self, folder: Path, owner: str) -> Iterator[Mapping[str, Any]]:
        """The variable files of one owner in one folder, the last read first."""
        for path in reversed(self._engine.files_of(folder, [owner]).get(owner, [])):
            content = self._engine.load_yaml(path)
            if isinstance(content, Mapping):
                yield content


def _key_at(mapping: Mapping[str, Any], name: str) -> str:
    return next((where(key) for key in mapping if key == name), "")
