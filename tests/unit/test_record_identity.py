"""One machine has one name: what identifies a machine, and what happens when two names meet."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.record.errors import HostIdentityError
from hfprov.record.identity import Identity, meaningful
from hfprov.record.model import HostState
from hfprov.record.store import Record
from hfprov.verdict import Verdict, passed

M1, M2 = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
U1, U2 = "4c4c4544-0042-4310-8052-b8c04f4d4c32", "4C4C4544-0099-4310-8052-B8C04F4D4C32"
OEM = "To be filled by O.E.M."


@pytest.mark.parametrize(
    "value",
    [
        "", "  ", OEM, "to be filled by o.e.m", "None", "Default string", "Not Specified", "N/A",
        "System Serial Number", "0", "00000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "xxxxxxxx",
        "00000000-0000-0000-0000-000000000000", "03000200-0400-0500-0006-000700080009",
        "123456789", ".........", "Default  String", "uninitialized",
    ],
)  # fmt: skip
def test_placeholders_mean_nothing(value):
    assert not meaningful(value)


@pytest.mark.parametrize("value", [M1, U1, U2, "J1234567", "CZJ0012", "1234567890A"])
def test_real_values_mean_something(value):
    assert meaningful(value)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (Identity(M1, U1, "S1"), Identity(M1, U1.upper(), "s1"), True),
        (Identity(M1, U1), Identity(M1), True),
        (Identity(M1), Identity(M1, OEM, OEM), True),
        (Identity("", U1), Identity("", U1), True),
        (Identity(M1, U1), Identity(M2, U1), False),
        (Identity(M1, U1), Identity(M1, U2), False),
        (Identity(M1, "", "S1"), Identity(M1, "", "S2"), False),
        (Identity("", "", "S1"), Identity("", "", "S1"), False),
        (Identity(M1, OEM, OEM), Identity(M2, OEM, OEM), False),
        (Identity("", "0" * 32, OEM), Identity("", "0" * 32, OEM), False),
        (Identity(), Identity(), False),
    ],
)
def test_same_machine(one, two, same):
    assert bool(one.same_machine(two)) is same
    assert bool(two.same_machine(one)) is same


def test_the_digest_is_over_what_means_something():
    assert Identity(M1, U1, OEM).digest == Identity(M1, U1.upper(), "None").digest
    assert Identity(M1, U1, "S1").digest != Identity(M1, U1, "S2").digest
    assert Identity(M1).digest != Identity("", M1).digest
    assert Identity("", OEM, "S1").digest == ""


@pytest.fixture
def record(tmp_path):
    with Record.open(tmp_path / "record.db") as opened:
        yield opened


def see(record, **seen):
    """One run that observes hosts by name, each as a machine."""
    with record.start_run("check", [], {name: Baseline(name, ()) for name in seen}) as log:
        for name, identity in seen.items():
            log.observed(name, "before", b"{}", [Verdict("c", passed())], identity=identity)
        log.finish(0)


def refused(record, name, identity):
    with record.start_run("check", [], {name: Baseline(name, ())}) as log:
        with pytest.raises(HostIdentityError) as caught:
            log.observed(name, "before", b"{}", [Verdict("c", passed())], identity=identity)
        log.finish(3)
    return caught.value


def test_a_machine_under_a_second_name_is_refused_and_the_first_stays(record):
    see(record, a=Identity(M1, U1, "S1"))
    error = refused(record, "b", Identity(M1, U1, "S1"))
    assert (error.host, error.other) == ("b", "a")
    assert "Host 'b' is the same machine as host 'a'" in error.message
    assert record.last_verdicts("b") is None
    assert record.run().host("b").state is HostState.NOT_ATTEMPTED
    (event,) = record.events("b")
    assert (event.kind, event.data) == ("identity_refused", {"same_as": "a"})
    assert {host.name: host.identity.machine_id for host in record.hosts()} == {"a": M1, "b": ""}


def test_refused_within_one_run(record):
    with record.start_run("check", [], {name: Baseline(name, ()) for name in "ab"}) as log:
        log.observed("a", "before", b"{}", [], identity=Identity(M1))
        with pytest.raises(HostIdentityError):
            log.observed("b", "before", b"{}", [], identity=Identity(M1))
        log.finish(3)
    assert log.id == record.run().id


def test_four_blades_with_one_placeholder_serial_are_four_hosts(record):
    see(record, **{f"blade{n}": Identity(f"{n}{M1[1:]}", OEM, OEM) for n in range(4)})
    see(record, **{f"disk{n}": Identity("", "", OEM) for n in range(4)})
    assert len([host for host in record.hosts() if host.last_seen]) == 8


def test_four_blades_with_one_chassis_serial_are_four_hosts(record):
    see(record, **{f"blade{n}": Identity(f"{n}{M1[1:]}", "", "CZJ0012") for n in range(4)})
    assert len({host.identity_digest for host in record.hosts()}) == 4


def test_containers_of_one_machine_are_several_hosts(record):
    see(record, a=Identity(M1, U1), b=Identity(M2, U1))
    assert [event.kind for event in record.events()] == []


def test_a_replaced_machine_is_allowed_with_an_event(record):
    see(record, a=Identity(M1, U1, "S1"))
    see(record, a=Identity(M2, U2, "S2"))
    (event,) = record.events("a")
    assert event.kind == "identity_changed"
    assert event.data["before"]["machine_id"] == M1
    assert event.data["after"]["machine_id"] == M2
    (host,) = record.hosts()
    assert host.identity == Identity(M2, U2.lower(), "S2")
    see(record, b=Identity(M1, U1, "S1"))


def test_what_cannot_be_read_this_time_changes_nothing(record):
    see(record, a=Identity(M1, U1, "S1"))
    see(record, a=Identity(M1))
    see(record, a=None)
    assert list(record.events()) == []
    (host,) = record.hosts()
    assert host.identity == Identity(M1, U1, "S1")
    assert refused(record, "b", Identity("", U1)).other == "a"


def test_a_host_moved_onto_the_machine_of_another_is_refused(record):
    see(record, a=Identity(M1, U1), b=Identity(M2, U2))
    assert refused(record, "b", Identity(M1, U1)).other == "a"
    assert {host.name: host.identity.machine_id for host in record.hosts()} == {"a": M1, "b": M2}


def test_a_forgotten_host_releases_its_machine(record):
    see(record, a=Identity(M1, U1))
    refused(record, "b", Identity(M1, U1))
    record.forget_host("a")
    see(record, b=Identity(M1, U1))
    assert [event.kind for event in record.events("a")] == ["host_forgotten"]
    assert record.last_verdicts("a") is not None
