"""Which addresses are tested against which."""

from __future__ import annotations

from hfprov.evidence.ip_link import Address, Interface, Interfaces
from hfprov.pairs.ends import endpoints, rails
from hfprov.path_mtu.paths import PARTNERS, paths


def link(name, *addresses, mtu=9000):
    found = tuple(Address("inet6" if ":" in one else "inet", *one.split("/")) for one in addresses)
    found = tuple(Address(one.family, one.address, int(one.prefix_length)) for one in found)
    return Interface(name, mtu_bytes=mtu, addresses=found)


def ends_of(host, *links, wanted=9000):
    return endpoints(host, [one.name for one in links], wanted, Interfaces(links))[0]


def test_link_local_and_second_addresses_are_no_ends():
    addresses = ("10.1.0.1/24", "10.1.0.2/24", "fe80::1/64", "fd00::1/64", "127.0.0.1/8")
    found = ends_of("a", link("eth1", *addresses))
    assert [end.address for end in found] == ["10.1.0.1", "fd00::1"]
    assert [end.family for end in found] == [4, 6]


def test_an_interface_without_an_address_and_one_that_is_not_there_are_said():
    found, without = endpoints("a", ["eth1", "eth2"], 9000, Interfaces((link("eth1"),)))
    assert found == []
    assert "no address" in without["eth1"]
    assert "no interface" in without["eth2"]


def test_ends_of_one_network_make_a_rail_whatever_their_interface_is_called():
    ends = [*ends_of("a", link("eth1", "10.1.0.1/24")), *ends_of("b", link("ens2", "10.1.0.2/24"))]
    [rail], alone = rails(ends)
    assert rail.name == "10.1.0.0/24"
    assert [end.host for end in rail.ends] == ["a", "b"]
    assert alone == []


def test_where_each_node_has_a_network_of_its_own_the_interface_makes_the_rail():
    ends = [
        end
        for number, host in enumerate("abc")
        for end in ends_of(
            host, link("eth1", f"10.1.{number}.1/31"), link("eth2", f"10.2.{number}.1/31")
        )
    ]
    found, alone = rails(ends)
    assert [(rail.name, len(rail.ends)) for rail in found] == [("eth1 IPv4", 3), ("eth2 IPv4", 3)]
    assert alone == []


def test_two_interfaces_of_a_host_in_one_network_are_two_rails():
    ends = [
        end
        for number, host in enumerate("ab")
        for end in ends_of(
            host, link("eth1", f"10.1.0.{number + 1}/24"), link("eth2", f"10.1.0.{number + 11}/24")
        )
    ]
    found, alone = rails(ends)
    assert sorted(end.interface for rail in found for end in rail.ends) == [
        *("eth1", "eth1", "eth2", "eth2")
    ]
    assert alone == []


def test_an_end_without_others_is_said():
    ends = [*ends_of("a", link("eth1", "10.1.0.1/24")), *ends_of("b", link("eth2", "10.2.0.1/24"))]
    found, alone = rails(ends)
    assert found == []
    assert [end.host for end in alone] == ["a", "b"]


def test_every_pair_is_tested_both_ways_at_what_both_promise():
    ends = [
        *ends_of("a", link("eth1", "10.1.0.1/24")),
        *ends_of("b", link("eth1", "10.1.0.2/24"), wanted=4200),
        *ends_of("c", link("eth1", "10.1.0.3/24")),
    ]
    [rail], _ = rails(ends)
    found = {(one.source.host, one.target.host): one.bytes for one in paths(rail)}
    assert found == {
        ("a", "b"): 4200,
        ("b", "a"): 4200,
        ("b", "c"): 4200,
        ("c", "b"): 4200,
        ("a", "c"): 9000,
        ("c", "a"): 9000,
    }


def test_in_a_fleet_everybody_has_some_partners_and_not_all():
    ends = [
        end
        for number in range(200)
        for end in ends_of(
            f"n{number}", link("eth1", f"10.1.{number // 250}.{number % 250 + 1}/16")
        )
    ]
    [rail], _ = rails(ends)
    found = paths(rail)
    assert len(found) == 200 * PARTNERS
