"""The golden parameter table of a host: value, origin, reason, source, and how it is read back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from hfprov import paths
from hfprov.baseline import Baseline
from hfprov.checks.registry import checks_for
from hfprov.report.inert import one_line

HIDDEN = "(secret)"


@cache
def _options(role: str) -> dict[str, Any]:
    """The options of a role's ``meta/argument_specs.yml``; empty for a role without one."""
    path = paths.roles_dir() / role / "meta" / "argument_specs.yml"
    if not path.is_file():
        return {}
    specs = yaml.safe_load(path.read_text(encoding="utf-8"))
    options: dict[str, Any] = specs["argument_specs"]["main"]["options"]
    return options


def _part(description: object, label: str) -> str:
    """The item of a description that begins with ``Why:`` or ``Source:``, without that word."""
    items = description if isinstance(description, list) else [description]
    found = next((str(item) for item in items if str(item).startswith(f"{label}:")), "")
    # C(x), V(x), O(x) … mark code in Ansible's documentation.
    return re.sub(r"\b[A-Z]\(([^()]*)\)", r"'\1'", found.removeprefix(f"{label}:").strip())


def golden_table(baseline: Baseline) -> list[dict[str, Any]]:
    """One row per variable, with the checks that read it back and what they read."""
    judged: dict[str, list[str]] = {}
    read: dict[str, list[str]] = {}
    for check in checks_for(baseline):
        for variable in check.judges:
            judged.setdefault(variable, []).append(check.id)
            for source in check.sources:
                read.setdefault(variable, []).extend(one.id for one in source.reads(baseline))
    rows = []
    for role in baseline.roles:
        for variable, option in _options(role).items():
            value = baseline.values.get(variable)
            rows.append(
                {
                    "role": role,
                    "variable": variable,
                    "value": None if value is None or value.secret else value.value,
                    "secret": value is not None and value.secret,
                    "origin": "" if value is None else value.origin,
                    "reason": one_line(_part(option.get("description"), "Why")),
                    "source": one_line(_part(option.get("description"), "Source")),
                    "read_back_by": judged.get(variable, []),
                    "reads": sorted(set(read.get(variable, []))),
                }
            )
    return rows


def shown_value(row: Mapping[str, Any]) -> str:
    """The value of a row for people: JSON text, or that it is secret."""
    return HIDDEN if row["secret"] else json.dumps(row["value"], ensure_ascii=False, default=str)
