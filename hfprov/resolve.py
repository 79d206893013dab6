"""The declared baseline of every host: role variables by Ansible's precedence, checked.

Values are merged, rendered and validated by Ansible's own code. What is added: all problems come at
once and before any host is contacted, a misspelt variable is one of them, and every value knows
where it was set.
"""

from __future__ import annotations

from pathlib import Path

from hfprov import paths
from hfprov.baseline import Baseline
from hfprov.errors import BaselineError
from hfprov.inventory import Inventory

__all__ = ["resolve"]


def resolve(inventory: Inventory, roles_dir: Path | None = None) -> dict[str, Baseline]:
    """The baseline of each of the inventory's hosts, by host name.

    Roles and their order come from ``inventory.playbook``. Raises BaselineError with every problem
    of every file.
    """
    # Ansible is imported by now; importing it with this module would cost every command its time.
    from hfprov.declare.resolver import Resolver, unknown_variables  # noqa: PLC0415 - see above
    from hfprov.declare.roles import (  # noqa: PLC0415 - see above
        node_variables,
        read_playbook,
        read_roles,
    )

    engine = inventory.engine
    engine.activate()
    roles, problems = read_roles(engine, roles_dir or paths.roles_dir())
    plays, unclear = read_playbook(engine, inventory.playbook, roles)
    node = node_variables(engine)
    problems += [*unclear, *unknown_variables(engine, [*roles.values(), node])]
    if unclear:
        raise BaselineError(problems)
    resolver = Resolver(engine, node, roles, plays)
    baselines = {host.name: resolver.baseline(host.name) for host in inventory.hosts}
    problems += resolver.problems(inventory.playbook)
    if problems:
        raise BaselineError(problems)
    return baselines
