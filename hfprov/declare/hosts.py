"""The hosts of an inventory that were asked for, each with its connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hfprov.declare import settings
from hfprov.declare.connection import Connection, Host, at_address, read_connection
from hfprov.declare.engine import Engine
from hfprov.declare.files import nearest, raise_if
from hfprov.declare.ssh_options import Refusal
from hfprov.declare.values import TemplateProblem, native, where
from hfprov.errors import InventoryError, NoHostsError, Problem, UnsupportedSettingError

_MOST_NAMES = 8
_OF_ANSIBLE = {"all", "ungrouped"}
"""Groups that every inventory has: nobody mistyped them."""


def misspelt_settings(engine: Engine) -> Iterator[Problem]:
    """Variables that are nearly a connection setting: Ansible would take no notice of them."""
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


def match(engine: Engine, inventory: Sequence[Path], limit: str | None) -> list[Any]:
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
            guess = nearest(name.partition("[")[0], known - _OF_ANSIBLE)
            more = f" ({guess[0].lower()}{guess[1:]})" if guess else ""
            problems.append(f"nothing is called or matches '{name}'{more}")
    if problems:
        raise InventoryError(
            f"The limit '{limit}' cannot be met: {'; '.join(problems)}.",
            hint="'ansible-inventory --graph' shows groups and hosts.",
        )
    matched = [host for host in engine.hosts(limited=True) if not host.implicit]
    if not matched:
        raise NoHostsError(f"No host matches the limit '{limit}'.")
    return matched


def with_connections(engine: Engine, matched: Sequence[Any]) -> tuple[Host, ...]:

    reader = _ConnectionReader()
    hosts: list[Host] = []
    problems: list[Problem] = []
    wanted = settings.variables()
    for one in matched:
        host = str(native(one.name))
        variables = engine.variables(one)
        own: dict[str, Any] = {}
        for name in wanted & variables.keys():
            value = variables[name]
            try:
                rendered = engine.renderer.is_template(value)
                own[name] = engine.renderer.render(value, variables) if rendered else value
            except TemplateProblem as problem:
                at = problem.at or where(value) or host
                problems.append(Problem(at, f"'{name}': {problem.reason}"))
        try:
            connection = reader.read(host, own)
        except ValueError as error:
            problems.append(Problem(f"host '{host}'", f"{error}."))
            continue
        groups = sorted(native(group.name) for group in one.get_groups() if group.name != "all")
        hosts.append(Host(host, tuple(groups), connection))
    raise_if(problems)
    reader.raise_refusals()
    raise_if(_twins(hosts))
    return tuple(hosts)


class _ConnectionReader:
    """Reads connections; hosts that differ in their address alone share the work."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Connection, tuple[Refusal, ...]]] = {}
        self._refused: dict[Refusal, list[str]] = defaultdict(list)

    def read(self, host: str, variables: Mapping[str, Any]) -> Connection:
        """The connection of a host. Raises ValueError when a setting has an impossible value."""
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
