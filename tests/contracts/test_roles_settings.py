"""No two roles set one kernel setting: whichever ran last would win, and drift would return."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTING = re.compile(
    r"""^\s*-?["']?((?:kernel|vm|net|fs|dev|user|debug)(?:\.[a-z0-9_*-]+)+)["']?\s*[:=]\s*(.+?)\s*$""",
    re.MULTILINE,
)


def settings_in(text: str) -> dict[str, str]:
    """Value by name, of lines such as ``vm.swappiness = 1`` or ``vm.swappiness: "{{ … }}"``."""
    return {name: value.strip("\"'") for name, value in SETTING.findall(text)}


def settings_of_roles() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for path in sorted(ROOT.glob("roles/*/*/*")):
        if path.parent.name in ("vars", "defaults", "templates", "tasks") and path.is_file():
            role = path.relative_to(ROOT).parts[1]
            found.setdefault(role, {}).update(settings_in(path.read_text(encoding="utf-8")))
    return found


def meets(one: str, other: str) -> bool:
    """Whether two names may stand for the same setting; a ``*`` stands for any interface."""
    left, right = one.split("."), other.split(".")
    return len(left) == len(right) and all(
        a == b or "*" in (a, b) for a, b in zip(left, right, strict=True)
    )


def conflicts(roles: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for (first, ours), (second, theirs) in combinations(sorted(roles.items()), 2):
        for name, value in ours.items():
            for other, another in theirs.items():
                if meets(name, other) and value != another:
                    yield f"{first} sets {name} to {value}, {second} sets {other} to {another}"


def test_no_two_roles_set_one_thing_to_two_values():
    found = settings_of_roles()
    assert "kernel.yama.ptrace_scope" in found["hardening"], "settings are no longer recognised"
    assert list(conflicts(found)) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"vm.swappiness": "1"}, {"vm.swappiness": "10"}, 1),
        ({"vm.swappiness": "1"}, {"vm.swappiness": "1"}, 0),
        ({"vm.swappiness": "1"}, {"vm.max_map_count": "1"}, 0),
        ({"net.ipv4.conf.*.rp_filter": "2"}, {"net.ipv4.conf.all.rp_filter": "1"}, 1),
        ({"net.ipv4.conf.eth0.rp_filter": "2"}, {"net.ipv4.conf.eth1.rp_filter": "1"}, 0),
    ],
)
def test_conflicts_are_seen(ours, theirs, expected):
    assert len(list(conflicts({"a": ours, "b": theirs}))) == expected


def test_settings_are_recognised_in_every_form():
    text = (
        '  vm.swappiness: "{{ x }}"\n-net.ipv4.conf.all.rp_filter = 2\n# fs.file-max = 1\na: vm.x\n'
    )
    assert settings_in(text) == {"vm.swappiness": "{{ x }}", "net.ipv4.conf.all.rp_filter": "2"}
