"""Mistakes in inventory and variable files that Ansible passes over in silence.

YAML keeps the last of two equal keys and reads ``no`` and ``1_000`` as other things than names;
Ansible skips files and keys it does not expect. All of it loses data without a word, so the files
are looked at once before Ansible reads them. Nothing is interpreted here.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import yaml

from hfprov.errors import InventoryError, Problem

YAML_ENDINGS = (".yml", ".yaml", ".json")
"""What Ansible takes for YAML, besides names without an ending (C.YAML_FILENAME_EXTENSIONS)."""

_NOT_FOR_ANSIBLE = (".md", ".rst", ".orig", ".bak", ".rej", ".swp", ".retry", ".license")
_READ_AS = {
    "int": "a number",
    "float": "a number",
    "bool": "a truth value",
    "null": "nothing at all",
    "timestamp": "a date",
}
_MOST_GUESSES = 20
"""Guessing what was meant costs time in every name of the inventory."""
_SECTIONS = ("hosts", "vars", "children")


def shown(path: Path | str) -> str:
    """A path as messages show it: relative to the current folder when below it."""
    here = f"{os.getcwd()}{os.sep}"  # noqa: PTH109 - called for every value; Path costs 50 us
    return str(path).removeprefix(here)


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """``Did you mean 'x'?``, or nothing when no known name is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"Did you mean '{found[0]}'?" if found else ""


def raise_if(problems: Iterable[Problem], hint: str = "No host was contacted.") -> None:
    found = list(dict.fromkeys(str(problem) for problem in problems))
    if found:
        noun = "a problem" if len(found) == 1 else f"{len(found)} problems"
        lines = "".join(f"\n  {line}" for line in found)
        raise InventoryError(f"The inventory has {noun}:{lines}", hint=hint)


def compose(path: Path, text: str) -> yaml.Node | Problem | None:
    """The YAML nodes of a file, not yet values; None for an empty file."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        problem = error.problem or error.context or "unknown reason"
        return Problem(
            f"{shown(path)}{line}",
            f"This is not valid YAML: {problem}.",
            hint="Look at the line before it, too, for a missing colon, quote or indent.",
        )
    except yaml.YAMLError as error:  # e.g. a character that YAML does not allow
        return Problem(shown(path), f"This is not valid YAML: {str(error).splitlines()[0]}.")
    return node


def duplicate_keys(path: Path, root: yaml.Node | None) -> Iterator[Problem]:
    """Every key that stands twice in one mapping, at any depth."""
    seen_nodes: set[int] = set()
    stack = [root] if root is not None else []
    while stack:
        node = stack.pop()
        if id(node) in seen_nodes:  # an alias: the same node again, or a cycle
            continue
        seen_nodes.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            stack.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            stack.extend(value for _, value in node.value)
            yield from _repeated(path, node)


def _repeated(path: Path, mapping: yaml.MappingNode) -> Iterator[Problem]:
    first_line: dict[tuple[str, str], int] = {}
    for key, _ in mapping.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag.endswith(":merge"):
            continue
        line = key.start_mark.line + 1
        first = first_line.setdefault((key.tag, key.value), line)
        if first != line or key is not _first_key(mapping, key):
            yield Problem(
                f"{shown(path)}:{line}",
                f"The key '{key.value}' stands here a second time; the first is in line {first}.",
                hint="YAML keeps only the last one. Merge the two.",
            )


def _first_key(mapping: yaml.MappingNode, wanted: yaml.ScalarNode) -> yaml.Node:
    """The first key equal to this one; two of them can share a line in flow style."""
    for key, _ in mapping.value:
        if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) == (wanted.tag, wanted.value):
            return key
    return wanted


def check_inventory(path: Path, text: str) -> list[Problem]:
    """Problems of a YAML inventory file (one with an ending of :data:`YAML_ENDINGS`)."""
    root = compose(path, text)
    if isinstance(root, Problem):
        return [root]
    if root is None:
        return [Problem(shown(path), "The inventory file is empty.", hint="Add groups and hosts.")]
    if not isinstance(root, yaml.MappingNode):
        return [
            Problem(
                shown(path),
                "The file does not start with group names followed by a colon.",
                hint="See 'ansible-doc -t inventory yaml' for the form.",
            )
        ]
    problems = list(duplicate_keys(path, root))
    if any(key.value == "plugin" for key, _ in root.value):
        return problems  # the configuration of a dynamic inventory: its plugin judges it
    for key, value in root.value:
        problems += _check_group(path, key, value)
    return problems


def _check_group(path: Path, name: yaml.Node, group: yaml.Node) -> Iterator[Problem]:
    yield from _check_name(path, name, "group")
    if _is_null(group):
        return
    where = f"{shown(path)}:{name.start_mark.line + 1}"
    if not isinstance(group, yaml.MappingNode):
        yield Problem(
            where,
            f"The group '{name.value}' holds neither 'hosts:', 'children:' nor 'vars:'.",
            hint="Ansible would skip it.",
        )
        return
    for key, value in group.value:
        at = f"{shown(path)}:{key.start_mark.line + 1}"
        if key.value not in _SECTIONS:
            yield Problem(
                at,
                f"The group '{name.value}' has a key '{key.value}', which Ansible would skip.",
                hint=nearest(str(key.value), _SECTIONS)
                or "A group holds 'hosts:', 'children:' and 'vars:'; groups go below 'children:'.",
            )
        elif not (isinstance(value, yaml.MappingNode) or _is_null(value)):
            yield Problem(
                at,
                f"'{key.value}:' of the group '{name.value}' is not a mapping.",
                hint="Write each name on its own line, followed by a colon, without a dash.",
            )
        elif key.value == "children" and isinstance(value, yaml.MappingNode):
            for child, content in value.value:
                yield from _check_group(path, child, content)
        elif key.value == "hosts" and isinstance(value, yaml.MappingNode):
            yield from _check_hosts(path, value)


def _check_hosts(path: Path, hosts: yaml.MappingNode) -> Iterator[Problem]:
    for name, variables in hosts.value:
        yield from _check_name(path, name, "host")
        if not (isinstance(variables, yaml.MappingNode) or _is_null(variables)):
            yield Problem(
                f"{shown(path)}:{name.start_mark.line + 1}",
                f"The variables of the host '{name.value}' are not a mapping.",
                hint="Write e.g. '{ansible_host: 192.0.2.1}' after the colon.",
            )


def _check_name(path: Path, name: yaml.Node, kind: str) -> Iterator[Problem]:
    read_as = "a structure" if not isinstance(name, yaml.ScalarNode) else ""
    if name.tag != "tag:yaml.org,2002:str":
        read_as = _READ_AS.get(name.tag.rpartition(":")[2], "something else")
    if read_as and not name.tag.endswith(":merge"):
        yield Problem(
            f"{shown(path)}:{name.start_mark.line + 1}",
            f"YAML reads the {kind} name '{name.value}' as {read_as}, not as a name.",
            hint=f"Quote it: {json.dumps(str(name.value))}:",
        )


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")


def check_variables(path: Path, text: str) -> list[Problem]:
    """Problems of a file below group_vars or host_vars."""
    root = compose(path, text)
    if isinstance(root, Problem):
        return [root]
    if root is None or _is_null(root):
        return []
    if not isinstance(root, yaml.MappingNode):
        return [
            Problem(
                shown(path),
                "The file is not a mapping of variables.",
                hint="Write one 'name: value' per variable.",
            )
        ]
    problems = list(duplicate_keys(path, root))
    for key, _ in root.value:
        problems += _check_name(path, key, "variable")
    return problems


def check_files(
    files: Iterable[Path], read: Callable[[Path], str], check: Callable[[Path, str], list[Problem]]
) -> list[Problem]:
    """The problems of many files; ``read`` decrypts, and raises ``ValueError`` with a reason."""
    problems: list[Problem] = []
    for path in files:
        try:
            text = read(path)
        except ValueError as error:
            problems.append(Problem(shown(path), str(error)))
        else:
            problems += check(path, text)
    return problems


def variable_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Files below a group_vars or host_vars folder that Ansible may read: (its owner, path).

    The owner is the first part of the path: ``rack_a`` for ``rack_a.yml`` and ``rack_a/x.yml``.
    """
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part.endswith("~") for part in parts)
        if path.is_file() and not hidden and path.suffix.lower() not in _NOT_FOR_ANSIBLE:
            yield parts[0], path


def unread_files(
    folder: Path, read: Mapping[str, list[Path]], names: Iterable[str], kind: str
) -> Iterator[Problem]:
    """Files of group_vars or host_vars that no group or host of the inventory reads.

    ``read`` are the files that are read, by owner; ``names`` all groups or hosts.
    """
    known = list(names)
    done = {path for files in read.values() for path in files}
    strangers = 0
    for entry, path in variable_files(folder):
        if path in done or entry.upper().startswith("README"):
            continue
        stem = Path(entry).stem if Path(entry).suffix in YAML_ENDINGS else entry
        owner = next((name for name in (entry, stem, Path(entry).stem) if name in read), None)
        if owner is not None:
            yield _passed_over(path, owner, kind, read[owner])
            continue
        strangers += 1
        hint = nearest(stem, known) if strangers <= _MOST_GUESSES else ""
        yield Problem(
            shown(path),
            f"The inventory has no {kind} '{stem}', so nothing reads this file.",
            hint=hint or f"Rename it to a {kind} of the inventory, or delete it.",
        )


def _passed_over(path: Path, owner: str, kind: str, files: list[Path]) -> Problem:
    """Why Ansible does not read a file that bears the name of an existing group or host."""
    if path.suffix and path.suffix not in YAML_ENDINGS:
        return Problem(
            shown(path),
            f"Ansible does not read files that end in '{path.suffix}' for the {kind} '{owner}'.",
            hint="Rename it to end in '.yml', or delete it.",
        )
    first = f"'{shown(files[0])}'" if files else "a folder of the same name"
    return Problem(
        shown(path),
        f"Ansible reads only {first} for the {kind} '{owner}', and passes over this file.",
        hint="Merge the two.",
    )
