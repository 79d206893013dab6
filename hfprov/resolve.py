"""The declared baseline of every host: role variables by Ansible's precedence, checked.

Values are merged, rendered and validated by Ansible's own code. What is added: all problems come at
once and before any host is contacted, a misspelt variable is one of them, and every value knows
where it was set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hfprov import paths
from hfprov.baseline import Baseline
from hfprov.errors import BaselineError, Problem
from hfprov.inventory import Inventory

__all__ = ["require_valid", "resolve"]


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


def require_valid(
    role: str, given: Mapping[str, Mapping[str, Any]], baselines: Mapping[str, Baseline]
) -> None:
    """Values of a role's variables that are given by options, e.g. ``--before``, by their option.

    They are held to what the inventory's are, types and bounds, beside what it declares for each
    host. Raises BaselineError with every problem.
    """
    os.environ.setdefault("ANSIBLE_CONFIG", str(paths.ansible_config()))
    from hfprov.declare.given import given_problems  # noqa: PLC0415 - imports Ansible, as above

    found: dict[str, Problem] = {}
    # Hosts share what is equal in their baselines; what is said of them is said once.
    kinds = {id(one.values): one for one in baselines.values()}
    for baseline in kinds.values():
        beside = {name: one.value for name, one in baseline.values.items()}
        for option, values in given.items():
            for problem in given_problems(role, values, option, beside):
                found[str(problem)] = problem
    if found:
        raise BaselineError(list(found.values()))
