"""The bounds of declared values are those of the roles: what a preflight refuses on any node."""

from __future__ import annotations

import importlib.util
import itertools
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import jinja2
import pytest
import yaml

from hfprov.catalogue.data import catalogue
from hfprov.declare.bounds import Bound, bounds, broken_pairs, known_names, pairs, wrong_with

ROOT = Path(__file__).parents[2]
NODE_SPEC = ROOT / "hfprov/catalogue/node_spec.yml"


def load(path):
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


@cache
def script(role, name):
    """A role's script as a module; it asks a node only in its ``main``."""
    path = ROOT / f"roles/{role}/files/{name}.py"
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(path.parent))
        spec = importlib.util.spec_from_file_location(f"{role}_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def options():
    """The spec of every variable that can be declared."""
    found = {}
    for path in [*sorted(ROOT.glob("roles/*/meta/argument_specs.yml")), NODE_SPEC]:
        found |= yaml.safe_load(path.read_text("utf-8"))["argument_specs"]["main"]["options"]
    return found


def defaults():
    found = {name: spec["default"] for name, spec in options().items() if "default" in spec}
    for path in ROOT.glob("roles/*/defaults/main.yml"):
        found |= yaml.safe_load(path.read_text("utf-8"))
    return {name: one for name, one in found.items() if "{{" not in str(one)}


def all_bounds():
    """Every bound with the variable that it is of, those inside of others too."""
    tops = [*bounds().items()]
    tops += [
        (name, one) for pair in pairs() for name, one in (*pair.given.items(), *pair.needs.items())
    ]
    while tops:
        name, one = tops.pop()
        yield name, one
        inner = (one.each, one.keys, one.values, *one.fields.values())
        tops += [(name, two) for two in inner if two]


def test_each_bound_is_of_a_variable_and_has_a_reason_and_a_source():
    sources = catalogue("bounds.yml")["sources"]
    assert set(bounds()) <= set(options())
    assert {name for name, _ in all_bounds()} <= set(options())
    for one in (*bounds().values(), *pairs()):
        assert one.why.endswith(".")
        assert one.source in sources
    for _, bound in all_bounds():
        re.compile(bound.pattern)
        assert not bound.known or known_names(bound.known)


def test_a_bound_says_what_is_allowed():
    for name, bound in all_bounds():
        if bound.pattern:
            assert bound.allowed, name


def test_choices_stand_in_argument_specs_only():
    assert not [name for name in bounds() if "choices" in options()[name]]


def test_every_default_is_within_its_bound():
    plain = defaults()
    wrong = {
        name: found for name, one in bounds().items() if (found := wrong_with(one, plain.get(name)))
    }
    assert wrong == {}
    assert list(broken_pairs(plain)) == []


# What the roles say of the same values


def exits(call, *arguments):
    try:
        call(*arguments)
    except (SystemExit, ValueError, script("container_runtime", "merge_settings").RefusedError):
        return True
    return False


def limit(name, value):
    asked = dict.fromkeys(("memlock", "nofile", "nproc", "stack"), "1") | {name: str(value)}
    ours = exits(script("limits", "observe_limits").amounts, asked)
    facts = script("container_runtime", "runtime_facts")
    try:
        facts.ulimits_of({"limits": asked})
    except facts.RefusedError:
        return ours
    return False


def services(value):
    asked = {"services": value, "restart_services": []}
    return bool(list(script("limits", "observe_limits").misnamed(asked)))


def mtu(value):
    link = {"ifname": "e", "min_mtu": 68, "max_mtu": 65535}
    return bool(list(script("jumbo_mtu", "plan_mtu").link_problems(link, value, [], {})))


def irq(name, value):
    plain = {
        "channels": "auto",
        "ring_rx": "max",
        "ring_tx": "max",
        "reserved_cpus": "",
        "interfaces": ["e"],
    }
    return bool(script("irq_affinity", "irq_plan").malformed(plain | {name: value}))


def rdma(function, name, value):
    plain = {
        "devices": [], "max_read_request": "leave", "relaxed_ordering": "leave", "pfc": [],
        "ecn": [], "dscp": {}, "roce_tos": "leave", "qos_tool": "dcb", "modules": ["a"],
        "interfaces": [], "rxe": [], "before_services": [],
    }  # fmt: skip
    found = getattr(script("rdma", "observe_rdma"), function)(plain | {name: value})
    return bool([one for one in found if "This node has no interface" not in one])


class Whole:
    """Packages of which nothing is due."""

    due = False

    @staticmethod
    def problems():
        return iter(())


def parameters(value):
    return bool(list(script("kernel", "observe_kernel").unsuited({"parameters": value}, Whole)))


def sysctls(value):
    wanted = {name: str(one) for name, one in value.items()}
    return bool(list(script("performance", "observe_performance").misnamed(wanted, "container")))


def idle(value):
    asked = {"kernel_files": {"x_us": value}}
    return bool(list(script("performance", "observe_performance").unsuited(asked, "bare_metal")))


def hardened(value):
    asked = {"extra_sysctls": value}
    return bool(list(script("hardening", "observe_hardening").sysctl_problems(asked)))


def modules(value):
    asked = {"modules": value}
    role = script("hardening", "observe_hardening")
    return bool(list(role.module_problems(asked, in_container=True)))


def docker(value):
    asked = {
        "docker_settings": value, "live_restore": True, "shm_mib": 1, "ulimits": {}, "runtime": None
    }  # fmt: skip
    return exits(script("container_runtime", "merge_settings").docker_settings, asked, (24, 0))


def driver(value):
    asked = {"vendor": "", "version": value, "target_kernel": ""}
    return bool(list(script("accelerator", "observe_accelerator").refusals(asked, "", [])))


def interfaces_of_nccl(value):
    return bool(list(script("comm_library", "observe_comm_library").misspelt(value, "x")))


def extra_of_nccl(value):
    allowed = load("roles/comm_library/vars/main.yml")["__comm_library_allowed"].strip()
    malformed = script("comm_library", "observe_comm_library").malformed
    return not all(re.match(allowed, name) for name in value) or bool(list(malformed(value)))


PCI = "0000:17:00.0"
# variable: what its role says, values that both refuse, values that both take
CASES = {
    "jumbo_mtu_bytes": (mtu, [65536, 900000], [1280, 1500, 9000, 65535]),
    "limits_nofile": (lambda v: limit("nofile", v), [-5, 0], [1, 131072]),
    "limits_stack_kib": (lambda v: limit("stack", v), [-1, 0], [1, 8192]),
    "limits_memlock_kib": (
        lambda v: limit("memlock", v), ["-1", "0", "many", "1.5", ""], ["unlimited", "1"],
    ),
    "limits_nproc": (lambda v: limit("nproc", v), ["infinity", "-1"], ["unlimited", "65536"]),
    "limits_services": (services, [["ssh.service"]], [["ssh"], []]),
    "irq_affinity_channels": (lambda v: irq("channels", v), ["0", "max", "1000000"], ["auto", "8"]),
    "irq_affinity_ring_rx": (lambda v: irq("ring_rx", v), ["0", "auto"], ["leave", "999999"]),
    "irq_affinity_ring_tx": (lambda v: irq("ring_tx", v), ["-1"], ["max", "1"]),
    "irq_affinity_reserved_cpus": (
        lambda v: irq("reserved_cpus", v), ["3-1", "a", "1,", "65536"], ["", "0-1,64-65", "65535"],
    ),
    "irq_affinity_interfaces": (
        lambda v: irq("interfaces", v), [["a b"], ["a" * 16]], [["eth0"], ["a" * 15]],
    ),
    "rdma_roce_tos": (
        lambda v: rdma("number_problems", "roce_tos", v), ["256", "-1"], ["leave", "0", "255"],
    ),
    "rdma_pfc_priorities": (lambda v: rdma("number_problems", "pfc", v), [[8], [-1]], [[0, 7], []]),
    "rdma_ecn_priorities": (lambda v: rdma("number_problems", "ecn", v), [[8]], [[3]]),
    "rdma_dscp_priorities": (
        lambda v: rdma("number_problems", "dscp", v),
        [{64: 1}, {1: 8}, {"a": 1}],
        [{63: 7, "0": 0}],
    ),
    "rdma_devices": (
        lambda v: rdma("device_problems", "devices", v),
        [[{}], [{"pci": "mlx5_0"}], [{"guid": "12"}], [{"pci": PCI, "guid": "a" * 16}],
         [{"pci": PCI, "speed": 1}]],
        [[{"pci": PCI}], [{"guid": "a088:c203:00e5:1d3c", "pci": ""}], []],
    ),
    "rdma_modules": (
        lambda v: rdma("name_problems", "modules", v), [[], ["a b"]], [["ib_uverbs"]],
    ),
    "rdma_before_services": (
        lambda v: rdma("name_problems", "before_services", v), [["a b"]], [["slurmd"], []],
    ),
    "rdma_interfaces": (
        lambda v: rdma("name_problems", "interfaces", v), [["a-b"], [".a"]], [["eth1"], ["e.1"]],
    ),
    "rdma_rxe_interfaces": (lambda v: rdma("name_problems", "rxe", v), [["a-b"]], [["eth1"]]),
    "kernel_parameters": (
        parameters, [["root=/dev/sda"], ["a b"], ["x=$y"], ["init"]], [["iommu=pt"], ["rootwait"]],
    ),
    "performance_idle_latency_us": (idle, ["-1", "soon", "1000000"], ["leave", "0", "999999"]),
    "performance_extra_sysctls": (
        sysctls, [{"vm/x": 1}, {"vm": 1}, {"kernel.x": ""}], [{"kernel.x": 1}],
    ),
    "hardening_extra_sysctls": (
        hardened,
        [{"vm.swappiness": 1}, {"net.ipv4.ip_forward": 0}, {"net.ipv4.conf.*.forwarding": 0}],
        [{"kernel.sysrq": 0}, {"net.ipv4.conf.*.log_martians": 1}],
    ),
    "hardening_disabled_modules": (
        modules, [["nvme-core"], ["ib_uverbs"], ["a b"], ["br-netfilter"]], [["cramfs"], []],
    ),
    "container_runtime_docker_settings": (
        docker, [{"exec-opts": []}, {"default-shm-size": "1m"}], [{"debug": True}],
    ),
    "accelerator_driver_version": (driver, ["latest", "v5"], ["", "580.95.05"]),
    "comm_library_socket_interfaces": (interfaces_of_nccl, [["=eth0"], ["^eth0"]], [["eth0"]]),
    "comm_library_extra": (
        extra_of_nccl, [{"NCCL_ALGO": "Ring"}, {"NCCL_NET": "a b"}], [{"NCCL_IB_SL": "3"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("variable", CASES)
def test_a_role_refuses_the_same(variable):
    refuses, bad, good = CASES[variable]
    for value in bad:
        assert wrong_with(bounds()[variable], value), value
        assert refuses(value), value
    for value in good:
        assert wrong_with(bounds()[variable], value) is None, value
        assert not refuses(value), value


def test_an_mtu_that_takes_ipv6_away_is_refused_although_adapters_have_it():
    assert not mtu(576)
    assert wrong_with(bounds()["jumbo_mtu_bytes"], 576)


def test_lists_of_names_are_those_of_the_role():
    roles = script("hardening", "observe_hardening")
    sysctls_of, modules_of = (
        bounds()["hardening_extra_sysctls"],
        bounds()["hardening_disabled_modules"],
    )
    # No name that begins with 'vm.' matches the pattern.
    assert {*sysctls_of.keys.never} == {*roles.REFUSED_SYSCTLS} - {"vm.*"}
    assert [one.replace("[-_]", "_") for one in modules_of.each.never] == [*roles.NEEDED_MODULES]
    own = script("container_runtime", "merge_settings").OWN_KEYS
    assert {*bounds()["container_runtime_docker_settings"].keys.never} == {*own}
    allowed = load("roles/comm_library/vars/main.yml")["__comm_library_allowed"].strip()
    assert f"^{bounds()['comm_library_extra'].keys.pattern}$" == allowed


# What excludes each other


def refusing(role, task, **values):
    """Whether an assertion of a role's preflight fails, as Ansible would find it."""
    environment = jinja2.Environment(autoescape=False)
    environment.tests |= {
        "search": lambda v, p: re.search(p, v),
        "match": lambda v, p: re.match(p, v),
    }
    tasks = load(f"roles/{role}/tasks/preflight.yml")
    [that] = [one["ansible.builtin.assert"]["that"] for one in tasks if one["name"].endswith(task)]
    conditions = [that] if isinstance(that, str) else that
    return not all(environment.compile_expression(one)(**values) for one in conditions)


def broken(**values):
    return [name for _, _, name, _ in broken_pairs(values)]


@pytest.mark.parametrize("role", ["rdma", "diagnostics_tools"])
def test_a_repository_needs_a_key(role):
    for url, key in itertools.product(("", "http://x"), ("", "BEGIN PGP PUBLIC KEY BLOCK", "no")):
        values = {f"{role}_site_repository": url, f"{role}_site_key": key}
        refused = refusing(role, "Refuse a repository that cannot be verified", **values)
        assert bool(broken(**values)) is refused


def test_what_nobody_vouches_for():
    for url, key, run, checksum in itertools.product(
        ("", "x"), ("", "-BEGIN PGP PUBLIC KEY BLOCK-"), ("", "a.run"), ("", "md5:1", "sha256:1")
    ):
        values = {
            "accelerator_site_repository": url, "accelerator_site_key": key,
            "accelerator_installer": run, "accelerator_installer_checksum": checksum,
        }  # fmt: skip
        wanted = {**values, "__accelerator_repository": bool(url)}
        refused = refusing("accelerator", "Refuse what nobody vouches for", **wanted)
        assert bool(broken(**values)) is refused


def test_a_vendor_and_a_kernel_module_fit_the_machine():
    machines: Mapping[str, Mapping[str, object]] = load("roles/accelerator/vars/skus.yml")[
        "__accelerator_skus"
    ]
    vendors = ("auto", "none", "nvidia", "amd", "ascend", "gaudi")
    for sku, vendor, module in itertools.product(
        (*machines, "", "none"), vendors, ("auto", "open", "proprietary")
    ):
        values = {
            "node_sku": sku, "accelerator_vendor": vendor, "accelerator_kernel_module": module,
        }  # fmt: skip
        wanted = {**values, "__accelerator_sku": machines.get(sku, {})}
        refused = refusing("accelerator", "Refuse a declaration that contradicts itself", **wanted)
        assert bool(broken(**values)) is refused, values


def test_priorities_need_a_tool_and_settings_of_pci_a_device():
    for tool, pfc in itertools.product(("leave", "dcb"), ([], [3])):
        values = {"rdma_qos_tool": tool, "rdma_pfc_priorities": pfc}
        asked = {"qos_tool": tool, "pfc": pfc, "ecn": [], "dscp": {}, "roce_tos": "leave"}
        found = script("rdma", "observe_rdma").number_problems(
            asked | {"max_read_request": "leave"}
        )
        assert bool(broken(**values)) is bool(list(found))
    for size, devices in itertools.product(
        ("leave", "512"), ([], [{"pci": PCI}], [{"guid": "a" * 16}])
    ):
        values = {"rdma_max_read_request_bytes": size, "rdma_devices": devices}
        asked = {"devices": devices, "max_read_request": size, "relaxed_ordering": "leave"}
        found = script("rdma", "observe_rdma").device_problems(asked)
        assert bool(broken(**values)) is bool(list(found))


def test_an_empty_bound_takes_everything():
    assert wrong_with(Bound(), {"a": [1]}) is None
