"""Modes and offloads of data interfaces: one thing changed at a time, as a person's hand does."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks.registry import Facts
from hfprov.evidence.grep import heading
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.offload_files import OFFLOAD_LINES, switched_off
from hfprov.evidence.unwritable import OFFLOADS
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL = Outcome.PASS, Outcome.WARN, Outcome.FAIL
UNKNOWN, NOT = Outcome.UNKNOWN, Outcome.NOT_APPLICABLE
BASELINE = Baseline("n1", (), {"jumbo_mtu_interfaces": Value(["eth1"], "")})
(LINK,) = LINKS.reads(BASELINE)
V4, V6 = LOCAL_ADDRESSES.reads(BASELINE)
(OFFLOAD,) = OFFLOADS.reads(BASELINE)
FLAGS = ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"]
MAC = "02:00:00:00:00:01"
LOCAL = [{"type": "local", "dst": "10.1.1.11", "dev": "eth1", "table": "local"}]


def link(name="eth1", *flags, **more):
    usual = {"ifname": name, "mtu": 9000, "flags": [*FLAGS, *flags], "link_type": "ether"}
    usual |= {"promiscuity": 0, "gso_max_size": 65536, "tso_max_size": 524280}
    return usual | {"address": MAC, "txqlen": 1000, "qdisc": "mq"} | more


def answer(text, **more):
    return [{"name": "", "status": "ok", "code": 0, "text": text} | more]


def judged(*links, check="nic.modes", told=None, baseline=BASELINE):
    results = {
        LINK.id: answer(json.dumps(links)),
        V4.id: answer(json.dumps(LOCAL)),
        V6.id: answer("[]"),
    }
    seen = Observation.from_json({"results": results | (told or {})})
    found = findings_of(find_check(check), Facts(seen, baseline), baseline)
    return {one.subject: one.outcome for one in found}


def test_as_the_driver_leaves_it():
    assert judged(link()) == {"eth1": PASS}
    assert judged(link(gso_max_size=524280)) == {"eth1": PASS}
    assert judged(link(gso_max_size=16384, tso_max_size=16384)) == {"eth1": PASS}
    assert judged(link(txqlen=1)) == {"eth1": PASS}
    assert judged(link(permaddr=MAC)) == {"eth1": PASS}


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (link("eth1", "PROMISC"), "promiscuous"),
        (link(promiscuity=1), "promiscuous"),
        (link("eth1", "ALLMULTI"), "allmulticast"),
        (link(flags=["UP", "LOWER_UP"]), "multicast"),
        (link(permaddr="02:00:00:00:00:02"), "address"),
        (link(gso_max_size=1500), "gso_max_size"),
        (link(txqlen=1, qdisc="pfifo_fast"), "txqueuelen"),
    ],
)
def test_a_mode_in_which_no_driver_leaves_it(changed, part):
    assert judged(changed) == {f"eth1 {part}": WARN}


@pytest.mark.parametrize(
    "others",
    [
        [link(promiscuity=1, master="bond0"), link("bond0", linkinfo={"info_kind": "bond"})],
        [link(promiscuity=1), link("m0", link="eth1", linkinfo={"info_kind": "macvlan"})],
        [link(permaddr="02:00:00:00:00:02", master="bond0")],
        [link(link_type="infiniband", flags=["UP", "LOWER_UP"], permaddr="80:00:02:08")],
    ],
)
def test_what_the_kernel_needs_for_others_above_it_is_nobodys_hand(others):
    assert judged(*others) == {"eth1": PASS}


def test_address_on_a_port_of_a_switch():
    bridge = link("br0", linkinfo={"info_kind": "bridge"})
    assert judged(link(master="br0", promiscuity=1), bridge) == {"eth1 master": FAIL}
    bond = link("bond0", linkinfo={"info_kind": "bond"})
    assert judged(link(master="bond0"), bond) == {"eth1": PASS}


def test_adapters_below_are_judged_too():
    bond = link("eth1", linkinfo={"info_kind": "bond"})
    member = link("eth4", "ALLMULTI", master="eth1")
    assert judged(bond, member) == {"eth1": PASS, "eth4 allmulticast": WARN}


def test_modes_that_nobody_told_never_pass():
    assert judged(link("eth9")) == {"eth1": UNKNOWN}
    assert judged(link(flags=[])) == {"eth1": UNKNOWN}
    assert judged(link(), told={LINK.id: answer("")}) == {"": UNKNOWN}
    nobody = Baseline("n1", (), {})
    assert judged(link(), baseline=nobody) == {"": NOT}


FEATURES = """\
Features for eth1:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: on
\ttx-checksum-ipv6: off [fixed]
scatter-gather: on
\ttx-scatter-gather: on
\ttx-scatter-gather-fraglist: off [fixed]
tcp-segmentation-offload: on
\ttx-tcp-segmentation: on
\ttx-tcp6-segmentation: on
generic-segmentation-offload: on
generic-receive-offload: on
large-receive-offload: off
rx-vlan-offload: off
receive-hashing: off
"""
OTHER = "Features for lo:\nrx-checksumming: off\n"


MARK = "hfprov-offloads\n"


def offloads(told, *links, **more):
    more = more | ({"text": f"{MARK}{more['text']}"} if "text" in more else {})
    results = {OFFLOAD.id: [answer(f"{MARK}{told}")[0] | more]}
    return judged(*(links or [link()]), check="nic.offloads", told=results)


def test_all_offloads_that_the_driver_has():
    assert offloads(OTHER + FEATURES) == {"eth1": PASS}
    assert offloads(FEATURES) == {"eth1": PASS}
    without = FEATURES.replace("segmentation: on", "segmentation: off [fixed]")
    assert offloads(without) == {"eth1": PASS}
    asked = FEATURES.replace("tx-tcp-segmentation: on", "tx-tcp-segmentation: off [requested on]")
    assert offloads(asked) == {"eth1": PASS}


@pytest.mark.parametrize(
    "name",
    [
        *("rx-checksumming", "tx-checksum-ip-generic", "tx-scatter-gather"),
        *("tx-tcp-segmentation", "tx-tcp6-segmentation"),
        *("generic-segmentation-offload", "generic-receive-offload"),
    ],
)
def test_one_offload_switched_off(name):
    assert offloads(OTHER + FEATURES.replace(f"{name}: on", f"{name}: off")) == {
        f"eth1 {name}": WARN
    }


def test_virtual_interfaces_come_without_putting_packets_together():
    text = FEATURES.replace("generic-receive-offload: on", "generic-receive-offload: off")
    assert offloads(text, link(linkinfo={"info_kind": "veth"})) == {"eth1": PASS}


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        ({"text": "hfprov-no-ethtool\n"}, {"": NOT}),
        ({"status": "absent"}, {"": UNKNOWN}),
        ({"code": 1, "stderr": "Cannot get device feature names: No such device\n"}, {"": NOT}),
        ({"code": 1, "stderr": "Segmentation fault"}, {"": UNKNOWN}),
        ({"code": 1, "stderr": "Broken", "text": FEATURES}, {"": UNKNOWN}),
        ({"status": "timeout"}, {"": UNKNOWN}),
        ({"truncated": True, "text": FEATURES}, {"": UNKNOWN}),
        ({"text": ""}, {"": UNKNOWN}),
        ({"text": "eth1: fine\n"}, {"": UNKNOWN}),
        ({"text": OTHER}, {"eth1": UNKNOWN}),
        ({"text": "Features for eth1:\nrx-vlan-offload: on\n"}, {"eth1": UNKNOWN}),
        ({"text": FEATURES.replace("Features", "Feathers")}, {"": UNKNOWN}),
    ],
)
def test_offloads_that_nobody_told_never_pass(answered, expected):
    assert offloads("", **answered) == expected


def test_interface_that_is_gone_has_no_offloads():
    assert offloads(FEATURES, link("eth9")) == {"eth1": FAIL}


(LINES,) = OFFLOAD_LINES.reads(BASELINE)


def written(text, **more):
    told = {LINES.id: [answer(heading(LINES) + text)[0] | more]}
    return judged(check="nic.offloads.files", told=told)


@pytest.mark.parametrize(
    "line",
    [
        "ExecStart=/usr/sbin/ethtool -K eth1 tso off gro on",
        'ethtool -K "$IFACE" gro on gso off',
        "  post-up ethtool --offload eth1 tx off",
        'RUN+="/sbin/ethtool -K %k tx-checksum-ip-generic off"',
        "TCPSegmentationOffload=no",
        "ReceiveChecksumOffload = false",
        "    offload-tso off",
    ],
)
def test_line_that_switches_offloads_off(line):
    assert written(f"/etc/rc.local\x004:{line}\n") == {"/etc/rc.local:4": WARN}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ethtool -K eth0 tso off",
        "ethtool -K eth1 tso on",
        "ethtool -K eth1 lro off",
        "# ethtool -K eth1 tso off",
        "TCPSegmentationOffload=yes",
        "offload-lro off",
        "ethtool -A eth1 rx off tx off",
    ],
)
def test_line_that_switches_nothing_off(line):
    text = f"/etc/rc.local\x004:{line}\n" if line else ""
    assert written(text) == {"": PASS}


def test_files_that_nobody_reads_switch_nothing_off():
    assert written("/etc/systemd/network/a.link.bak\x004:TCPSegmentationOffload=no\n") == {"": PASS}
    assert switched_off("ethtool -K ${dev} rx off")[0] == ""


@pytest.mark.parametrize("more", [{"status": "timeout"}, {"truncated": True}, {"code": 2}])
def test_files_of_offloads_that_nobody_searched_never_pass(more):
    assert written("", **more) == {"": UNKNOWN}
