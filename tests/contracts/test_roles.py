"""What every role keeps to, and no linter sees. Each rule is also shown what breaks it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hfprov.catalogue.explanations import explanations
from hfprov.checks.registry import all_checks

ROOT = Path(__file__).parents[2]
ROLES = sorted(path.parents[1] for path in ROOT.glob("roles/*/meta/argument_specs.yml"))
MUTATIONS = Path(__file__).with_name("roles_mutations.yml")
MODULES = (
    "kernel",
    "limits",
    "mtu",
    "irq",
    "time",
    "performance",
    "comm_library",
    "tools",
    "hardening",
    "rdma",
    "container_runtime",
    "driver",
)

UNJUDGED: Mapping[str, str] = {
    "accelerator_installer_checksum": "of a file that is fetched once; its version is judged",
}
"""Variables that no check can read back, each with the reason."""
UNPROVOKED = {
    "kernel.running": "the kernel is the machine's; tests/unit/checks/kernel/test_kernel_boot.py",
    "kernel.cmdline": "the kernel is the machine's; tests/unit/checks/kernel/test_kernel_boot.py",
    "tools.lldpd": "not declared by default; tests/unit/checks/hardening/test_tools.py",
    "tools.packages": "none is declared by default; tests/unit/checks/hardening/test_tools.py",
    "container_runtime.toolkit": "no accelerator; see tests/unit/checks/container_runtime",
    "tools.stream": "no source by default; tests/unit/checks/hardening/test_tools.py",
    "hardening.firewall.rivals": "not declared by default; test_hardening_firewalls.py",
    "hardening.modules.loaded": "the kernel is the machine's; test_hardening_kernel.py",
    "hardening.mounts": "only warns; tests/unit/checks/hardening/test_hardening_kernel.py",
    "hardening.audit.live": "the kernel is the machine's; test_hardening_updates.py",
    "limits.kernel": "the kernel is the machine's; tests/unit/checks/test_limits_tasks.py",
    "mtu.management": "a practice node must not lose its network; tests/unit/checks/test_mtu.py",
    "time.ptp": "a practice node leaves the clock alone; tests/unit/checks/test_time_ptp.py",
    "time.offset": "a practice node shares its machine's clock; tests/unit/checks/test_time.py",
    "irq.affinity": "the NICs are the host's; tests/unit/checks/irq/test_irq_checks.py",
    "irq.landing": "the NICs are the host's; tests/unit/checks/irq/test_irq_checks.py",
    "irq.queues": "the NICs are the host's; tests/unit/checks/irq/test_irq_checks.py",
    "irq.steering": "the NICs are the host's; tests/unit/checks/irq/test_irq_checks.py",
    "performance.governor": "the kernel is the host's; tests/unit/checks/test_performance.py",
    "performance.idle_latency": "the kernel is the host's; tests/unit/checks/test_performance.py",
    "performance.hugepages": "the kernel is the host's; tests/unit/checks/test_performance.py",
    "performance.swap": "not declared by default; tests/unit/checks/test_performance.py",
    "rdma.modules.loaded": "the kernel is the machine's; tests/unit/checks/rdma/test_rdma_stack.py",
    "rdma.netns.live": "the kernel is the machine's; tests/unit/checks/rdma/test_rdma_stack.py",
    "rdma.devices": "none is declared by default; tests/unit/checks/rdma/test_rdma_live.py",
    "rdma.ports": "none is declared by default; tests/unit/checks/rdma/test_rdma_live.py",
    "rdma.gids": "none is declared by default; tests/unit/checks/rdma/test_rdma_live.py",
    "rdma.roce": "none is declared by default; tests/unit/checks/rdma/test_rdma_live.py",
    "rdma.qos": "none is declared by default; tests/unit/checks/rdma/test_rdma_live.py",
    "rdma.rxe": "none is declared by default; tests/unit/checks/rdma/test_rdma_live.py",
    "rdma.pci": "none is declared by default; tests/unit/checks/rdma/test_rdma_live.py",
    "comm_library.devices": "none is declared by default; tests/unit/checks/test_comm_library.py",
}
"""Checks that no mutation makes fail on a practice node: why, and where they do fail."""

MAGIC = frozenset(
    {"ansible_facts", "ansible_check_mode", "ansible_connection", "ansible_host", "ansible_user"}
)
"""Variables that Ansible sets itself; every other ``ansible_x`` in a role is an injected fact."""
READING = frozenset(
    {"assert", "fail", "include_vars", "meta", "setup", "set_fact", "import_tasks", "slurp", "stat"}
    | {"include_tasks", "wait_for_connection", "validate_argument_spec"}
)
KEYWORDS = frozenset(
    {"name", "when", "loop", "loop_control", "register", "changed_when", "failed_when", "notify"}
    | {"check_mode", "vars", "listen", "until", "retries", "delay", "become", "tags", "no_log"}
    | {"environment", "delegate_to", "run_once", "async", "poll"}
)

each_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def options(role: Path) -> dict[str, Any]:
    return load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]


def task_files(role: Path) -> list[Path]:
    return sorted([*role.glob("tasks/*.yml"), *role.glob("handlers/*.yml")])


def flat(tasks: Any) -> Iterator[dict[str, Any]]:
    """Tasks in order, those inside blocks too."""
    for task in tasks or []:
        parts = [task[key] for key in ("block", "rescue", "always") if key in task]
        if parts:
            for part in parts:
                yield from flat(part)
        else:
            yield task


def module_of(task: Mapping[str, Any]) -> str:
    found = [key for key in task if key not in KEYWORDS]
    assert len(found) == 1, f"'{task.get('name')}' has more than one module: {found}"
    return found[0].removeprefix("ansible.builtin.")


def can_change(task: Mapping[str, Any]) -> bool:
    """Whether a task may report a change. ``changed_when: false`` says no, for any module."""
    if task.get("changed_when") is False:
        return False
    if module_of(task) == "debug":
        return "changed_when" in task
    return module_of(task) not in READING


def test_there_are_roles():
    assert {"limits", "jumbo_mtu", "time_sync"} <= {role.name for role in ROLES}


@each_role
def test_defaults_repeat_the_specs(role):
    specs = {name: option["default"] for name, option in options(role).items()}
    assert load(role / "defaults/main.yml") == specs


@each_role
def test_public_names_begin_with_the_role(role):
    assert [name for name in options(role) if not name.startswith(f"{role.name}_")] == []
    internal = [name for path in role.glob("vars/*.yml") for name in load(path)]
    assert [name for name in internal if not name.startswith(f"__{role.name}_")] == []


def description_problems(option: Mapping[str, Any]) -> list[str]:
    """What, why, source: in this order, each a sentence that ends."""
    parts = option.get("description")
    if not isinstance(parts, list) or len(parts) != 3:
        return ["is not a list of three"]
    what, why, source = parts
    problems = [] if why.startswith("Why: ") else ["has no reason"]
    problems += [] if source.startswith("Source: ") else ["has no source"]
    problems += [] if not what.startswith(("Why: ", "Source: ")) else ["does not say what it is"]
    return problems + [f"'{part[-20:]}' does not end" for part in parts if not part.endswith(".")]


@each_role
def test_every_option_says_what_why_and_whence(role):
    problems = {name: description_problems(option) for name, option in options(role).items()}
    assert problems == {name: [] for name in problems}
    assert all({"type", "default"} <= set(option) for option in options(role).values())


def test_descriptions_without_reason_or_source_are_seen():
    assert description_problems({"description": "A number."})
    assert description_problems({"description": ["A number.", "Because.", "Source: man."]})
    assert description_problems({"description": ["A number.", "Why: so.", "man page."]})


def test_tables_of_options_are_up_to_date():
    spec = importlib.util.spec_from_file_location("role_docs", ROOT / "scripts/role_docs.py")
    role_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(role_docs)
    for role in ROLES:
        text = (role / "README.md").read_text(encoding="utf-8")
        assert role_docs.with_table(text, role) == text, "run scripts/role_docs.py"
        assert role_docs.with_table(text.replace("| Variable |", "| Old |"), role) == text


def injected_facts(text: str) -> list[str]:
    return [name for name in re.findall(r"\bansible_[a-z_]+", text) if name not in MAGIC]


@each_role
def test_facts_are_not_injected(role):
    for path in [*task_files(role), *role.glob("vars/*.yml"), *role.glob("templates/*")]:
        assert injected_facts(path.read_text(encoding="utf-8")) == [], path


def test_injected_facts_are_seen():
    assert injected_facts("when: ansible_distribution == 'Debian'") == ["ansible_distribution"]
    assert injected_facts("when: ansible_facts['distribution'] == 'Debian'") == []


def hidden_failures(tasks: Any) -> list[str]:
    return [
        task["name"]
        for task in flat(tasks)
        if "ignore_errors" in task
        or task.get("failed_when") is False
        or "ignore_unreachable" in task
    ]


@each_role
def test_no_failure_is_hidden(role):
    for path in task_files(role):
        assert hidden_failures(load(path)) == [], path
        assert "molecule" not in path.read_text(encoding="utf-8"), "a role does not know its tests"


def test_hidden_failures_are_seen():
    inside = [{"name": "a", "debug": {}, "ignore_errors": True}]
    assert hidden_failures([{"name": "b", "block": inside}]) == ["a"]
    assert hidden_failures([{"name": "c", "command": "x", "failed_when": False}]) == ["c"]


KERNEL_NAMES = frozenset({"rdma_cm", "rdma_ucm", "rdma_rxe"})
"""Modules of the kernel whose names begin like variables of a role."""


def misspelt(role: str, known: set[str], text: str) -> set[str]:
    """Names with the role's prefix that nothing defines: Ansible's validation lets them pass."""
    return set(re.findall(rf"\b(?:__)?{role}_[a-z0-9_]+", text)) - known - KERNEL_NAMES


def defined_in(role: Path) -> set[str]:
    known = set(options(role))
    for path in role.glob("vars/*.yml"):
        known |= set(load(path))
    for path in task_files(role):
        for task in flat(load(path)):
            known |= {task["register"]} if "register" in task else set()
            known |= set(task.get("vars", {})) | set(task.get("ansible.builtin.set_fact", {}))
    return known


@each_role
def test_variables_are_spelt_as_they_are_defined(role):
    known = defined_in(role)
    for path in [*task_files(role), *role.glob("vars/*.yml"), *role.glob("templates/*")]:
        assert misspelt(role.name, known, path.read_text(encoding="utf-8")) == set(), path


def test_misspelt_variables_are_seen():
    known = {"limits_nofile", "__limits_seen"}
    assert misspelt("limits", known, "{{ limits_nofiles }}") == {"limits_nofiles"}
    assert misspelt("limits", known, "{{ __limits_seen.x + limits_nofile }}") == set()


@each_role
def test_every_variable_is_judged(role):
    judged = {variable for one in all_checks() if one.role == role.name for variable in one.judges}
    assert set(options(role)) - judged - set(UNJUDGED) == set()
    assert judged - set(options(role)) == set(), "a check judges what the role does not have"


@each_role
def test_every_task_that_changes_a_node_has_a_check(role):
    effects = load(role / "meta/effects.yml")
    changing = {
        task["name"] for path in task_files(role) for task in flat(load(path)) if can_change(task)
    }
    assert changing - set(effects) == set(), "add the task to meta/effects.yml"
    named = {task["name"] for path in task_files(role) for task in flat(load(path))}
    assert set(effects) - named == set(), "meta/effects.yml names a task that is not there"
    ids = {one.id for one in all_checks() if one.role == role.name}
    assert {name for checks in effects.values() for name in checks} <= ids
    assert all(effects.values())


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"name": "a", "ansible.builtin.copy": {}}, True),
        ({"name": "a", "community.general.x": {}, "when": "y"}, True),
        ({"name": "a", "ansible.builtin.command": {}, "changed_when": "x.rc == 1"}, True),
        ({"name": "a", "ansible.builtin.command": {}, "changed_when": False}, False),
        ({"name": "a", "ansible.builtin.debug": {}, "changed_when": "x"}, True),
        ({"name": "a", "ansible.builtin.debug": {}}, False),
        ({"name": "a", "ansible.builtin.assert": {}}, False),
    ],
)
def test_changing_tasks_are_told_from_reading_ones(task, expected):
    assert can_change(task) is expected


@each_role
def test_names_of_tasks_begin_with_their_file(role):
    for path in role.glob("tasks/*.yml"):
        if path.stem != "main":
            names = [task["name"] for task in flat(load(path))]
            assert [name for name in names if not name.startswith(f"{path.stem} | ")] == []
    assert all(module_of(task) == "import_tasks" for task in flat(load(role / "tasks/main.yml")))


@each_role
def test_reads_are_read_in_check_mode_too(role):
    """A check run skips commands: what was not read would look like an empty answer."""
    for path in role.glob("tasks/*.yml"):
        for task in flat(load(path)):
            if module_of(task) == "command" and task.get("changed_when") is False:
                skipped = "not ansible_check_mode" in str(task.get("when", ""))
                assert task.get("check_mode") is False or skipped, task["name"]


@each_role
def test_handlers_that_are_notified_exist(role):
    path = role / "handlers/main.yml"
    handlers = {task["name"] for task in flat(load(path))} if path.exists() else set()
    notified: set[str] = set()
    for file in task_files(role):
        for task in flat(load(file)):
            names = task.get("notify", [])
            notified |= {names} if isinstance(names, str) else set(names)
    assert notified == handlers


@pytest.mark.parametrize("module", MODULES)
def test_every_check_is_explained(module):
    ids = {one.id for one in all_checks() if one.id.startswith(f"{module}.")}
    explained = {name for name in explanations() if name.startswith(f"{module}.")}
    assert ids
    assert ids == explained
    assert all(explanations()[name].source for name in ids)
    assert all(explanations()[name].causes and explanations()[name].remedy for name in ids)


def test_every_check_of_the_roles_is_provoked():
    """A check that no mutation makes fail may be unable to fail."""
    mutations = load(MUTATIONS)
    provoked = {one["seen_by"] for role in mutations.values() for one in role}
    ours = {one.id for one in all_checks() if one.role in mutations}
    assert ours - provoked == set(UNPROVOKED)
    assert provoked <= ours


# Molecule


SCENARIOS = sorted(path.parent for path in ROOT.glob("molecule/*/molecule.yml"))
SEQUENCE = ["syntax", "check", "converge", "idempotence", "verify"]


def scenario_problems(folder: Path, names: set[str], base: Mapping[str, Any]) -> list[str]:
    """What a scenario lists and does not have: Molecule passes over it and ends with 0."""
    config = load(folder / "molecule.yml") or {}
    own = config.get("scenario", {})
    sequence = own.get("test_sequence", base.get("scenario", {}).get("test_sequence"))
    if not sequence:
        return ["has no sequence"]
    if folder.name == "default":
        return [f"lacks '{step}.yml'" for step in sequence if f"{step}.yml" not in names]
    problems = [] if sequence == SEQUENCE else [f"its sequence is {sequence}"]
    wanted = {"converge.yml", "verify.yml", "test_verify.py"}
    return problems + [f"lacks '{name}'" for name in sorted(wanted - names)]


def base_config() -> dict[str, Any]:
    return load(ROOT / ".config/molecule/config.yml")


@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda folder: folder.name)
def test_scenarios_have_what_they_list(folder):
    names = {path.name for path in folder.iterdir()}
    assert scenario_problems(folder, names, base_config()) == []


def test_every_role_has_a_scenario():
    assert {role.name for role in ROLES} <= {folder.name for folder in SCENARIOS}


def test_incomplete_scenarios_are_seen(tmp_path):
    (tmp_path / "molecule.yml").write_text("---\n")
    base = {"scenario": {"test_sequence": SEQUENCE}}
    complete = {"converge.yml", "verify.yml", "test_verify.py"}
    assert scenario_problems(tmp_path, complete, base) == []
    assert scenario_problems(tmp_path, complete - {"verify.yml"}, base) == ["lacks 'verify.yml'"]
    (tmp_path / "molecule.yml").write_text("scenario: {test_sequence: [converge]}\n")
    assert scenario_problems(tmp_path, complete, base)
