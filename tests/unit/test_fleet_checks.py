"""The odd host is found among its kind, and nobody is called odd without a majority."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hfprov.evidence.accelerators.model import Accelerator, Vendor
from hfprov.fleet_checks import Sample, accelerator_samples, odd_ones


def fleet(*versions: str, kind: str = "10de:2330") -> list[Sample]:
    return [Sample(f"n{n}", kind, {"vbios": one}) for n, one in enumerate(versions)]


def test_the_host_with_old_firmware_is_named_with_what_the_others_have():
    [odd] = odd_ones(fleet("96.01", "96.01", "96.00", "96.01")).odd
    assert (odd.host, odd.value, odd.usual, odd.with_usual, odd.of) == (
        "n2",
        "96.00",
        "96.01",
        3,
        4,
    )


def test_a_device_without_the_value_that_others_have_is_odd():
    samples = [*fleet("1", "1", "1"), Sample("n9", "10de:2330", {})]
    [odd] = odd_ones(samples).odd
    assert (odd.host, odd.value) == ("n9", "missing")


def test_one_odd_card_in_an_otherwise_usual_host_is_named_by_its_address():
    samples = [*fleet("1", "1", "1"), Sample("n1", "10de:2330", {"vbios": "0"}, "0000:19:00.0")]
    [odd] = odd_ones(samples).odd
    assert (odd.host, odd.device, odd.with_usual) == ("n1", "0000:19:00.0", 2)


def test_a_divided_fleet_has_no_odd_host():
    found = odd_ones(fleet("1", "1", "2", "2"))
    assert (found.odd, found.divided) == ((), ("10de:2330: vbios",))


def test_two_hosts_or_two_kinds_are_not_compared():
    assert odd_ones(fleet("1", "2")).compared == 0
    mixed = [*fleet("1", "1"), *fleet("2", "2", kind="10de:2335")]
    assert odd_ones(mixed).compared == 0
    assert odd_ones([]).compared == 0


def test_the_result_is_json():
    document = odd_ones(fleet("1", "1", "2")).document()
    assert json.loads(json.dumps(document)) == document
    assert document["odd"][0]["host"] == "n2"


@given(st.permutations(fleet("1", "1", "1", "2", "3")))
def test_the_order_of_hosts_does_not_matter(samples):
    assert [one.host for one in odd_ones(samples).odd] == ["n3", "n4"]


def test_accelerators_become_samples():
    device = Accelerator(
        Vendor.NVIDIA,
        "0000:19:00.0",
        pci_id="10de:2330",
        driver_version="580.95.05",
        firmware={"vbios": "96.00"},
    )
    [sample] = accelerator_samples("n1", [device])
    assert sample == Sample(
        "n1", "10de:2330", {"vbios": "96.00", "driver": "580.95.05"}, "0000:19:00.0"
    )
