"""What roles declare: their variables, the defaults of these, and which play applies them where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hfprov.declare.engine import Engine
from hfprov.declare.files import nearest, shown
from hfprov.declare.values import native, where
from hfprov.errors import Problem

NODE_ROLE = "hfprov"
NODE_SPEC = Path(__file__).parent.parent / "catalogue" / "node_spec.yml"
_PLAY_KEYS = (
    "name hosts become become_user become_method gather_facts gather_subset gather_timeout roles "
    "tags serial max_fail_percentage any_errors_fatal order strategy"
)
_ROLE_KEYS = frozenset({"role", "name", "tags"})


@dataclass(frozen=True, slots=True)
class Role:
    """The interface of a role (or of hfprov itself), as its argument_specs declare it."""

    name: str
    prefixes: tuple[str, ...]
    """How the names of its variables begin."""
    options: Mapping[str, Mapping[str, Any]]
    """Specs of the variables of its entry point ``main``."""
    names: frozenset[str]
    """Names of the variables of all its entry points."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Tagged by Ansible with file and line, as are the keys."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """``vars/main.yml``: no inventory can change it, but defaults may refer to it."""


@dataclass(frozen=True, slots=True)
class Play:
    """One play of the playbook: roles, in their order, for the hosts of a pattern."""

    hosts: str
    roles: tuple[str, ...]


def read_roles(engine: Engine, folder: Path) -> tuple[dict[str, Role], list[Problem]]:
    """Every role that has argument_specs, used or not: all of them own their variables' names."""
    roles: dict[str, Role] = {}
    problems: list[Problem] = []
    for path in sorted(folder.absolute().glob("*/meta/argument_specs.y*ml")):
        name = path.parent.parent.name
        try:
            roles[name] = _role(engine, name, (f"{name}_",), path)
        except ValueError as error:
            problems.append(Problem(shown(path.parent.parent), str(error)))
    return roles, problems


def node_variables(engine: Engine) -> Role:
    """The variables of a host that belong to no role. Raises ValueError."""
    return _role(engine, NODE_ROLE, ("node_", "hfprov_"), NODE_SPEC)


def _role(engine: Engine, name: str, prefixes: tuple[str, ...], specs: Path) -> Role:
    entries = native(engine.load_yaml(specs) or {}).get("argument_specs") or {}
    folder = specs.parent.parent
    own = specs != NODE_SPEC
    return Role(
        name=name,
        prefixes=prefixes,
        options=(entries.get("main") or {}).get("options") or {},
        names=frozenset(n for entry in entries.values() for n in entry.get("options") or {}),
        defaults=_main_files(engine, folder / "defaults") if own else {},
        constants=_main_files(engine, folder / "vars") if own else {},
    )


def _main_files(engine: Engine, folder: Path) -> dict[str, Any]:
    """``main.yml``, or the files of ``main/``, as Ansible finds them."""
    merged: dict[str, Any] = {}
    for path in engine.loader.find_vars_files(str(folder), "main"):
        content = engine.load_yaml(Path(path)) or {}
        if not isinstance(content, Mapping):
            raise ValueError(  # noqa: TRY004 - what is wrong is the content of a file
                f"'{shown(path)}' is not a mapping of variables."
            )
        for name, value in content.items():
            merged.pop(name, None)  # the later key object knows its own line
            merged[name] = value
    return merged


def read_playbook(
    engine: Engine, path: Path, roles: Mapping[str, Role]
) -> tuple[list[Play], list[Problem]]:
    """The plays of a playbook that does nothing but list roles."""
    try:
        content = engine.load_yaml(path)
    except ValueError as error:
        return [], [Problem(shown(path), str(error))]
    if not isinstance(content, list) or not content:
        return [], [Problem(shown(path), "The playbook is not a list of plays.")]
    plays: list[Play] = []
    problems: list[Problem] = []
    for play in content:
        unusual = [key for key in play if key not in _PLAY_KEYS.split()]
        problems += (
            Problem(
                where(key) or shown(path),
                f"A play of this playbook cannot have '{key}'.",
                hint="It lists roles only, so that what a host must be is known before it runs.",
            )
            for key in unusual
        )
        names: list[str] = []
        for entry in play.get("roles") or []:
            name = native(entry if isinstance(entry, str) else entry.get("role", entry.get("name")))
            problems += _role_problems(path, entry, name, roles)
            names.append(str(name))
        if not unusual:
            plays.append(Play(str(native(play.get("hosts", "all"))), tuple(names)))
    return plays, problems


def _role_problems(
    path: Path, entry: Any, name: Any, roles: Mapping[str, Role]
) -> Iterator[Problem]:
    at = where(entry) or shown(path)
    if name not in roles:
        yield Problem(
            at,
            f"There is no role '{name}' with 'meta/argument_specs.yml'.",
            hint=nearest(str(name), roles),
        )
    for key in set() if isinstance(entry, str) else set(entry) - _ROLE_KEYS:
        yield Problem(
            at,
            f"The role '{name}' cannot have '{key}' in this playbook.",
            hint="Leave a role out for a host or group with 'hfprov_skip_roles' in the inventory.",
        )
