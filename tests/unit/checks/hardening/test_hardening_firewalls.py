"""Other firewalls: what is on beside the role's table is told, with the networks that it blocks."""

from __future__ import annotations

import pytest

from hfprov.evidence.inbound_rules import (
    Inbound,
    parse_firewalld,
    parse_iptables,
    parse_nft,
    parse_ufw,
    together,
)
from hfprov.verdict import NotApplicable, Outcome

FAIL, UNKNOWN, WARN = Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN
CHECK = "hardening.firewall.rivals"
UNITS = "units of systemd"
NFT = "/etc/nftables.conf"
DEBIAN = """\
#!/usr/sbin/nft -f

flush ruleset

table inet filter {
\tchain input {
\t\ttype filter hook input priority filter;
\t}
\tchain forward {
\t\ttype filter hook forward priority filter; policy drop;
\t}
}
"""
"""As Debian's package brings it; the policy of what is forwarded is ours."""


def switch(node, unit, active="active", state="enabled"):
    """Have a unit that the node has not be there."""
    old = f"Id={unit}\nNames={unit}\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n"
    new = (
        f"Id={unit}\nNames={unit}\nLoadState=loaded\nActiveState={active}\nUnitFileState={state}\n"
    )
    node.replace(UNITS, old, new)


def put(node, path, text):
    node.put(f"file {path}", name=path, status="ok", text=text, mode=0o644, uid=0, gid=0)


@pytest.fixture
def reason(node):
    def of(subject):
        return next(one.reason for one in node.findings(CHECK) if one.subject == subject)

    return of


def test_node_without_another_firewall_passes(node):
    assert node.outcomes(CHECK) == {}


def test_nothing_is_judged_or_read_where_no_firewall_is_declared(node):
    node.values["hardening_firewall"] = False
    assert node.reads_of(CHECK) == []
    (finding,) = node.findings(CHECK)
    assert finding.not_applicable is NotApplicable.NOT_REQUESTED


UFW_RULES = """\
*filter
### RULES ###
### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in
-A ufw-user-input -p tcp --dport 22 -j ACCEPT
### END RULES ###
COMMIT
"""


def test_ufw_goes_by_its_own_switch(node, reason):
    """On Ubuntu its service is enabled, and does nothing until somebody switches it on."""
    node.values["jumbo_mtu_interfaces"] = ["eth1", "eth2"]
    switch(node, "ufw.service")
    put(node, "/etc/ufw/ufw.conf", "ENABLED=no\nLOGLEVEL=low\n")
    put(node, "/etc/default/ufw", 'DEFAULT_INPUT_POLICY="DROP"\n')
    put(node, "/etc/ufw/user.rules", UFW_RULES)
    assert node.outcomes(CHECK) == {}
    put(node, "/etc/ufw/ufw.conf", "ENABLED=yes\n")
    assert node.outcomes(CHECK) == {"ufw.service": FAIL}
    assert "management interface 'eth0' and the data interface 'eth1' and 'eth2'" in reason(
        "ufw.service"
    )
    rule = "### tuple ### allow any any 0.0.0.0/0 any 0.0.0.0/0 in_eth1\n"
    put(node, "/etc/ufw/user.rules", UFW_RULES + rule)
    assert "'eth1'" not in reason("ufw.service")
    put(node, "/etc/default/ufw", 'DEFAULT_INPUT_POLICY="ACCEPT"\n')
    assert node.outcomes(CHECK) == {"ufw.service": FAIL}
    assert "beside the role's table" in reason("ufw.service")


def test_ufw_that_was_removed_left_its_files(node):
    put(node, "/etc/ufw/ufw.conf", "ENABLED=yes\n")
    assert node.outcomes(CHECK) == {}


@pytest.mark.parametrize(
    ("active", "state", "bad"),
    [
        ("active", "enabled", True),
        ("inactive", "enabled", True),
        ("active", "disabled", True),
        ("inactive", "disabled", False),
        ("inactive", "masked", False),
    ],
)
def test_firewalld(node, reason, active, state, bad):
    switch(node, "firewalld.service", active, state)
    assert node.outcomes(CHECK) == ({"firewalld.service": FAIL} if bad else {})
    if bad:
        assert "management interface 'eth0'" in reason("firewalld.service")


def test_saved_rules_are_a_rival_where_they_drop(node):
    switch(node, "netfilter-persistent.service", "active", "enabled")
    assert node.outcomes(CHECK) == {}
    put(node, "/etc/iptables/rules.v4", "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n")
    assert node.outcomes(CHECK) == {}
    put(node, "/etc/iptables/rules.v6", "*filter\n:INPUT DROP [0:0]\nCOMMIT\n")
    assert node.outcomes(CHECK) == {"netfilter-persistent.service": FAIL}


def test_service_of_nftables(node, reason):
    put(node, NFT, DEBIAN)
    assert node.outcomes(CHECK) == {}, "nobody loads it"
    switch(node, "nftables.service")
    assert node.outcomes(CHECK) == {f"nftables.service {NFT}": WARN}
    put(node, NFT, DEBIAN.replace("flush ruleset", "# flush ruleset"))
    assert node.outcomes(CHECK) == {}
    put(node, NFT, DEBIAN.replace("flush ruleset", "flush ruleset # begin anew"))
    assert node.outcomes(CHECK) == {f"nftables.service {NFT}": WARN}
    put(node, NFT, DEBIAN.replace("priority filter;\n", "priority filter; policy drop;\n"))
    assert node.outcomes(CHECK) == {"nftables.service": FAIL, f"nftables.service {NFT}": WARN}
    assert "management interface 'eth0'" in reason("nftables.service")


def test_what_nftables_includes(node):
    switch(node, "nftables.service")
    included = 'include "/etc/nftables.d/*.nft"\n'
    put(node, NFT, included)
    assert node.outcomes(CHECK) == {}
    node.add("glob /etc/nftables.d/*", "/etc/nftables.d/notes.txt", "flush ruleset\n")
    assert node.outcomes(CHECK) == {}
    node.add("glob /etc/nftables.d/*", "/etc/nftables.d/a.nft", "flush ruleset\n")
    assert node.outcomes(CHECK) == {f"nftables.service {NFT}": WARN}
    put(node, NFT, 'include "/srv/rules/*.nft"\n')
    assert node.outcomes(CHECK) == {"nftables.service /srv/rules/*.nft": UNKNOWN}


@pytest.mark.parametrize(
    ("text", "eth0", "eth1"),
    [
        ("", False, False),
        ("*filter\n:INPUT DROP [0:0]\n", True, True),
        ("*mangle\n:INPUT DROP [0:0]\n", False, False),
        ("*filter\n:INPUT DROP [0:0]\n-A INPUT -i eth1 -j ACCEPT\n", True, False),
        ("*filter\n-A INPUT -j REJECT --reject-with icmp-host-prohibited\n", True, True),
        ('*filter\n-A INPUT -m comment --comment "no \\" data" -j DROP\n', True, True),
        ("*filter\n-A INPUT -i eth+ -j DROP\n", True, True),
        ("*filter\n-A INPUT -m conntrack --ctstate INVALID -j DROP\n", False, False),
        ("*filter\n-A INPUT -i eth1 -p tcp -m tcp --dport 111 -j DROP\n", False, False),
        ("*filter\n-A FORWARD -j DROP\n-A OUTPUT -j DROP\n", False, False),
        ("*filter\n-A INPUT -i eth1 -j DATA\n-A DATA -j DROP\n", False, True),
        ("*filter\n-A INPUT -j A\n-A A -j B\n-A B -j A\n-A B -g C\n-A C -j DROP\n", True, True),
        ("*filter\n-A NEVER -j DROP\n", False, False),
    ],
)
def test_rules_of_iptables(text, eth0, eth1):
    found = parse_iptables(text)
    assert (found.blocks("eth0"), found.blocks("eth1")) == (eth0, eth1)


INPUT = "table inet f {{ chain i {{ type filter hook input priority 0; {} }} {} }}"


@pytest.mark.parametrize(
    ("policy", "more", "eth0", "eth1"),
    [
        ("", "", False, False),
        ("policy accept;", "", False, False),
        ("policy drop;", "", True, True),
        ("policy drop; iifname { lo, eth1 } accept", "", True, False),
        ('policy drop; iif "eth1" counter accept', "", True, False),
        ("ct state invalid drop", "", False, False),
        ("tcp dport { 22, 80 } accept; counter packets 1 bytes 2 drop", "", True, True),
        ('log prefix "x" drop', "", True, True),
        ("reject with icmpx type admin-prohibited", "", True, True),
        ('iifname "eth1" jump data', "chain data { drop }", False, True),
        ("", "chain data { drop }", False, False),
        ("", "chain f { type filter hook forward priority 0; policy drop; }", False, False),
    ],
)
def test_chains_of_nft(policy, more, eth0, eth1):
    found = parse_nft(INPUT.format(policy, more))
    assert (found.blocks("eth0"), found.blocks("eth1")) == (eth0, eth1)


def test_zones_of_firewalld():
    trusted = "<?xml version='1.0'?><zone target=\"ACCEPT\"><interface name='eth1'/></zone>"
    other = '<zone><interface name="eth2"/><!-- <interface name="eth3"/> --></zone>'
    assert parse_firewalld("", {}) == Inbound(drops=True)
    assert parse_firewalld("DefaultZone=trusted\n", {}) == Inbound(drops=False)
    assert parse_firewalld("DefaultZone=data\n", {"data": trusted, "x": other}) == Inbound(
        drops=False, dropped=("eth2",), allowed=("eth1",)
    )


def test_rules_of_ufw():
    lines = (
        "### tuple ### deny any any 0.0.0.0/0 any 0.0.0.0/0 in_eth1\n"
        "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 OpenSSH - in_eth2\n"
        "### tuple ### allow any any ::/0 any ::/0 out_eth3\n"
        "### tuple ### allow\n"
    )
    assert parse_ufw("DEFAULT_INPUT_POLICY=ACCEPT\n", lines) == Inbound(dropped=("eth1",))
    assert parse_ufw("", "").drops, "ufw's own default"


def test_what_one_lets_in_another_may_drop():
    one, other = Inbound(drops=True, allowed=("eth1",)), Inbound()
    assert not together([one]).blocks("eth1")
    assert together([one, other]).blocks("eth1")


NOISE = (
    "\x1b[31m" + "{" * 3000 + "}" * 10 + "\0\n" + '-A INPUT -m comment --comment "' + "\\" * 5000
)
NESTED = "table x {\n" * 2000 + "chain a {\n" * 2000 + "iifname {" * 2000


@pytest.mark.parametrize(
    "text", [NOISE, NESTED, "*filter\n" + "-A INPUT -j A\n" * 5000, "x" + " {}" * 60_000, "\0"]
)
def test_hostile_text_is_read_and_says_nothing(text):
    for found in (
        parse_iptables(text),
        parse_nft(text),
        parse_firewalld(text, {"x": text}),
        parse_ufw("DEFAULT_INPUT_POLICY=ACCEPT\n" + text, text),
    ):
        assert not found.dropped


HOSTILE = [{"status": "timeout", "text": ""}, {"status": "denied", "text": ""}, {"truncated": True}]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda change: next(iter(change)))
def test_without_whole_evidence_nothing_passes(node, hostile):
    switch(node, "nftables.service")
    put(node, NFT, 'include "/etc/nftables.d/*.nft"\n')
    put(node, "/etc/ufw/ufw.conf", "ENABLED=yes\n")
    for path in ("/etc/default/ufw", "/etc/ufw/user.rules", "/etc/iptables/rules.v4"):
        put(node, path, "")
    for name in node.reads_of(CHECK):
        spoilt = type(node)(node.results)
        for result in spoilt.results[name]:
            if result["status"] != "absent":
                result.update(hostile)
        all_absent = {one["status"] for one in spoilt.results[name]} == {"absent"}
        assert all_absent or UNKNOWN in spoilt.outcomes(CHECK).values(), name
