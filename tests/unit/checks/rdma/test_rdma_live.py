"""RDMA devices found by what they are; GIDs chosen by type; settings read back; hostile answers."""

from __future__ import annotations

import json

import pytest

from hfprov.checks.rdma_live import judge_priorities
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.rdma_qos import Priorities, from_dcb, from_mlnx_qos
from hfprov.evidence.rdma_settings import GID_TABLE, Gid, select_gid
from hfprov.reading import Observation
from hfprov.verdict import NotApplicable, Outcome

from .conftest import APP, DEVICE, GUID, IB, LINK_GID, PFC, REGISTER, V4_GID, one

FAIL, UNKNOWN, NA = Outcome.FAIL, Outcome.UNKNOWN, Outcome.NOT_APPLICABLE
PCI = "0000:18:00.0"
MLNX_QOS = """\
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
{map}
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   {three}   0   0   0   0
"""


def mlnx_qos(*, three: int = 1) -> str:
    """What the tool prints for its default map: priority is DSCP divided by eight."""
    rows = [
        f"\tprio:{p} dscp:{','.join(f'{d:02}' for d in range(8 * p + 7, 8 * p - 1, -1))},"
        for p in range(8)
    ]
    return MLNX_QOS.format(map="\n".join(rows), three=three)


# Devices


@pytest.mark.parametrize("name", ["mlx5_0", "ibp24s0", "rocep24s0", "rocex5254001234"])
def test_renamed_device_is_found_by_its_address(node, name):
    """Names change with a package or a slot; the PCI address does not."""
    text = json.dumps(node.results).replace(DEVICE, name)
    node.results = json.loads(text)
    (finding,) = node.findings("rdma.devices")
    assert (finding.outcome, finding.observed) == (Outcome.PASS, name)
    assert node.bad("rdma.ports") == {}
    assert node.bad("rdma.gids") == {}
    assert node.bad("rdma.roce") == {}


@pytest.mark.parametrize("guid", [GUID, "a088c20300e51d3c", "0xA088C20300E51D3C"])
def test_renamed_device_is_found_by_its_guid(node, guid):
    node.values["rdma_devices"] = [{"guid": guid}]
    (finding,) = node.findings("rdma.devices")
    assert (finding.outcome, finding.observed) == (Outcome.PASS, DEVICE)


@pytest.mark.parametrize(
    "declared", [{"pci": "0000:99:00.0"}, {"guid": "a088:c203:00e5:0000"}, {"pci": "mlx5_0"}]
)
def test_absent_device_fails_and_is_not_skipped(node, declared):
    node.values["rdma_devices"] = [declared]
    (subject,) = declared.values()
    assert node.bad("rdma.devices") == {subject: FAIL}
    assert node.bad("rdma.ports") == {subject: FAIL}


def test_node_without_any_rdma_device_fails_what_was_declared(node):
    for name in node.results:
        if name.startswith((f"list {IB}", f"glob {IB}")):
            node.results[name] = []
    for check in ("rdma.devices", "rdma.ports"):
        assert node.bad(check) == {PCI: FAIL}
    for check in ("rdma.gids", "rdma.roce", "rdma.rxe"):
        assert node.bad(check) == {"eth1": FAIL}


def test_one_of_two_that_is_absent_is_named(node):
    node.values["rdma_devices"].append({"pci": "0000:99:00.0"})
    assert node.bad("rdma.devices") == {"0000:99:00.0": FAIL}


def test_entry_without_identity_is_unknown(node):
    node.values["rdma_devices"] = [{"rate_gbit_per_s": 400}]
    assert node.bad("rdma.devices") == {"": UNKNOWN}


def test_nothing_declared_is_not_requested(node):
    changes = {"rdma_devices": [], "rdma_interfaces": [], "rdma_rxe_interfaces": []}
    node.values |= changes
    for check in ("devices", "ports", "gids", "roce", "qos", "rxe", "pci"):
        (finding,) = node.findings(f"rdma.{check}")
        assert finding.not_applicable is NotApplicable.NOT_REQUESTED


# Ports


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("state", "1: DOWN\n", "state"),
        ("state", "2: INIT\n", "state"),
        ("rate", "200 Gb/sec (4X HDR)\n", "rate"),
        ("link_layer", "InfiniBand\n", "link layer"),
    ],
)
def test_port_is_held_against_what_was_declared(node, file, text, what):
    node.values["rdma_devices"][0]["link_layer"] = "Ethernet"
    node.put(f"glob {IB}/*/ports/*/{file}", text=text)
    assert node.bad("rdma.ports") == {f"{PCI} port 1 {what}": FAIL}


DEVINFO = """\
hca_id:\t{name}
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.46.1006
\tnode_guid:\t\t\ta088:c203:00e5:1d3c
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t{mtu}
\t\t\tsm_lid:\t\t\t0
\t\t\tport_lid:\t\t0
\t\t\tlink_layer:\t\tEthernet
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DEVINFO.format(name=DEVICE, mtu="4096 (5)"), {}),
        (DEVINFO.format(name=DEVICE, mtu="1024 (3)"), {f"{PCI} port 1 MTU": FAIL}),
        (DEVINFO.format(name="mlx5_7", mtu="4096 (5)"), {f"{PCI} port 1 MTU": FAIL}),
        ("", {"": UNKNOWN}),
        (DEVINFO.format(name=DEVICE, mtu="4096 (5)")[:200], {"": UNKNOWN}),
    ],
)
def test_active_mtu_is_read_from_libibverbs(node, text, expected):
    node.values["rdma_devices"] = [{"pci": PCI, "active_mtu_bytes": 4096}]
    node.results["run ibv_devinfo"] = [one(text, code=0)]
    found = node.bad("rdma.ports")
    assert {key: found[key] for key in expected} == expected
    assert bool(found) == bool(expected)


def test_no_device_of_libibverbs_is_no_success(node):
    node.values["rdma_devices"] = [{"pci": PCI, "active_mtu_bytes": 4096}]
    node.results["run ibv_devinfo"] = [one(stderr="No IB devices found\n", code=255)]
    assert node.bad("rdma.ports") == {f"{PCI} port 1 MTU": FAIL}


# GIDs


def test_gid_is_chosen_by_type_and_interface(node):
    (finding,) = node.findings("rdma.gids")
    assert finding.observed == f"{DEVICE}/1 index 3, {V4_GID}"


def test_gid_that_moved_is_found_at_its_new_index(node):
    """An address that was taken away and given again leaves its index."""
    node.set_gids((0, LINK_GID, "RoCE v2", "eth1"), (17, V4_GID, "RoCE v2", "eth1"))
    (finding,) = node.findings("rdma.gids")
    assert finding.observed.startswith(f"{DEVICE}/1 index 17")


@pytest.mark.parametrize(
    "rows",
    [
        [(0, LINK_GID, "RoCE v2", "eth1")],
        [(0, V4_GID, "IB/RoCE v1", "eth1")],
        [(0, V4_GID, "RoCE v2", "eth2")],
        [(0, V4_GID, "RoCE v2", "eth11")],
        [(0, V4_GID, None, "eth1")],
        [(0, V4_GID, "RoCE v2", None)],
        [],
    ],
)
def test_gid_of_another_type_family_or_interface_is_none(node, rows):
    node.set_gids(*rows)
    assert node.bad("rdma.gids") == {"eth1": FAIL}


def test_the_lowest_of_several_fitting_gids_is_chosen():
    rows = [Gid("d", 1, index, V4_GID, "RoCE v2", "eth1") for index in (9, 5, 7)]
    assert select_gid(rows, "eth1").index == 5
    assert select_gid([], "eth1") is None


def test_what_is_no_gid_is_unknown(node):
    node.set_gids((0, "not a gid", "RoCE v2", "eth1"))
    assert node.bad("rdma.gids") == {"": UNKNOWN}


def test_gid_table_that_was_not_read_whole_is_no_evidence(node):
    name = f"glob {IB}/*/ports/*/gids/*"
    node.results[name] = node.results[name] * 2000
    with pytest.raises(NoEvidenceError):
        GID_TABLE.parse(Observation.from_json({"results": node.results}), node.baseline())


# RoCE mode, priorities


@pytest.mark.parametrize(
    ("name", "text", "subject"),
    [
        ("default_roce_mode", "IB/RoCE v1\n", "eth1 mode"),
        ("default_roce_tos", "0\n", "eth1 type of service"),
    ],
)
def test_volatile_defaults_are_read_back(node, name, text, subject):
    read = f"glob /sys/kernel/config/rdma_cm/*/ports/*/{name}"
    node.put(read, text=text)
    assert node.bad("rdma.roce") == {subject: FAIL}
    node.results[read] = []
    assert node.bad("rdma.roce") == {subject: FAIL}, "lost with the device"


def test_what_is_left_is_not_judged(node):
    node.results["glob /sys/kernel/config/rdma_cm/*/ports/*/default_roce_tos"] = []
    node.values["rdma_roce_tos"] = "leave"
    assert node.bad("rdma.roce") == {}


@pytest.mark.parametrize(
    ("read", "document", "bad"),
    [
        (APP, {"dscp_prio": [[26, 3]]}, {"eth1 DSCP"}),
        (APP, {"dscp_prio": [[26, 4], [48, 6]]}, {"eth1 DSCP"}),
        (APP, {"dscp_prio": [[26, 3], [48, 6], [8, 1]]}, {"eth1 DSCP"}),
        (APP, {}, {"eth1 DSCP", "eth1 trust"}),
        (APP, {"dscp_prio": []}, {"eth1 DSCP", "eth1 trust"}),
        (PFC, {"prio_pfc": [False] * 8}, {"eth1 PFC"}),
        (PFC, {"prio_pfc": [True] * 8}, {"eth1 PFC"}),
    ],
)
def test_priorities_by_dcb(node, read, document, bad):
    node.put(read, text=json.dumps(document))
    assert node.bad("rdma.qos") == dict.fromkeys(bad, FAIL)


@pytest.mark.parametrize("read", [APP, PFC])
@pytest.mark.parametrize(
    "change",
    [
        {"text": "\x1b[31m<script>"},
        {"text": '{"dscp_prio":'},
        {"text": "", "code": 1, "stderr": "RTNETLINK answers: Operation not supported"},
        {"status": "timeout"},
        {"status": "absent"},
    ],
)
def test_priorities_that_are_not_told_are_unknown(node, read, change):
    node.put(read, **change)
    assert node.bad("rdma.qos") == {"": UNKNOWN}


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        (mlnx_qos(), {}),
        (mlnx_qos(three=0), {"eth1 PFC": FAIL}),
        (mlnx_qos().replace("state: dscp", "state: pcp"), {"eth1 DSCP": FAIL, "eth1 trust": FAIL}),
        (mlnx_qos()[:120], {"": UNKNOWN}),
        ("", {"": UNKNOWN}),
    ],
)
def test_priorities_by_mlnx_qos(node, text, bad):
    """It has a priority for each DSCP; only those that are declared are judged."""
    node.values["rdma_qos_tool"] = "mlnx_qos"
    node.results["run mlnx_qos -i eth1"] = [one(text, code=0)]
    assert node.bad("rdma.qos") == bad


def test_no_priority_declared_means_trust_in_vlans(node):
    node.values["rdma_dscp_priorities"] = {}
    now = Priorities("pcp", {}, (3,))
    found = judge_priorities("eth1", now, node.baseline())
    assert {finding.outcome for finding in found} == {Outcome.PASS}


def test_answers_without_the_part_that_is_judged_are_refused():
    with pytest.raises(NotUnderstoodError):
        from_dcb('{"pfc_cap": 8}', "{}")
    with pytest.raises(NoEvidenceError):
        from_mlnx_qos("Priority trust state: pcp\n")


def test_ecn_of_both_sides_is_read_back(node):
    read = "glob /sys/class/net/*/ecn/roce_*/enable/*"
    found = {result["name"]: result for result in node.results[read]}
    found["/sys/class/net/eth1/ecn/roce_np/enable/4"]["text"] = "0\n"
    assert node.bad("rdma.qos") == {}, "priority 4 is not declared"
    found["/sys/class/net/eth1/ecn/roce_rp/enable/3"]["text"] = "0\n"
    assert node.bad("rdma.qos") == {"eth1 ECN 3": FAIL}
    node.results[read] = []
    assert node.bad("rdma.qos") == {"eth1 ECN 3": FAIL}, "the driver has no such switch"


# Soft-RoCE, PCI


def test_soft_device_of_another_interface_does_not_count(node):
    node.put(f"glob {IB}/*/parent", text="eth0\n")
    assert node.bad("rdma.rxe") == {"eth1": FAIL}


@pytest.mark.parametrize(
    ("register", "bad"),
    [("5937", {}), ("2937", {PCI: FAIL}), ("5927", {PCI: FAIL}), ("zz", {PCI: UNKNOWN})],
)
def test_pci_registers_are_read_back(node, register, bad):
    node.put(REGISTER, text=f"{register}\n")
    assert node.bad("rdma.pci") == bad


def test_pci_settings_that_are_not_declared_are_reported(node):
    node.values |= {"rdma_max_read_request_bytes": "leave", "rdma_relaxed_ordering": "leave"}
    node.put(REGISTER, text="2927\n")
    (finding,) = node.findings("rdma.pci")
    assert finding.not_applicable is NotApplicable.NOT_REQUESTED
    assert "512 bytes, relaxed ordering disabled" in finding.reason


@pytest.mark.parametrize(
    ("control", "bad"), [("0000", {}), ("001d", {"0000:17:01.0 redirect": FAIL})]
)
def test_access_control_is_judged_on_declared_bridges(node, control, bad):
    node.values["rdma_acs_off_bridges"] = ["0000:17:01.0"]
    node.results["run setpci -s 0000:17:01.0 ECAP_ACS+6.w"] = [one(f"{control}\n", code=0)]
    assert node.bad("rdma.pci") == bad


def test_the_kernels_name_of_version_one(node):
    node.values["rdma_roce_mode"] = "v1"
    assert node.bad("rdma.roce") == {"eth1 mode": FAIL}
    node.put("glob /sys/kernel/config/rdma_cm/*/ports/*/default_roce_mode", text="IB/RoCE v1\n")
    assert node.bad("rdma.roce") == {}
