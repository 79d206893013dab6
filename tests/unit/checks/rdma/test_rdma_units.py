"""What the checks expect of the units is what the role's templates give, for every declaration."""

from __future__ import annotations

import copy
from pathlib import Path

import jinja2
import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks.rdma_boot import _of_interface, _of_rxe, _of_service, _settings, dscp_priorities

from .conftest import DECLARED, DEFAULTS

TEMPLATES = Path(__file__).parents[4] / "roles/rdma/templates"
UNITS = {
    "hfprov-rdma.service": _of_service,
    "hfprov-rdma@.service": _of_interface,
    "hfprov-rxe@.service": _of_rxe,
}
CHANGES = [
    {},
    {"rdma_roce_mode": "leave"},
    {"rdma_roce_mode": "v1", "rdma_roce_tos": "leave"},
    {"rdma_roce_mode": "leave", "rdma_roce_tos": "leave"},
    {"rdma_qos_tool": "leave", "rdma_dscp_priorities": {}, "rdma_pfc_priorities": []},
    {"rdma_dscp_priorities": {}, "rdma_pfc_priorities": []},
    {"rdma_qos_tool": "mlnx_qos", "rdma_pfc_priorities": [5, 3]},
    {"rdma_qos_tool": "mlnx_qos", "rdma_dscp_priorities": {}, "rdma_pfc_priorities": []},
    {"rdma_pfc_priorities": [7, 0], "rdma_ecn_priorities": [4, 3]},
    {"rdma_before_services": []},
    {"rdma_max_read_request_bytes": "128", "rdma_relaxed_ordering": "disabled"},
    {"rdma_max_read_request_bytes": "leave", "rdma_acs_off_bridges": ["0000:17:01.0"]},
    {"rdma_devices": [{"guid": "a088c20300e51d3c"}, {"pci": "0000:19:00.0"}]},
    {"rdma_devices": []},
]


def rendered(name, values):
    """A template with the variables that the role's own ``vars`` make, as Ansible renders it."""
    before = " ".join(f"{one}.service" for one in values["rdma_before_services"])
    names = values["rdma_devices"]
    internal = {
        "__rdma_before": before,
        "__rdma_roce_types": {"v1": "IB/RoCE v1", "v2": "RoCE v2"},
        "__rdma_dscp": sorted((int(a), b) for a, b in values["rdma_dscp_priorities"].items()),
        "__rdma_pci_addresses": [one["pci"] for one in names if "pci" in one],
        "__rdma_read_request_codes": {str(128 << code): code for code in range(6)},
    }
    environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
    text = (TEMPLATES / f"{name}.j2").read_text(encoding="utf-8")
    return environment.from_string(text).render(values | internal)


def baseline(values):
    return Baseline("node", ("rdma",), {name: Value(value, "") for name, value in values.items()})


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("name", UNITS)
def test_units_are_expected_as_they_are_rendered(name, change):
    values = DEFAULTS | copy.deepcopy(DECLARED) | change
    assert _settings(rendered(name, values)) == list(UNITS[name](baseline(values)))


@pytest.mark.parametrize("name", UNITS)
def test_defaults_are_expected_as_they_are_rendered(name):
    assert _settings(rendered(name, DEFAULTS)) == list(UNITS[name](baseline(DEFAULTS)))


def test_commands_of_mlnx_qos():
    values = DEFAULTS | copy.deepcopy(DECLARED) | {"rdma_qos_tool": "mlnx_qos"}
    text = rendered("hfprov-rdma@.service", values)
    assert [line for line in text.splitlines() if "mlnx_qos" in line] == [
        "ExecStart=mlnx_qos -i %I --trust dscp",
        "ExecStart=mlnx_qos -i %I --dscp2prio set,26,3",
        "ExecStart=mlnx_qos -i %I --dscp2prio set,48,6",
        "ExecStart=mlnx_qos -i %I --pfc 0,0,0,1,0,0,0,0",
    ]
    assert dscp_priorities(baseline(values)) == {26: 3, 48: 6}
