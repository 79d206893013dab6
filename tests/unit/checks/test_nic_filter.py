"""What packet filters do with the packets of a data interface, as nft and iptables list them."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks.registry import Facts
from hfprov.errors import NoEvidenceError
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.nftables import LIVE_RULES, parse_rules
from hfprov.evidence.packet_filter import NFT, PACKET_FILTER
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
BASELINE = Baseline("n1", (), {"jumbo_mtu_interfaces": Value(["eth1"], "")})
(LINK,) = LINKS.reads(BASELINE)
V4, V6 = LOCAL_ADDRESSES.reads(BASELINE)
_, LEGACY = PACKET_FILTER.reads(BASELINE)
ROUTES = [
    {"type": "local", "dst": "10.1.1.11", "dev": "eth1", "table": "local"},
    {"type": "broadcast", "dst": "10.1.1.255", "dev": "eth1", "table": "local"},
]
ABSENT = {"name": "", "status": "absent"}
OURS = """table inet hfprov_management {
\tchain input {
\t\ttype filter hook input priority filter; policy drop;
\t\tiifname "eth1" drop
\t}
}
"""


def told(text, **more):
    return {"name": "", "status": "ok", "code": 0, "text": text} | more


def chain(*rules, hook="input", policy="accept", family="inet", device=""):
    head = f"type filter hook {hook}{device} priority filter; policy {policy};"
    body = "\n\t\t".join([head, *rules])
    return f"table {family} x {{\n\tchain c {{\n\t\t{body}\n\t}}\n}}\n"


def seen(tables="", *, nft=None, legacy=None, links=()):
    text = f"table inet x {{\n}}\nhfprov-tables\n{tables}"
    link = {"ifname": "eth1", "mtu": 9000, "flags": ["UP", "LOWER_UP"], "link_type": "ether"}
    results = {
        LINK.id: [told(json.dumps([link, *links]))],
        V4.id: [told(json.dumps(ROUTES))],
        V6.id: [told("[]")],
        NFT.id: [told(text) if nft is None else nft],
        LEGACY.id: [ABSENT if legacy is None else legacy],
    }
    return Observation.from_json({"results": results})


def judged(*given, **more):
    observation = given[0] if given and isinstance(given[0], Observation) else seen(*given, **more)
    found = findings_of(find_check("nic.filter"), Facts(observation, BASELINE), BASELINE)
    return {one.subject: one.outcome for one in found}


GOOD = {"eth1": PASS}
BAD = {"eth1 inet x c": FAIL}


def test_no_rules_at_all():
    assert judged() == GOOD
    assert judged(nft=ABSENT) == GOOD
    assert judged(OURS) == GOOD


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ("drop", FAIL),
        ("counter packets 3 bytes 99 drop", FAIL),
        ("reject with icmpx admin-prohibited", FAIL),
        ('log prefix "in: a drop " level info counter drop comment "by me"', FAIL),
        ('iifname "eth1" drop', FAIL),
        ('iif "eth1" reject', FAIL),
        ('iifname { "eth7", "eth1" } drop', FAIL),
        ('iifname "eth*" drop', FAIL),
        ('iifname != "eth0" drop', FAIL),
        ('iifname != "eth0" iifname != "lo" drop', FAIL),
        ('iifname != { "eth0", "lo" } drop', FAIL),
        ("ip saddr 10.1.1.0/24 drop", FAIL),
        ("ip saddr 10.1.1.12 counter drop", FAIL),
        ("ip saddr { 10.1.1.12, 192.0.2.1 } drop", FAIL),
        ("ip saddr != 10.1.0.0/24 drop", FAIL),
        ("ip daddr 10.1.1.11 drop", FAIL),
        ('iifname "eth1" tcp dport 18515 drop', WARN),
        ('iifname "eth1" meta random & 2147483647 < 214748365 counter drop', WARN),
        ("ip saddr 10.1.1.0/24 ct state new drop", WARN),
        ('iifname "eth0" drop', None),
        ('iifname != "eth1" drop', None),
        ('iifname != "eth1" iifname != "lo" drop', None),
        ('iifname != { "eth0", "eth1" } drop', None),
        ("ip saddr 192.0.2.0/24 drop", None),
        ("ip saddr != 10.0.0.0/8 drop", None),
        ("ip saddr @banned drop", None),
        ("ip daddr 127.0.0.0/8 drop", None),
        ("tcp dport 22 drop", None),
        ("ct state invalid drop", None),
        ('iifname "eth1" ct state invalid drop', None),
        ('iifname "eth0" oifname "eth1" drop', None),
        ("counter", None),
        ('log prefix "seen drop"', None),
        ("meta mark set 0x00000001", None),
        ("return", None),
    ],
)
def test_one_rule_for_what_comes_in(rule, outcome):
    assert judged(chain(rule)) == ({"eth1 inet x c": outcome} if outcome else GOOD)


@pytest.mark.parametrize(
    ("rules", "outcome"),
    [
        ([], FAIL),
        (['iifname "eth0" accept'], FAIL),
        (["ct state established,related accept"], FAIL),
        (['iifname "eth1" tcp dport 22 accept'], FAIL),
        (["ip saddr 10.1.1.12 accept"], FAIL),
        (['iifname "eth1" accept'], None),
        (["ip saddr 10.0.0.0/8 accept"], None),
        (["ip daddr 10.1.1.11 accept"], None),
        (["accept"], None),
        (['iifname "eth1" accept', "drop"], None),
        (['iifname "eth0" accept', "drop"], FAIL),
        (["return", 'iifname "eth1" accept'], FAIL),
    ],
)
def test_a_policy_that_drops_what_is_not_let_in(rules, outcome):
    assert judged(chain(*rules, policy="drop")) == ({"eth1 inet x c": outcome} if outcome else GOOD)


@pytest.mark.parametrize(
    ("hook", "rule", "is_right"),
    [
        ("output", 'oifname "eth1" drop', False),
        ("output", "ip daddr 10.1.1.12 drop", False),
        ("output", "ip saddr 10.1.1.11 drop", False),
        ("postrouting", "drop", False),
        ("prerouting", 'iifname "eth1" drop', False),
        ("output", 'oifname "eth0" drop', True),
        ("output", "ip saddr 10.1.1.12 drop", True),
        ("output", 'iifname "eth1" drop', True),
        ("forward", "drop", True),
    ],
)
def test_other_hooks(hook, rule, is_right):
    assert judged(chain(rule, hook=hook)) == (GOOD if is_right else BAD)


def test_families_and_devices():
    assert judged(chain("drop", family="ip")) == {"eth1 ip x c": FAIL}
    assert judged(chain("drop", family="ip6")) == GOOD
    assert judged(chain("drop", family="bridge")) == GOOD
    for device, outcome in (("eth1", FAIL), ("eth0", PASS)):
        text = chain(
            "tcp dport 1 drop",
            "drop",
            hook="ingress",
            family="netdev",
            device=f' device "{device}"',
        )
        assert set(judged(text).values()) == {outcome}


JUMPS = """table inet x {
\tchain c {
\t\ttype filter hook input priority filter; policy accept;
\t\t%s
\t}

\tchain inner {
\t\t%s
\t}
}
"""


@pytest.mark.parametrize(
    ("rule", "inner", "outcome"),
    [
        ("jump inner", "drop", FAIL),
        ("goto inner", 'iifname "eth1" drop', FAIL),
        ('iifname "eth1" jump inner', "drop", FAIL),
        ('iifname "eth1" jump inner', "tcp dport 9 drop", WARN),
        ("tcp dport 9 jump inner", 'iifname "eth1" drop', WARN),
        ("tcp dport 9 jump inner", "drop", None),
        ('iifname "eth0" jump inner', "drop", None),
        ("jump inner", "accept\n\t\tdrop", None),
        ("jump inner\n\t\tdrop", "accept", None),
        ("tcp dport 9 jump inner\n\t\tdrop", "accept", FAIL),
        ("jump inner\n\t\tdrop", "return", FAIL),
        ("goto inner\n\t\tdrop", "return", None),
        ("jump nowhere", "drop", None),
    ],
)
def test_chains_that_others_jump_to(rule, inner, outcome):
    assert judged(JUMPS % (rule, inner)) == ({"eth1 inet x c": outcome} if outcome else GOOD)


def test_jumps_that_never_end_are_unknown():
    assert judged(JUMPS % ("jump inner", "jump inner")) == {"": UNKNOWN}
    many = "\n\t\t".join(["tcp dport 1 jump c0"] * 200)
    chains = "".join(
        f"\tchain c{n} {{\n" + f"\t\ttcp dport 1 jump c{n + 1}\n" * 200 + "\t}\n" for n in range(9)
    )
    assert judged(chain(many).removesuffix("}\n") + chains + "}\n") == {"": UNKNOWN}


def test_an_interface_that_carries_it_counts_as_well():
    links = [{"ifname": "vlan5", "mtu": 9000, "link": "eth1", "linkinfo": {"info_kind": "vlan"}}]
    assert judged(chain('iifname "vlan5" drop'), links=links) == BAD


UFW = """table ip filter {
\tchain before {
\t\tiifname "lo" counter accept
\t\tct state related,established counter accept
\t\tct state invalid counter drop
\t\tmeta l4proto icmp icmp type echo-request counter accept
\t\tcounter jump not-local
\t\tcounter jump user
\t}

\tchain not-local {
\t\tfib daddr type local counter return
\t\tfib daddr type multicast counter return
\t\tcounter drop
\t}

\tchain user {
\t\tiifname "eth1" counter accept
\t}

\tchain after {
\t\tudp dport 137 counter jump skip
\t\tfib daddr type broadcast counter jump skip
\t}

\tchain skip {
\t\tcounter drop
\t}

\tchain INPUT {
\t\ttype filter hook input priority filter; policy drop;
\t\tcounter jump before
\t\tcounter jump after
\t}
}
"""
"""As ufw's rules are listed by nft; shortened."""


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        ("", "", None),
        ("fib daddr type local", 'xt match "addrtype"', None),
        ("fib daddr type local", "fib daddr type unicast", FAIL),
        ('iifname "eth1"', 'iifname "eth0"', FAIL),
    ],
)
def test_rules_of_ufw(old, new, outcome):
    expected = {"eth1 ip filter INPUT": outcome} if outcome else GOOD
    assert judged(UFW.replace(old, new)) == expected


SAVED = "# x\n*filter\n:INPUT {policy} [1:2]\n:OUTPUT ACCEPT [0:0]\n:F - [0:0]\n{rules}COMMIT\n"


@pytest.mark.parametrize(
    ("rules", "policy", "outcome"),
    [
        ("", "ACCEPT", None),
        ("", "DROP", FAIL),
        ("-A INPUT -i eth1 -j ACCEPT\n", "DROP", None),
        ("-A INPUT -i eth1 -j DROP\n", "ACCEPT", FAIL),
        ("[3:4] -A INPUT -i eth+ -j REJECT --reject-with icmp-port-unreachable\n", "ACCEPT", FAIL),
        ("-A INPUT ! -i eth0 -j DROP\n", "ACCEPT", FAIL),
        ("-A INPUT -s 10.1.1.12/32 -j DROP\n", "ACCEPT", FAIL),
        ('-A INPUT -i eth1 -m comment --comment "a \\" b" -j DROP\n', "ACCEPT", FAIL),
        ("-A INPUT -i eth1 -p tcp -m tcp --dport 9 -j DROP\n", "ACCEPT", WARN),
        ("-A INPUT -j F\n-A F -i eth1 -j DROP\n", "ACCEPT", FAIL),
        ("-A INPUT -g F\n-A INPUT -j DROP\n-A F -j RETURN\n", "ACCEPT", None),
        (
            "-A INPUT -j F\n-A F -m addrtype --dst-type LOCAL -j RETURN\n-A F -j DROP\n",
            "ACCEPT",
            None,
        ),
        ("-A INPUT -j LOG --log-prefix x\n", "ACCEPT", None),
        ("-A INPUT -p tcp -m tcp --dport 22 -j DROP\n", "ACCEPT", None),
        ("-A INPUT -m conntrack --ctstate INVALID -i eth1 -j DROP\n", "ACCEPT", None),
        ("-A F -j DROP\n", "ACCEPT", None),
    ],
)
@pytest.mark.parametrize("without_nft", [False, True])
def test_rules_of_iptables(rules, policy, outcome, without_nft):
    text = SAVED.format(policy=policy, rules=rules)
    given = {"nft": told(f"hfprov-tables\n{text}")} if without_nft else {"legacy": told(text)}
    expected = {"eth1 iptables filter INPUT": outcome} if outcome else GOOD
    assert judged(**given) == expected


@pytest.mark.parametrize(
    "answer",
    [
        {"name": "", "status": "timeout"},
        {"name": "", "status": "denied"},
        told("", code=1, stderr="Operation not permitted"),
        told("", code=127),
        told("table inet x {\n", truncated=True),
    ],
)
@pytest.mark.parametrize("which", ["nft", "legacy"])
def test_what_was_not_seen_never_passes(which, answer):
    assert judged(**{which: answer}) == {"": UNKNOWN}
    assert judged(nft=told("")) == {"": UNKNOWN}


def test_hostile_rules_end():
    assert judged(chain("ip saddr { " * 200, '"' * 999, "meta \x1b]0;x\x07 drop")) == GOOD
    assert judged("}\n}\ntable\nchain {\n" + "x" * 5000) == GOOD


# The table of the management interface comes with the others


def live(observation):
    return LIVE_RULES.parse(observation, BASELINE)


def test_the_roles_table_is_taken_out_of_all():
    assert live(seen(chain("drop") + OURS + chain("accept"))) == parse_rules(OURS)
    assert live(seen(chain("drop"))) is None
    assert live(seen(nft=ABSENT)) is None


def test_evidence_of_before_the_others_were_listed_is_still_read():
    old = "run nft --stateless list table inet hfprov_management"
    observation = Observation.from_json({"results": {old: [told(OURS)]}})
    assert live(observation) == parse_rules(OURS)
    found = findings_of(find_check("nic.filter"), Facts(observation, BASELINE), BASELINE)
    assert [one.outcome for one in found] == [UNKNOWN]
    gone = told("", code=1, stderr="Error: No such file or directory")
    for answer in (gone, ABSENT):
        assert live(Observation.from_json({"results": {old: [answer]}})) is None
    for answer in (told("", code=1, stderr="denied"), told(OURS, truncated=True)):
        with pytest.raises(NoEvidenceError):
            live(Observation.from_json({"results": {old: [answer]}}))


def test_an_interface_that_is_not_there_does_not_pass():
    declared = Baseline("n1", (), {"jumbo_mtu_interfaces": Value(["eth1", "eth9"], "")})
    found = findings_of(find_check("nic.filter"), Facts(seen(), declared), declared)
    assert {one.subject: one.outcome for one in found} == {"eth1": PASS, "eth9": UNKNOWN}
