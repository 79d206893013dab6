"""RDMA adapters, ports, GIDs, counters and QoS: forms without a recording, and what is cut off."""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import (
    dcb,
    devlink,
    ibdev2netdev,
    ibstat,
    ibv_devinfo,
    mlnx_qos,
    mst,
    ofed,
    rdma,
    show_gids,
)

CA = """\
CA '{name}'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.43.1014
\tNode GUID: 0x58a2e10300ec4a0e
\tPort 1:
\t\tState: {state}
\t\tPhysical state: {physical}
\t\tRate: {rate}
\t\tBase lid: 128
\t\tLink layer: InfiniBand
"""
GOOD_CA = CA.format(name="mlx5_0", state="Active", physical="LinkUp", rate="400")


@pytest.mark.parametrize(
    ("state", "physical", "active"),
    [
        ("Active", "LinkUp", True),
        ("Active", "Polling", False),
        ("Initializing", "LinkUp", False),
        ("Down", "Disabled", False),
        ("Armed", "LinkUp", False),
    ],
)
def test_a_port_is_active_only_with_link(state, physical, active):
    text = CA.format(name="mlx5_0", state=state, physical=physical, rate="40 (FDR10)")
    port = ibstat.parse(text).find("mlx5_0").ports[0]
    assert port.is_active is active
    assert (port.rate_gbps, port.rate_name) == (40.0, "FDR10")


def test_an_adapter_is_never_read_from_half_its_lines():
    lines = (GOOD_CA + GOOD_CA.replace("mlx5_0", "mlx5_1")).splitlines()
    whole = ibstat.parse("\n".join(lines))
    for end in range(len(lines)):
        try:
            facts = ibstat.parse("\n".join(lines[:end]))
        except NotUnderstoodError:
            continue
        assert facts.adapters == whole.adapters[: len(facts.adapters)]


def test_two_announced_ports_but_one_described_are_refused():
    with pytest.raises(NotUnderstoodError, match="has 2 ports, but 1"):
        ibstat.parse(GOOD_CA.replace("Number of ports: 1", "Number of ports: 2"))


def test_a_vanished_device_is_kept_as_evidence():
    text = "ibpanic: [1] main: stat of IB device 'mlx5_8' failed: No such file or directory\n"
    assert ibstat.parse(text).adapters == ()
    assert "mlx5_8" in ibstat.parse(text).failures[0]


def test_a_fabric_cut_off_shows_one_sided_cables():
    text = 'Switch  41 "S-0a"  # "leaf" base port 0 lid 1 lmc 0\n'
    text += '[1]  "H-0b"[1](b)  # "n1" lid 2 4xNDR\n'
    fabric = ibstat.parse(text)
    assert fabric.nodes[0].cables[0].width_speed == "4xNDR"
    assert fabric.one_sided == (("S-0a", 1),)


@pytest.mark.parametrize("text", ["", "nonsense\n", "VM_hostname a\n", "CA 'x'\n", "CA 'x'\nfoo\n"])
def test_ibstat_refuses_what_is_no_adapter(text):
    with pytest.raises(NotUnderstoodError):
        ibstat.parse(text)


DEVICE = """\
hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.43.1014
\tvendor_part_id:\t\t\t4129
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\t{state}
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t{mtu}
\t\t\tlink_layer:\t\tInfiniBand
"""


def test_two_devices_and_a_port_that_is_down():
    text = DEVICE.format(state="PORT_ACTIVE (4)", mtu="4096 (5)") + "\n"
    text += DEVICE.format(state="PORT_DOWN (1)", mtu="invalid MTU (0)").replace("mlx5_0", "mlx5_1")
    facts = ibv_devinfo.parse(text)
    assert [device.ports[0].state for device in facts.devices] == ["PORT_ACTIVE", "PORT_DOWN"]
    assert facts.find("mlx5_1").ports[0].active_mtu_bytes is None


def test_width_and_speed_give_the_rate():
    text = DEVICE.format(state="PORT_ACTIVE (4)", mtu="4096 (5)")
    text += "\t\t\tactive_width:\t\t4X (2)\n\t\t\tactive_speed:\t\t100.0 Gbps (128)\n"
    assert ibv_devinfo.parse(text).devices[0].ports[0].rate_gbps == 400.0


def test_no_device_is_an_answer():
    facts = ibv_devinfo.parse("No IB devices found\n")
    assert facts.devices == ()
    assert facts.failures == ("No IB devices found",)


def test_names_of_devices():
    text = "2 HCAs found:\n\tmlx5_0\n\tmlx5_1\n"
    assert [device.name for device in ibv_devinfo.parse(text).devices] == ["mlx5_0", "mlx5_1"]
    with pytest.raises(NotUnderstoodError, match="but 1"):
        ibv_devinfo.parse("2 HCAs found:\n\tmlx5_0\n")


def test_list_of_devices():
    text = "    device          \t   node GUID\n    ------          \t---------\n"
    text += "    mlx5_0 \t58a2e10300ec4a0e\n"
    assert ibv_devinfo.parse(text).devices[0].node_guid == "58a2e10300ec4a0e"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\tport:\t1\n",
        DEVICE[: DEVICE.index("\t\tport")],
        DEVICE.format(state="PORT_ACTIVE (4)", mtu="40"),
        DEVICE.format(state="PORT", mtu="4096 (5)"),
        DEVICE.format(state="PORT_ACTIVE (4)", mtu="4096 (5)").replace("link_layer", "linklayer"),
    ],
)
def test_ibv_devinfo_refuses_half_a_device(text):
    with pytest.raises(NotUnderstoodError):
        ibv_devinfo.parse(text)


def test_rdma_link_of_infiniband_and_of_a_port_that_is_down():
    text = (
        "link ibp12s0/1 subnet_prefix fe80:0000:0000:0000 lid 13 sm_lid 2 lmc 0 state ACTIVE "
        "physical_state LINK_UP \n    caps: <CM, IP_BASED_GIDS>\n"
        "link rocep1s0/1 state DOWN physical_state DISABLED netdev eth0 \n"
    )
    first, second = rdma.parse(text).links
    assert (first.lid, first.sm_lid, first.netdev) == (13, 2, None)
    assert (second.state, second.netdev) == ("DOWN", "eth0")


def test_rdma_link_of_old_iproute2():
    (link,) = rdma.parse("1/1: mlx5_0/1: state ACTIVE physical_state LINK_UP netdev ens1\n").links
    assert (link.device, link.port, link.netdev) == ("mlx5_0", 1, "ens1")


def test_rdma_devices():
    line = (
        "0: mlx5_0: node_type ca fw 28.43.1014 node_guid 58a2:e103:00ec:4a0e sys_image_guid 1:2:3:4"
    )
    assert rdma.parse(line).devices[0].firmware_version == "28.43.1014"
    data = [{"ifindex": 0, "ifname": "mlx5_0", "node_type": "ca", "fw": "28.43.1014"}]
    assert rdma.parse(json.dumps(data)).devices[0].name == "mlx5_0"


def test_rdma_system():
    assert rdma.parse("netns shared privileged-qkey off copy-on-fork on\n").copy_on_fork is True
    assert rdma.parse('[{"netns":"exclusive","copy-on-fork":true}]').netns == "exclusive"


def test_counters_of_connection_managers_are_left_out():
    text = "Port 1 hw counters:\nout_of_buffer: 3\nPort 1 cm counters:\nreq: 5\nout_of_buffer: 9\n"
    assert rdma.parse(text).ports[0].counters == {"out_of_buffer": 3}


def test_a_process_name_with_spaces():
    text = "link mlx5_0/1 lqpn 9 type RC state RTS sq-psn 0 pid 12 comm python3 train.py\n"
    assert rdma.parse(text).entries[0]["comm"] == "python3 train.py"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "link mlx5_0/1 state ACTIVE physical_state\n",
        "link mlx5_0/1 state ACTIVE netdev eth0\n",
        "link mlx5_0/1 out_of_buffer\n",
        "link mlx5_0/1 out_of_buffer 1 resp_cqe_error x\n",
        "link mlx5_0/1 state ACTIVE physical_state LINK_UP\nlink mlx5_1/1 out_of_buffer 1\n",
        '[{"ifname":"x","port":1,"state":3.5,"physical_state":[]}]',
        '[{"a":1}]',
        "{}",
        "Port 1 hw counters:\n",
        "Wrong device name\n",
    ],
)
def test_rdma_refuses_what_is_not_whole(text):
    with pytest.raises(NotUnderstoodError):
        rdma.parse(text)


HEAD = (
    "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
    "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
)
ROW = "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0001\t10.0.0.1  \tv2\teth0\n"


def test_show_gids_tells_which_gid_is_an_ipv4_address():
    (gid,) = show_gids.parse(HEAD + ROW + "n_gids_found=1\n").of("mlx5_0")
    assert gid.is_ipv4_mapped
    assert show_gids.parse(HEAD + "n_gids_found=0\n").gids == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        ROW,
        HEAD + ROW + "n_gids_found=2\n",
        HEAD + ROW[:-8] + "\n",
        HEAD + ROW.replace("0a00:0001", "0a00"),
        HEAD + ROW.replace("v2", "v3"),
        HEAD + "/sys/class/infiniband: No such file or directory\n",
    ],
)
def test_show_gids_refuses_half_a_table(text):
    with pytest.raises(NotUnderstoodError):
        show_gids.parse(text)


def test_ibdev2netdev_verbose_and_without_netdev():
    text = (
        "0000:0d:00.0 mlx5_0 (MT4129 - MCX715105AS-WEAT) NVIDIA ConnectX-7 fw 28.43.1014 port 1 "
        "(ACTIVE) ==> ens1np0 (Up) # rail 5\nmlx5_9 port 1 ==> \n"
    )
    first, second = ibdev2netdev.parse(text)
    assert (first.pci_address, first.rdma_state, first.netdev) == (
        "0000:0d:00.0",
        "ACTIVE",
        "ens1np0",
    )
    assert (second.netdev, second.up) == (None, None)


@pytest.mark.parametrize(
    "text", ["", "mlx5_0 port 1 ==> ens1\n", "mlx5_0 port 1 ==> ens1 (U\n", "x\n"]
)
def test_ibdev2netdev_refuses_half_a_line(text):
    with pytest.raises(NotUnderstoodError):
        ibdev2netdev.parse(text)


def test_ofed_versions():
    assert ofed.parse("OFED-internal-25.07-0.9.7:\n").version == "25.07-0.9.7"
    status = ofed.parse("\n  HCA driver is not loaded\n\n")
    assert status.driver_loaded is False
    with pytest.raises(NotUnderstoodError, match="modules"):
        ofed.parse("  HCA driver loaded\n\nConfigured IPoIB devices:\nib0\n")
    with pytest.raises(NotUnderstoodError):
        ofed.parse("ofed_info: command not found\n")


def test_mst_verbose_row_with_path_and_networks():
    text = (
        "MST modules:\n------------\n    MST PCI module is not loaded\n"
        "    MST PCI configuration module loaded\nPCI devices:\n------------\n"
        "DEVICE_TYPE             MST                           PCI       RDMA  NET      NUMA\n"
        "ConnectX7(rev:0)   /dev/mst/mt4129_pciconf0      0d:00.0   mlx5_0 net-ens1,net-ens2 1\n"
    )
    (device,) = mst.parse(text).devices
    assert device.path == "/dev/mst/mt4129_pciconf0"
    assert (device.rdma_device, device.net_devices, device.numa_node) == (
        "mlx5_0",
        ("ens1", "ens2"),
        1,
    )
    with pytest.raises(NotUnderstoodError, match="PCI address"):
        mst.parse("/dev/mst/mt4129_pciconf0         - PCI configuration cycles access.\n")


QOS = """\
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
{mapping}PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0
tc: 0 ratelimit: 12.0 Gbps, tsa: ets, bw: 40%
\t priority:  1
\t priority:  2
tc: 1 ratelimit: unlimited, tsa: strict
tc: 2 ratelimit: unlimited, tsa: vendor
\t priority:  0
\t priority:  3
\t priority:  4
\t priority:  5
\t priority:  6
\t priority:  7
"""
MAPPING = "".join(
    f"\tprio:{prio} dscp:" + "".join(f"{prio * 8 + low:02d}," for low in range(8)) + "\n"
    for prio in range(8)
)


def test_mlnx_qos_with_ets_and_rate_limits():
    qos = mlnx_qos.parse(QOS.format(mapping=MAPPING))
    assert qos.pfc_enabled[3] is True
    assert qos.priority_of(26) == 3
    first, second, third = qos.traffic_classes
    assert third.priorities == (0, 3, 4, 5, 6, 7)
    assert (first.rate_limit_gbps, first.bandwidth_percent, first.priorities) == (12.0, 40, (1, 2))
    assert (second.algorithm, second.priorities) == ("strict", ())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            MAPPING + "PFC configuration:",
            MAPPING[: len(MAPPING) // 2].rpartition("\tprio")[0] + "x",
        ),
        ("enabled     0   0   0   1   0   0   0   0", "enabled     0   0   0   1"),
        ("\tenabled     0   0   0   1   0   0   0   0\n", ""),
        ("enabled     0   0   0   1", "enabled     0   0   0   2"),
        ("\t priority:  7\n", ""),
        ("state: dscp", "state: dsc"),
        ("12.0 Gbps", "1.2.3 Gbps"),
    ],
)
def test_mlnx_qos_refuses_half_a_part(old, new):
    text = QOS.format(mapping=MAPPING)
    assert old in text
    with pytest.raises(NotUnderstoodError):
        mlnx_qos.parse(text.replace(old, new))


def test_mlnx_qos_map_that_was_cut_off_or_has_gaps():
    text = QOS.format(mapping=MAPPING)
    with pytest.raises(NotUnderstoodError, match="56 of 64"):
        mlnx_qos.parse(text[: text.index("\tprio:7")])
    gaps = mlnx_qos.parse(QOS.format(mapping=MAPPING.replace("26,", "")))
    assert gaps.priority_of(26) is None
    assert gaps.priority_of(25) == 3


def test_mlnx_qos_buffers_of_newer_versions():
    sizes = "Receive buffer size (bytes): 19872,243072,0,0,0,0,0,0,max_buffer_size=2090880"
    qos = mlnx_qos.parse(QOS.format(mapping=MAPPING) + sizes + "\n")
    assert qos.buffer_bytes == (19872, 243072, 0, 0, 0, 0, 0, 0)


def test_dcb_in_text_and_json_say_the_same():
    text = (
        "willing off ets-cap 8 cbs off \ntc-tsa 0:ets 1:strict \ntc-bw 0:50 1:0 \n"
        "prio-tc 0:0 1:1 \nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off \n"
        "default-prio 0 \ndscp-prio AF31:3 48:6 \nbuffer-size 0:20Kb 1:0b \n"
    )
    document = {
        "willing": False,
        "ets_cap": 8,
        "cbs": False,
        "tc_tsa": ["ets", "strict"],
        "tc_bw": [50, 0],
        "prio_tc": [0, 1],
        "prio_pfc": [False, False, False, True, False, False, False, False],
        "default_prio": [0],
        "dscp_prio": [[26, 3, " "], [48, 6, " "]],
        "buffer_size": [20480, 0],
    }
    facts = dcb.parse(text)
    assert facts == dcb.parse(json.dumps(document))
    assert facts.pfc[3] is True
    assert facts.dscp_priority == {26: 3, 48: 6}
    assert facts.buffer_bytes == {0: 20480, 1: 0}


def test_dcb_trust_and_dcbx():
    assert dcb.parse("order: dscp pcp \n").trust == ("dscp", "pcp")
    assert dcb.parse("host ieee \n").dcbx == ("host", "ieee")
    assert dcb.parse('{"host":true,"ieee":true,"cee":false}').dcbx == ("host", "ieee")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "prio-pfc 0:on 1:off\n",
        "prio-pfc 0:on 1\n",
        "prio-tc 0:x\n",
        "Attribute read: Operation not supported\n",
        "{}",
        "[]",
        '{"prio_pfc":[1,2]}',
        '{"dscp_prio":[[26]]}',
    ],
)
def test_dcb_refuses_half_an_attribute(text):
    with pytest.raises(NotUnderstoodError):
        dcb.parse(text)


def test_devlink_shows_firmware_that_waits_for_a_reset():
    info = {
        "driver": "mlx5_core",
        "versions": {
            "fixed": {"fw.psid": "MT_0000000838"},
            "running": {"fw.version": "28.39.3560", "fw": "28.39.3560"},
            "stored": {"fw.version": "28.43.1014", "fw": "28.39.3560"},
        },
    }
    (device,) = devlink.parse(json.dumps({"info": {"pci/0000:4d:00.0": info}})).info
    assert device.pending == {"fw.version": ("28.39.3560", "28.43.1014")}


def test_devlink_health_parameters_and_ports():
    health = {"pci/0": [{"reporter": "fw", "state": "error", "error": 2, "recover": 1}]}
    assert devlink.parse(json.dumps({"health": health})).health[0].errors == 2
    values = [{"cmode": "driverinit", "value": True}]
    param = {"pci/0": [{"name": "enable_roce", "type": "generic", "values": values}]}
    parsed = devlink.parse(json.dumps({"param": param})).parameters
    assert parsed[0].values == {"driverinit": "true"}
    port = {"pci/0/1": {"type": "eth", "netdev": "ens1", "flavour": "physical", "lanes": 4}}
    assert devlink.parse(json.dumps({"port": port})).ports[0].netdev == "ens1"
    assert devlink.parse('{"dev":{"pci/0":{}}}').devices == ("pci/0",)


INFO_TEXT = """\
pci/0000:4d:00.0:
  driver mlx5_core
  serial_number 5a-5b
  versions:
      fixed:
        fw.psid MT_0000000838
      running:
        fw.version 28.39.3560
        fw.undi 14.32.0017 (x)
      stored:
        fw.version 28.43.1014
pci/0000:5d:00.0:
  driver ice
"""
HEALTH_TEXT = """\
pci/0000:4d:00.0:
  reporter fw
    state healthy error 0 recover 0 auto_dump true
  reporter fw_fatal
    state error error 2 recover 1 grace_period 60000 auto_recover true auto_dump true
"""


def test_devlink_text():
    one, two = devlink.parse(INFO_TEXT).info
    assert (one.driver, one.serial_number) == ("mlx5_core", "5a-5b")
    assert one.pending == {"fw.version": ("28.39.3560", "28.43.1014")}
    assert one.running["fw.undi"] == "14.32.0017 (x)"
    assert (two.device, two.driver, two.running) == ("pci/0000:5d:00.0", "ice", {})
    reporters = devlink.parse(HEALTH_TEXT).health
    assert [(one.reporter, one.state, one.errors) for one in reporters] == [
        ("fw", "healthy", 0),
        ("fw_fatal", "error", 2),
    ]
    assert devlink.parse("pci/0000:4d:00.0\npci/0000:5d:00.0\n").devices == (
        "pci/0000:4d:00.0",
        "pci/0000:5d:00.0",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kernel answers: Operation not supported\n", "did not answer: 'kernel answers"),
        (INFO_TEXT.removesuffix("  driver ice\n"), "nothing is said of 'pci/0000:5d:00.0'"),
        (HEALTH_TEXT[: HEALTH_TEXT.rindex("    state")], "has no 'state'"),
        (HEALTH_TEXT[: HEALTH_TEXT.rindex(" recover 1")], "has no 'recover'"),
        (INFO_TEXT + "nonsense\n", "line 14 'nonsense'"),
        ("  driver ice\n", "line 1 'driver ice'"),
    ],
)
def test_devlink_text_that_is_not_whole_is_refused(text, words):
    with pytest.raises(NotUnderstoodError, match=words):
        devlink.parse(text)


@pytest.mark.parametrize(
    "text", ["", "pci/0000:4d:00.0:\n", "{}", '{"health":{"a":[{}]}}', '{"info":[]}', '{"param":1}']
)
def test_devlink_refuses_other_documents(text):
    with pytest.raises(NotUnderstoodError):
        devlink.parse(text)
