"""The user's inventory: which hosts there are, and how to reach each of them.

Ansible's own code reads it, so a host here is what ``ansible-playbook`` would make of it. What
Ansible only warns about, or loses in silence, is an error here, and all errors come at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hfprov import paths
from hfprov.declare import files
from hfprov.declare.connection import Connection, Host, JumpHost
from hfprov.declare.files import nearest, raise_if, shown
from hfprov.errors import InventoryError, Problem

if TYPE_CHECKING:
    from hfprov.declare.engine import Engine

__all__ = ["Connection", "Host", "Inventory", "JumpHost", "load"]

_LOSES_DATA = ("Skipping", "Unable to parse", "Failed to parse", "Found both group and host")
"""How Ansible's warnings begin that mean: what you wrote does not count."""
_SKIPPED_ENDINGS = (".txt", ".cfg")
"""Endings that Ansible skips in an inventory folder but people use for inventories."""
_NO_INVENTORY = ("README", "LICENSE", "NOTICE", "requirements", "ansible.cfg")


@dataclass(frozen=True, slots=True)
class Inventory:
    """The hosts that were asked for, in the order of the inventory."""

    hosts: tuple[Host, ...]
    paths: tuple[Path, ...]
    playbook: Path
    """The playbook whose folder may hold further group_vars."""
    warnings: tuple[str, ...] = ()
    """What Ansible warned about and that loses nothing."""
    engine: Engine = field(repr=False, compare=False, kw_only=True)
    """Ansible's view of it, for :func:`hfprov.resolve.resolve`."""


def load(
    inventory: Sequence[Path],
    *,
    limit: str | None = None,
    playbook: Path | None = None,
    vault_password_files: Sequence[Path] = (),
    vault_password: str | None = None,
) -> Inventory:
    """Read inventories, as with ``ansible-playbook -i … -i … --limit``.

    Passwords of Ansible's configuration (e.g. ANSIBLE_VAULT_PASSWORD_FILE) are used, too.

    Raises InventoryError (unreadable, or ambiguous, or names what does not exist; all problems),
    NoHostsError (nothing matches), UnsupportedSettingError (connection settings that observation
    cannot honour; all of them).
    """
    playbook = playbook or paths.playbook()
    _check_paths(inventory)
    # Ansible reads its configuration when it is imported, and the import takes half a second.
    os.environ.setdefault("ANSIBLE_CONFIG", str(paths.ansible_config()))
    from hfprov.declare import hosts  # noqa: PLC0415 - see above
    from hfprov.declare.engine import Engine  # noqa: PLC0415 - see above

    engine = Engine(
        inventory,
        playbook.parent,
        vault_password_files=vault_password_files,
        vault_password=vault_password,
    )
    raise_if(_file_problems(engine))
    warnings = engine.parse()
    raise_if(Problem("Ansible", text) for text in warnings if text.startswith(_LOSES_DATA))
    raise_if([*_unread_files(engine), *hosts.misspelt_settings(engine)])
    matched = hosts.match(engine, inventory, limit)
    return Inventory(
        hosts=hosts.with_connections(engine, matched),
        paths=tuple(inventory),
        playbook=playbook,
        warnings=tuple(warnings),
        engine=engine,
    )


def _check_paths(inventory: Sequence[Path]) -> None:
    if not inventory:
        raise InventoryError("No inventory was given.", hint="Give one with '-i PATH'.")
    for path in inventory:
        if "," in str(path):
            raise InventoryError(
                f"The inventory path '{path}' has a comma in it: Ansible would take it for a list "
                "of host names.",
                hint="Rename the file, or write the hosts into one.",
            )
        if not path.exists():
            raise InventoryError(
                f"There is no inventory '{path}'.",
                hint=nearest(path.name, _siblings(path.parent)) or "Check the path after '-i'.",
            )


def _siblings(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []


def _file_problems(engine: Engine) -> list[Problem]:
    """What is wrong with files before Ansible reads them."""
    checked = []
    problems: list[Problem] = []
    for path, skipped in engine.inventory_files():
        if skipped:
            if path.suffix in _SKIPPED_ENDINGS and not path.name.startswith(_NO_INVENTORY):
                text = f"Ansible skips files that end in '{path.suffix}' in an inventory folder."
                problems.append(Problem(shown(path), text, hint="Rename or move it."))
        elif path.suffix in files.YAML_ENDINGS and not _is_script(path):
            checked.append(path)
    problems += files.check_files(checked, engine.read, files.check_inventory)
    for kind in ("group_vars", "host_vars"):
        for place in (*engine.inventory_dirs, engine.playbook_dir):
            if (place / kind).is_dir():
                found = (path for _, path in files.variable_files(place / kind))
                yaml_files = [p for p in found if p.suffix in ("", *files.YAML_ENDINGS)]
                problems += files.check_files(yaml_files, engine.read, files.check_variables)
    return problems


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def _unread_files(engine: Engine) -> Iterator[Problem]:
    """Files for groups and hosts that do not exist. Those beside the playbook serve many racks."""
    for place in engine.inventory_dirs:
        elsewhere = _words_of_other_inventories(engine, place)
        for kind, known in (("group", engine.manager.groups), ("host", engine.manager.hosts)):
            folder = place / f"{kind}_vars"
            if folder.is_dir():
                names = [*known, *elsewhere]
                yield from files.unread_files(folder, engine.files_of(folder, names), names, kind)


def _words_of_other_inventories(engine: Engine, place: Path) -> set[str]:
    """Possible names in inventories of the same folder that were not asked for."""
    words: set[str] = set()
    if place not in {source.resolve() for source in engine.sources}:
        for entry in place.iterdir():
            if entry.is_file() and entry not in {source.resolve() for source in engine.sources}:
                text = entry.read_text(encoding="utf-8", errors="replace")
                words |= set(re.findall(r"[\w.-]+", text))
    return words
