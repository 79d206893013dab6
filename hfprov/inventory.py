"""The user's inventory: which hosts there are, and how to reach each of them.

Ansible's own code reads it, so a host here is what ``ansible-playbook`` would make of it. What
Ansible only warns about, or loses in silence, is an error here, and all errors come at once.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfprov import paths
from hfprov.declare import files
from hfprov.declare.connection import Connection, JumpHost, at_address, read_connection
from hfprov.declare.files import nearest, shown
from hfprov.declare.ssh_options import Refusal
from hfprov.errors import InventoryError, NoHostsError, Problem, UnsupportedSettingError

if TYPE_CHECKING:
    from hfprov.declare.engine import Engine

__all__ = ["Connection", "Host", "Inventory", "JumpHost", "load"]

_LOSES_DATA = ("Skipping", "Unable to parse", "Failed to parse", "Found both group and host")
"""How Ansible's warnings begin that mean: what you wrote does not count."""
_SKIPPED_ENDINGS = (".txt", ".cfg")
"""Endings that Ansible skips in an inventory folder but people use for inventories."""
_NO_INVENTORY = ("README", "LICENSE", "NOTICE", "requirements", "ansible.cfg")
_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class Host:
    """One host that was asked for."""

    name: str
    groups: tuple[str, ...]
    """All its groups but 'all', sorted."""
    connection: Connection


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
    engine = _engine(inventory, playbook, vault_password_files, vault_password)
    _raise_if(_file_problems(engine))
    warnings = engine.parse()
    _raise_if([Problem("Ansible", text) for text in warnings if text.startswith(_LOSES_DATA)])
    _raise_if([*_unread_files(engine), *_misspelt_settings(engine)])
    matched = _match(engine, inventory, limit)
    hosts = _hosts(engine, matched)
    return Inventory(
        hosts=hosts,
        paths=tuple(inventory),
        playbook=playbook,
        warnings=tuple(text for text in warnings if not text.startswith(_LOSES_DATA)),
        engine=engine,
    )


def _engine(
    inventory: Sequence[Path],
    playbook: Path,
    vault_password_files: Sequence[Path],
    vault_password: str | None,
) -> Engine:
    # Ansible reads its configuration when it is imported, and the import takes half a second.
    os.environ.setdefault("ANSIBLE_CONFIG", str(paths.ansible_config()))
    from hfprov.declare.engine import Engine  # noqa: PLC0415 - see above

    return Engine(
        inventory,
        playbook.parent,
        vault_password_files=vault_password_files,
        vault_password=vault_password,
    )


def _raise_if(problems: Iterable[Problem], hint: str = "No host was contacted.") -> None:
    found = list(dict.fromkeys(str(problem) for problem in problems))
    if found:
        noun = "a problem" if len(found) == 1 else f"{len(found)} problems"
        lines = "".join(f"\n  {line}" for line in found)
        raise InventoryError(f"The inventory has {noun}:{lines}", hint=hint)


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
    """Possible names in inventories of the same folder that were not asked for but share its files."""
    words: set[str] = set()
    if place not in {source.resolve() for source in engine.sources}:
        for entry in place.iterdir():
            if entry.is_file() and entry not in {source.resolve() for source in engine.sources}:
                text = entry.read_text(encoding="utf-8", errors="replace")
                words |= set(re.findall(r"[\w.-]+", text))
    return words


def _misspelt_settings(engine: Engine) -> Iterator[Problem]:
    """Variables that are nearly a connection setting: Ansible would take no notice of them."""
    from hfprov.declare import settings  # noqa: PLC0415 - see _engine
    from hfprov.declare.values import native, where  # noqa: PLC0415 - see _engine

    known = settings.known_names()
    right: set[str] = set(known)
    for mapping in engine.assigned():
        for key in mapping:
            name = native(key)
            if name in right or not str(name).startswith("ansible_"):
                continue
            hint = nearest(name, known, cutoff=0.9)
            if not hint:
                right.add(name)
                continue
            text = f"'{name}' is not a setting of Ansible, and would be ignored."
            yield Problem(where(key) or "the inventory", text, hint=hint)


def _match(engine: Engine, inventory: Sequence[Path], limit: str | None) -> list[Any]:
    """The hosts of the limit. Each part of it must name something: Ansible would only warn."""
    everything = engine.hosts()
    if not everything:
        names = ", ".join(f"'{path}'" for path in inventory)
        raise NoHostsError(f"The inventory has no hosts ({names}).", hint="Add a host to a group.")
    if limit is None:
        return everything
    if not limit.strip():
        raise InventoryError(
            "The limit is empty, which Ansible would take for all hosts.",
            hint="Leave '--limit' away to work on all hosts.",
        )
    known = {*engine.manager.groups, *engine.manager.hosts}
    problems = []
    for pattern in engine.limit(limit):
        name = pattern.lstrip("!&")
        hosts = [host for host in engine.hosts(name) if not host.implicit]
        if name in known:
            if not hosts and not pattern.startswith("!"):
                problems.append(f"the group '{name}' has no hosts")
        elif not hosts:
            guess = nearest(name.partition("[")[0], known)
            problems.append(f"nothing is called or matches '{name}'. {guess}".rstrip(" ."))
    if problems:
        raise InventoryError(
            f"The limit '{limit}' cannot be met: {'; '.join(problems)}.",
            hint="'ansible-inventory --graph' shows groups and hosts.",
        )
    matched = [host for host in engine.hosts(limited=True) if not host.implicit]
    if not matched:
        raise NoHostsError(f"No host matches the limit '{limit}'.")
    return matched


def _hosts(engine: Engine, matched: Sequence[Any]) -> tuple[Host, ...]:
    from hfprov.declare import settings  # noqa: PLC0415 - see _engine
    from hfprov.declare.values import TemplateProblem, where  # noqa: PLC0415 - see _engine

    reader = _ConnectionReader()
    hosts: list[Host] = []
    problems: list[Problem] = []
    wanted = settings.variables()
    for one in matched:
        variables = engine.variables(one)
        own: dict[str, Any] = {}
        for name in wanted & variables.keys():
            value = variables[name]
            try:
                rendered = engine.renderer.is_template(value)
                own[name] = engine.renderer.render(value, variables) if rendered else value
            except TemplateProblem as problem:
                at = problem.at or where(value) or one.name
                problems.append(Problem(at, f"'{name}': {problem.reason}"))
        try:
            connection = reader.read(one.name, own)
        except ValueError as error:
            problems.append(Problem(f"host '{one.name}'", f"{error}."))
            continue
        groups = sorted(str(group.name) for group in one.get_groups() if group.name != "all")
        hosts.append(Host(one.name, tuple(groups), connection))
    _raise_if(problems)
    reader.raise_refusals()
    _raise_if(_twins(hosts))
    return tuple(hosts)


class _ConnectionReader:
    """Reads connections; hosts that differ in their address alone share the work."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Connection, tuple[Refusal, ...]]] = {}
        self._refused: dict[Refusal, list[str]] = defaultdict(list)

    def read(self, host: str, variables: Mapping[str, Any]) -> Connection:
        """The connection of a host. Raises ValueError when a setting has an impossible value."""
        from hfprov.declare import settings  # noqa: PLC0415 - see _engine

        own = settings.address_variables()
        shared = repr(sorted((name, variables[name]) for name in variables.keys() - own))
        if shared not in self._read:
            self._read[shared] = read_connection(settings.settings(variables))
        pattern, refusals = self._read[shared]
        connection, more = at_address(pattern, host, settings.address(variables))
        for refusal in (*refusals, *more):
            self._refused[refusal].append(host)
        return connection

    def raise_refusals(self) -> None:
        """Raise UnsupportedSettingError with every refusal and its hosts, if there are any."""
        if not self._refused:
            return
        lines = "".join(
            f"\n  {_some(hosts)}: {refusal.setting}: {refusal.reason}"
            for refusal, hosts in self._refused.items()
        )
        raise UnsupportedSettingError(
            f"The inventory has connection settings that hfprov cannot honour:{lines}",
            hint="hfprov ignores no connection setting. Change or remove them.",
        )


def _some(names: Sequence[str]) -> str:
    """Names for a message: all of a few, the first of many."""
    text = ", ".join(f"'{name}'" for name in names[:_MOST_NAMES])
    return text if len(names) <= _MOST_NAMES else f"{text} and {len(names) - _MOST_NAMES} more"


def _twins(hosts: Sequence[Host]) -> Iterator[Problem]:
    """Two names for one machine: it would be changed, measured and counted twice."""
    first: dict[Any, str] = {}
    for host in hosts:
        to = host.connection
        other = first.setdefault((to.address, to.port, to.jump, to.proxy_command), host.name)
        if other != host.name:
            port = f" and port {to.port}" if to.port else ""
            yield Problem(
                f"host '{host.name}'",
                f"It has the same address '{to.address}'{port} as the host '{other}'.",
                hint="Correct 'ansible_host', or remove one of the two.",
            )
