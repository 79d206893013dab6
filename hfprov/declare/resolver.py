"""Resolving the baseline of hosts: Ansible merges, renders and validates; here work is shared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ansible.utils.vars import combine_vars

from hfprov.baseline import Baseline, Value
from hfprov.declare.bounds import bounds, broken_pairs, wrong_with
from hfprov.declare.engine import Engine
from hfprov.declare.files import nearest, shown
from hfprov.declare.layers import Layers
from hfprov.declare.roles import NODE_ROLE, NODE_SPEC, Play, Role
from hfprov.declare.values import TemplateProblem, native, where
from hfprov.errors import Problem

_COERCED = frozenset({"str", "int", "float", "bool", "list", "dict"})
"""Types whose validated form is the value. A ``path`` would be expanded for *this* machine."""
_MOST_NAMES = 8
_UNDEFINED = object()
_OF_ONE_HOST = frozenset({"inventory_hostname", "inventory_hostname_short", "group_names"})
"""Variables that Ansible sets for each host itself, besides those in the inventory."""


@dataclass(frozen=True, slots=True)
class _Found:
    """One variable, resolved: its value, or what is wrong with it."""

    value: Value | None
    problem: Problem | None


def unknown_variables(engine: Engine, roles: list[Role]) -> Iterator[Problem]:
    """Variables that bear a role's prefix and are none of its own, wherever they are set."""
    known = {name for role in roles for name in role.names}
    # The longest prefix first: of 'rdma_' and 'rdma_tests_' the second is meant.
    owners = sorted(
        ((prefix, role) for role in roles for prefix in role.prefixes), key=lambda p: -len(p[0])
    )
    judged: dict[str, Role | None] = dict.fromkeys(known)
    seen: set[tuple[str, str]] = set()
    for mapping in engine.assigned():
        for key, value in mapping.items():
            if key not in judged:
                name = native(key)
                judged[name] = next((r for p, r in owners if str(name).startswith(p)), None)
            role = judged[key]
            at = role and (where(key) or where(value) or "the inventory")
            if role and at and (at, key) not in seen:
                seen.add((at, key))
                owner = "hfprov" if role.name == NODE_ROLE else f"the role '{role.name}'"
                yield Problem(
                    at,
                    f"'{native(key)}' is not a variable of {owner}.",
                    hint=nearest(native(key), known, cutoff=0.75)
                    or f"It has: {', '.join(sorted(role.names)) or 'none'}.",
                )


@dataclass(frozen=True, slots=True)
class _Shape:
    """What hosts of the same groups have in common."""

    found: Mapping[str, _Found | None]
    """None for variables with templates: those depend on the host."""
    values: Mapping[str, Value] | None
    """The finished values, if there are neither templates nor problems."""


class Resolver:
    """Resolves hosts one by one; hosts of the same groups without variables of their own share."""

    def __init__(
        self, engine: Engine, node: Role, roles: Mapping[str, Role], plays: list[Play]
    ) -> None:
        self._engine = engine
        self._layers = Layers(engine)
        self._node = node
        self._roles = roles
        self._plays = [(play, {host.name for host in engine.hosts(play.hosts)}) for play in plays]
        self._used = list(dict.fromkeys(name for play in plays for name in play.roles))
        self._specs = dict(node.options)
        self._defaults: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}
        for name in self._used:
            self._specs.update(roles[name].options)
            self._defaults.update(roles[name].defaults)
            self._constants.update(roles[name].constants)
        self._shapes: dict[Any, _Shape] = {}
        self._values: dict[tuple[tuple[str, int], ...], Mapping[str, Value]] = {}
        self._by_identity: dict[tuple[str, int], tuple[Any, _Found | None]] = {}
        self._rendered_once: dict[Any, tuple[list[Any], _Found]] = {}
        self._validated: dict[tuple[str, str], tuple[Any, str]] = {}
        self._pairs: dict[int, tuple[Mapping[str, Value], list[Problem]]] = {}
        self._problems: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self._without_play: list[str] = []

    def baseline(self, name: str) -> Baseline:
        """The baseline of one host; without the variables that have problems."""
        host = self._engine.manager.hosts[name]
        variables = combine_vars(self._defaults, self._engine.variables(host))
        variables = combine_vars(variables, self._constants)
        in_play = tuple(
            dict.fromkeys(r for play, hosts in self._plays if name in hosts for r in play.roles)
        )
        if not in_play:
            self._without_play.append(name)
        skipped = self._skipped(host, variables)
        roles = tuple(role for role in in_play if role not in skipped)
        shape = self._shape(host, variables, roles)
        if shape.values is not None:
            self._judge_pairs(name, shape.values)
            return Baseline(name, roles, shape.values)
        values = {}
        wrong: dict[str, Problem] = {}
        for variable, plain in shape.found.items():
            one = plain or self._rendered(variable, host, variables)
            if one.problem:
                wrong[variable] = one.problem
            elif one.value:
                values[variable] = one.value
        for variable, problem in wrong.items():
            if not self._follows(variable, variables, wrong):
                self._problems[problem.where, problem.message, problem.hint].append(name)
        # What hosts have in common is judged once: let them have it, object for object.
        same = tuple((variable, id(value)) for variable, value in values.items())
        shared = self._values.setdefault(same, MappingProxyType(values))
        self._judge_pairs(name, shared)
        return Baseline(name, roles, shared)

    def _follows(
        self, variable: str, variables: Mapping[str, Any], wrong: Mapping[str, Problem]
    ) -> bool:
        """Whether a variable is wrong as its default takes it from another, which is wrong."""
        raw = variables.get(variable)
        if raw is None or raw is not self._defaults.get(variable):
            return False
        names, _ = self._engine.renderer.references(raw, variables)
        return not (names or frozenset()).isdisjoint(wrong.keys() - {variable})

    def _judge_pairs(self, host: str, values: Mapping[str, Value]) -> None:
        """Note what contradicts itself; hosts that share their values are judged once."""
        if id(values) not in self._pairs:
            plain = {name: one.value for name, one in values.items()}
            problems = []
            for pair, given, name, wrong in broken_pairs(plain):
                said = wrong.said(plain[name], secret=values[name].secret)
                text = f"With '{given}' as it is declared, '{name}' {said}."
                problems.append(Problem(values[given].origin, text, hint=pair.why))
            self._pairs[id(values)] = (values, problems)  # held, so that its identity stays its own
        for one in self._pairs[id(values)][1]:
            self._problems[one.where, one.message, one.hint].append(host)

    def problems(self, playbook: Path) -> Iterator[Problem]:
        """Everything found wrong so far, each once, with how many hosts have it."""
        for (at, message, hint), hosts in self._problems.items():
            names = f"host '{hosts[0]}'" if len(hosts) == 1 else f"{len(hosts)} hosts"
            yield Problem(at, f"{message} ({names})", hint=hint)
        if self._without_play:
            hosts, patterns = self._without_play, sorted({play.hosts for play, _ in self._plays})
            names = ", ".join(f"'{name}'" for name in hosts[:_MOST_NAMES])
            more = f" and {len(hosts) - _MOST_NAMES} more" if len(hosts) > _MOST_NAMES else ""
            wanted = ", ".join(f"'{pattern}'" for pattern in patterns)
            yield Problem(
                shown(playbook.absolute()),
                f"No play applies to {names}{more}: the playbook works on {wanted}.",
                hint="Add them to that group, or leave them out with '--limit'.",
            )

    def _skipped(self, host: Any, variables: Mapping[str, Any]) -> tuple[str, ...]:
        found = self._one("hfprov_skip_roles", host, variables)
        if found is None or found.value is None:
            return ()
        names = tuple(found.value.value)
        for name in names:
            if name not in self._used:
                message = f"'hfprov_skip_roles' names a role '{name}' that is not in the playbook."
                guess = nearest(name, self._used) or f"It has: {', '.join(self._used)}."
                self._problems[found.value.origin, message, guess].append(host.name)
        return names

    def _shape(self, host: Any, variables: Mapping[str, Any], roles: tuple[str, ...]) -> _Shape:
        """What is known of all variables without rendering templates for this very host."""
        names = [*self._node.options, *(n for role in roles for n in self._roles[role].options)]
        key = (roles, tuple(sorted(group.name for group in host.get_groups())))
        own = self._layers.names_of_host(host)
        shareable = self._engine.only_files_set_variables and own.isdisjoint(names)
        if shareable and key in self._shapes:
            return self._shapes[key]
        found = {name: self._plain(name, host, variables) for name in names}
        shape = _Shape(found, None)
        if all(one is not None and one.problem is None for one in found.values()):
            values = {name: one.value for name, one in found.items() if one and one.value}
            shape = _Shape(found, MappingProxyType(values))
        if shareable:
            self._shapes[key] = shape
        return shape

    def _one(self, name: str, host: Any, variables: Mapping[str, Any]) -> _Found:
        found = self._plain(name, host, variables)
        return found if found is not None else self._rendered(name, host, variables)

    def _plain(self, name: str, host: Any, variables: Mapping[str, Any]) -> _Found | None:
        """A variable without templates; None when it has some and depends on the host."""
        if name not in variables:
            return self._unset(name)
        raw = variables[name]
        # One tagged object is one assignment in one file; True, False and None carry no tags.
        kept = (name, id(raw))
        if kept in self._by_identity:
            return self._by_identity[kept][1]
        found = None
        if not self._engine.renderer.is_template(raw):
            _, secret = self._engine.renderer.references(raw, {})
            found = self._judged(name, raw, self._origin(name, raw, host), secret=secret)
        if where(raw):
            self._by_identity[kept] = (raw, found)  # holding raw keeps its identity its own
        return found

    def _unset(self, name: str) -> _Found:
        spec = self._specs[name]
        if name in self._node.options and "default" in spec:
            return _Found(Value(spec["default"], shown(NODE_SPEC)), None)
        role = next((r for r in self._roles.values() if name in r.options), self._node)
        if spec.get("required"):
            text = f"The role '{role.name}' needs '{name}', which is set nowhere."
            return _Found(None, Problem("the inventory", text, hint="Set it for a group or host."))
        if "default" in spec:
            text = f"'{name}' has a default in 'meta/argument_specs.yml' but none in 'defaults'."
            return _Found(None, Problem(f"role '{role.name}'", text))
        return _Found(None, None)

    def _rendered(self, name: str, host: Any, variables: Mapping[str, Any]) -> _Found:
        """A variable with templates; hosts that agree on all it depends on share the result."""
        raw = variables[name]
        names, secret = self._engine.renderer.references(raw, variables)
        if names is None or not names.isdisjoint(_OF_ONE_HOST | host.vars.keys()):
            return self._render(name, host, variables, secret=secret)
        depends_on = [raw, *(variables.get(one, _UNDEFINED) for one in sorted(names))]
        key = (name, *map(id, depends_on))
        if key not in self._rendered_once:
            found = self._render(name, host, variables, secret=secret)
            self._rendered_once[key] = (depends_on, found)  # holding them keeps identities theirs
        return self._rendered_once[key][1]

    def _render(
        self, name: str, host: Any, variables: Mapping[str, Any], *, secret: bool
    ) -> _Found:
        raw = variables[name]
        try:
            value = self._engine.renderer.render(raw, variables)
        except TemplateProblem as problem:
            at = problem.at or self._origin(name, raw, host)
            reason = problem.reason
            if secret and not problem.is_plain:
                reason = "The template cannot be resolved; why is not shown, as it is secret."
            return _Found(None, Problem(at, f"'{name}': {reason}"))
        return self._judged(name, value, self._origin(name, raw, host), secret=secret)

    def _judged(self, name: str, value: Any, origin: str, *, secret: bool) -> _Found:
        """A rendered value after validation; or what is wrong with it."""
        spec, plain = self._specs[name], native(value)
        file = origin.rpartition(":")[0]
        secret = secret or bool(spec.get("no_log")) or self._engine.renderer.in_encrypted_file(file)
        kept = (name, repr(plain))
        if kept not in self._validated:
            self._validated[kept] = self._engine.validate(name, spec, {name: plain})
        validated, wrong = self._validated[kept]
        if wrong:
            if secret:
                wrong = f"the value, which is secret, is no valid {spec.get('type', 'str')}"
            return _Found(None, Problem(origin, f"'{name}': {wrong}."))
        kept_value = validated if _keeps_meaning(spec) else plain
        bound = bounds().get(name)
        out = wrong_with(bound, kept_value) if bound else None
        if bound and out:
            said = out.said(kept_value, secret=secret)
            hint = f"{out.guess} {bound.why}".strip()
            return _Found(None, Problem(origin, f"'{name}' {said}.", hint=hint))
        return _Found(Value(kept_value, origin, secret=secret), None)

    def _origin(self, name: str, raw: Any, host: Any) -> str:
        if name in self._constants:
            return where(raw) or _key_at(self._constants, name)
        return (
            where(raw)
            or self._layers.set_at(host, name)
            or _key_at(self._defaults, name)
            or "the inventory"
        )


def _key_at(mapping: Mapping[str, Any], name: str) -> str:
    return next((where(key) for key in mapping if key == name), "")


def _keeps_meaning(spec: Mapping[str, Any]) -> bool:
    """Whether validation only gives a value its declared type, at any depth of its options."""
    types = {spec.get("type", "str"), spec.get("elements", "str")}
    return types <= _COERCED and all(
        _keeps_meaning(option) for option in (spec.get("options") or {}).values()
    )
