"""What the roles declare for a practice node, in a form that a deploy of pyinfra can use.

Read from the roles themselves: their defaults, variables and templates, and what the inventory of
the practice rack adds. So it is never older than they are. Needs PyYAML, and Jinja as pyinfra has
it; no Ansible, and nothing of hfprov.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined
from jinja2.nativetypes import NativeEnvironment
from jinja2.runtime import Context

ROLES = Path(__file__).resolve().parents[2] / "roles"
RELEASE = "Debian_12"
"""Of the practice nodes; roles keep what differs between releases in files of this name."""
OF_A_CONTAINER = ("net.ipv4.", "net.ipv6.")
"""Kernel settings that a container has of its own. All others are its host's: no role sets them in
a container, and hfprov does not judge them there."""
UNITS = "/etc/systemd/system"
COPY = "ansible.builtin.copy"

TEMPLATES = (
    ("time_sync", "chrony.conf.j2", "{{ __time_sync_file }}"),
    ("limits", "login.conf.j2", "{{ __limits_login_file }}"),
    ("limits", "logind.conf.j2", "{{ __limits_logind_file }}"),
    ("limits", "manager.conf.j2", "{{ __limits_manager_files[0] }}"),
    ("limits", "manager.conf.j2", "{{ __limits_manager_files[1] }}"),
    # Of the services that 'limits_services' names a practice node has sshd only.
    ("limits", "service.conf.j2", f"{UNITS}/ssh.service.d/{{{{ __limits_drop_in }}}}"),
    ("limits", "service.conf.j2", f"{UNITS}/user@.service.d/{{{{ __limits_drop_in }}}}"),
    ("performance", "sysctl.conf.j2", "{{ __performance_sysctl_file }}"),
    ("performance", "performance.service.j2", "{{ __performance_unit_file }}"),
    ("irq_affinity", "irq_affinity.json.j2", "{{ __irq_affinity_config_file }}"),
    ("irq_affinity", "irqbalance.conf.j2", "{{ __irq_affinity_drop_in }}"),
    ("irq_affinity", "irqbalance_policy.sh.j2", "{{ __irq_affinity_policy }}"),
    ("irq_affinity", "{}.j2", f"{UNITS}/{{{{ __irq_affinity_unit }}}}"),
    ("irq_affinity", "{}.j2", f"{UNITS}/{{{{ __irq_affinity_timer }}}}"),
    ("irq_affinity", "{}.j2", "/etc/udev/rules.d/90-hfprov-irq-affinity.rules"),
    ("rdma", "modules.conf.j2", "{{ __rdma_modules_file }}"),
    ("rdma", "{}.j2", "{{ __rdma_unit_directory }}/hfprov-rdma.service"),
    ("rdma", "{}.j2", "{{ __rdma_unit_directory }}/hfprov-rdma@.service"),
    ("rdma", "{}.j2", "{{ __rdma_unit_directory }}/hfprov-rxe@.service"),
    ("rdma", "udev.rules.j2", "{{ __rdma_udev_file }}"),
    ("hardening", "sysctl.conf.j2", "{{ __hardening_sysctl_file }}"),
    ("hardening", "modprobe.conf.j2", "{{ __hardening_modprobe_file }}"),
    ("hardening", "{{ __hardening_updates_template }}", "{{ __hardening_updates_file }}"),
    ("hardening", "sshd.conf.j2", "{{ __hardening_ssh_file }}"),
)
"""Role, template and file. ``{}`` stands for the file's name."""


@dataclass(frozen=True, slots=True)
class File:
    path: str
    text: str
    mode: str = "644"

    @property
    def is_drop_in(self) -> bool:
        """Whether a role has to make its directory; others come with packages."""
        return self.path.startswith("/etc/systemd/") and Path(self.path).parent.suffix == ".d"


class _Lazy(Context):
    """Variables hold templates of other variables: each is rendered when it is asked for."""

    def resolve_or_missing(self, key: str) -> Any:
        return _rendered(super().resolve_or_missing(key), self.parent)


def _rendered(value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and "{{" in value:
        return _NATIVE.from_string(value).render(variables)
    if isinstance(value, dict):
        return {key: _rendered(one, variables) for key, one in value.items()}
    return [_rendered(one, variables) for one in value] if isinstance(value, list) else value


def _environment(kind: type[Environment]) -> Environment:
    made = kind(trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    made.context_class = _Lazy
    # Those of Ansible that the roles' variables and templates use.
    made.filters |= {
        "combine": lambda one, other: one | other,
        "regex_replace": lambda text, pattern, new: re.sub(pattern, new, text),
        "ternary": lambda choice, yes, no: yes if choice else no,
        "to_nice_json": lambda value, sort_keys: json.dumps(value, indent=4, sort_keys=sort_keys),
        "zip": zip,
    }
    return made


_NATIVE, _TEXT = _environment(NativeEnvironment), _environment(Environment)


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class Declared:
    """All variables of all roles, and what becomes of them."""

    def __init__(self, rack: Path) -> None:
        self._variables: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        for name in ("defaults/main.yml", "vars/main.yml", f"vars/{RELEASE}.yml"):
            for path in sorted(ROLES.glob(f"*/{name}")):
                self._variables |= _read(path)
        self._variables |= _read(rack / "inventory" / "group_vars" / "accelerators.yml")
        # The role looks for an AMD accelerator before it knows these; here is none.
        settings = {n: v for n, v in self["__performance_sysctls"].items() if v != "leave"}
        self._variables["__performance_seen"] = {"sysctls": settings}
        self.files = tuple(self._files())
        self.mtu_drop_ins = {name: self._mtu(name) for name in self["jumbo_mtu_interfaces"]}
        nodes = json.loads((rack / "rack.json").read_text())["nodes"]
        self._networks = {node["name"]: node["network"] for node in nodes}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = _rendered(self._variables[name], self._variables)
        return self._values[name]

    def of(self, *names: str) -> list[str]:
        """The values of several variables, each a name or a list of names."""
        values = [self[name] for name in names]
        return [one for value in values for one in ([value] if isinstance(value, str) else value)]

    def packages(self) -> list[str]:
        tools = [self["__diagnostics_tools_packages"][t] for t in self["diagnostics_tools_wanted"]]
        others = self.of("__rdma_packages", "__hardening_updates_package")
        return sorted({"chrony", "ethtool", *tools, *others})

    def directories(self) -> list[str]:
        inside = self.of("__irq_affinity_config_file", "__irq_affinity_drop_in")
        return [self["__irq_affinity_library"], *(str(Path(path).parent) for path in inside)]

    def absent(self) -> list[str]:
        """What would be left over of options that are not declared by default."""
        repositories = ("__rdma_repository_file", "__diagnostics_tools_repository_file")
        firewall = ("__hardening_firewall_file", "__hardening_firewall_unit_file")
        return self.of(*repositories, "__rdma_modprobe_file", "__hardening_audit_file", *firewall)

    def units_at_boot(self) -> list[str]:
        """Started at boot; in a container they do nothing, so whether they run is not asked."""
        names = ("__performance_unit", "__irq_affinity_unit", "__irq_affinity_timer")
        return ["systemd-sysctl.service", *self.of(*names, "__rdma_units")]

    def units_off(self) -> list[str]:
        services = self.of("performance_stop_services", "diagnostics_tools_services_off")
        return [*self["__time_sync_daemons"], *(f"{name}.service" for name in services)]

    def chrony_directory(self) -> str:
        return f"confdir {self['__time_sync_directory']}"

    def chrony_options(self) -> str:
        options = self["__time_sync_options"] + ("" if self["time_sync_control_clock"] else " -x")
        return f'{self["__time_sync_options_variable"]}="{options}"'

    def kernel_settings(self, interfaces: list[str]) -> list[tuple[str, list[str], Any]]:
        """Name as declared, the names that a ``*`` in it stands for, and their value."""
        settings = self["__performance_seen"]["sysctls"] | self["__hardening_all_sysctls"]
        found = []
        for name, value in settings.items():
            if name.startswith(OF_A_CONTAINER):
                names = [name.replace("*", one) for one in interfaces] if "*" in name else [name]
                numbers = [int(one) for one in str(value).split()]
                found.append((name, names, numbers if len(numbers) > 1 else numbers[0]))
        return found

    def has_ifupdown(self, node: str) -> bool:
        """Whether ifupdown configures the node's data NIC; systemd-networkd does it elsewhere."""
        return self._networks[node] == "ifupdown"

    def _mtu(self, interface: str) -> File:
        name = self["__jumbo_mtu_question"]["drop_in"]
        dest = f"/etc/systemd/network/20-{interface}.network.d/{name}"
        return self._from_template("jumbo_mtu", "mtu.conf.j2", dest)

    def _files(self) -> Iterable[File]:
        for role, template, path in TEMPLATES:
            dest = str(_rendered(path, self._variables))
            yield self._from_template(role, template.replace("{}", Path(dest).name), dest)
        library = self["__irq_affinity_library"]
        for name in ("irq_plan.py", "irq_affinity.py"):
            script = ROLES / "irq_affinity" / "files" / name
            yield File(f"{library}/{name}", script.read_text())
        yield self._clock_drop_in()
        yield from self._of_communication_libraries()

    def _from_template(self, role: str, name: str, dest: str) -> File:
        source = ROLES / role / "templates" / str(_rendered(name, self._variables))
        text = _TEXT.from_string(source.read_text()).render(self._variables)
        return File(dest, text, "755" if dest.endswith(".sh") else "644")

    def _clock_drop_in(self) -> File:
        tasks = _read(ROLES / "time_sync" / "tasks" / "configure.yml")
        (copy,) = (task[COPY] for task in tasks if COPY in task)
        return File(self["__time_sync_drop_in"], copy["content"])

    def _of_communication_libraries(self) -> Iterator[File]:
        script = runpy.run_path(str(ROLES / "comm_library" / "files" / "observe_comm_library.py"))
        values = {n: v for n, v in self["__comm_library_nccl"].items() if v != "unset"}
        lines = [f"{name}={values[name]}" for name in sorted(values)]
        for path in self["__comm_library_nccl_files"]:
            yield File(path, "\n".join([script["BEGIN"], *lines, script["END"], ""]))


@cache
def declared(ssh_config: str) -> Declared:
    """For the practice rack that this configuration of SSH belongs to; once for all its nodes."""
    return Declared(Path(ssh_config).parents[1])
