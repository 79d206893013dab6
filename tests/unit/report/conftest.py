"""A record as real runs leave it: a rack that is good, then one host that drifts, and worse."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.record.identity import Identity
from hfprov.record.model import Certificate, Change, HostState
from hfprov.record.store import Record
from hfprov.report.content import Content
from hfprov.verdict import NotApplicable, Verdict, failed, not_applicable, passed, unknown, warned

MEMLOCK = "soft 8192 KiB, hard 8192 KiB"
GOOD = (
    ("node.identity", "", "machine-id", "a machine id of its own"),
    ("node.os", "", "debian 12", "debian 12, ubuntu 22.04, ubuntu 24.04, rocky 9"),
    ("node.units", "", "running", "running"),
    ("node.filesystems", "/", "41 % used", "writable, at most 85 % used"),
    ("limits.session", "memlock", MEMLOCK, MEMLOCK),
    ("limits.session", "nofile", "soft 20000, hard 20000", "soft 20000, hard 20000"),
    ("limits.units", "ssh.service memlock", MEMLOCK, MEMLOCK),
    ("limits.running", "ssh.service memlock", MEMLOCK, MEMLOCK),
    ("mtu.live", "eth1", "9000", "9000"),
    ("mtu.persistent", "eth1", "9000 by 90-hfprov-mtu.conf:3", "9000 after a reboot"),
    ("mtu.rivals", "eth1", "none", "no rival"),
    ("time.daemon", "chrony.service ActiveState", "active", "active"),
    ("time.sources", "10.155.0.2", "reachable", "reachable"),
    ("time.offset", "", "0.000004 s", "at most 0.01 s"),
)


def baselines(names):
    values = {
        "limits_memlock": Value("8192", "inventories/rack/group_vars/all.yml:4"),
        "jumbo_mtu_interfaces": Value(["eth1"], "inventories/rack/group_vars/all.yml:9"),
    }
    roles = ("time_sync", "limits", "jumbo_mtu")
    return {name: Baseline(name, roles, values) for name in names}


def good():
    """The verdicts of a host that is as declared."""
    found = [
        Verdict(check, passed(subject, observed=o, expected=e)) for check, subject, o, e in GOOD
    ]
    reason = "The CPUs belong to the container's host."
    return [*found, Verdict("node.cpus", not_applicable(NotApplicable.CONTAINER, reason))]


def drifted():
    """The verdicts of a host whose MTU and memory limit were set by hand."""
    low = "soft 64 KiB, hard 64 KiB"
    reasons = {
        "limits.session": (low, "A new login does not get the declared limit."),
        "limits.running": (low, "It was started with other limits, and keeps them until it ends."),
        "mtu.live": ("1500", "Large frames are dropped or split."),
    }
    return [
        Verdict(
            one.check,
            failed(
                one.subject,
                observed=reasons[one.check][0],
                expected=one.finding.expected,
                reason=reasons[one.check][1],
            ),
        )
        if one.check in reasons and one.subject != "nofile"
        else one
        for one in good()
    ]


def warm():
    """The verdicts of a host that is good enough, with a warning."""
    full = warned(
        "/",
        observed="83 % used",
        expected="writable, at most 85 % used",
        reason="It is nearly full.",
    )
    return [
        Verdict("node.filesystems", full) if one.check == "node.filesystems" else one
        for one in good()
    ]


def unseen(reason):
    return [
        Verdict(check, unknown(reason=reason)) for check in dict.fromkeys(row[0] for row in GOOD)
    ]


def machine(number):
    machine_id = hashlib.sha256(str(number).encode()).hexdigest()[:32]
    return Identity(machine_id, "", f"S{number:07d}")


def certificate(host, name, *, hours=24, signature="sig"):
    now = datetime.now(UTC)
    return Certificate(
        id=name,
        host=host,
        profile="quick",
        issued_at=now - timedelta(hours=1),
        expires_at=now + timedelta(hours=hours),
        baseline_digest="ab" * 32,
        document="{}",
        signature=signature,
    )


def write_rack(record, names, *, provision=True):
    """Two runs: all are provisioned and good; then a nightly drift finds what became of them."""
    if provision:
        with record.start_run(
            "provision", ["hfprov", "provision", "-i", "rack"], baselines(names)
        ) as log:
            for number, name in enumerate(names):
                log.observed(name, "before", b"{}", drifted(), identity=machine(number + 1))
                log.state(name, HostState.CONVERGING)
                log.change(
                    name,
                    Change(
                        "limits", "Write the limits of logins", "template", "changed", "-64\n+8192"
                    ),
                )
                log.change(
                    name,
                    Change("jumbo_mtu", "Set the MTU of running interfaces", "command", "changed"),
                )
                log.observed(name, "after", b"{}", good(), state=HostState.VERIFIED)
                log.certified(certificate(name, f"c{number}"))
            log.finish(0)
    with record.start_run("drift", ["hfprov", "drift", "-i", "rack"], baselines(names)) as log:
        for number, name in enumerate(names):
            if number == 6 % len(names):
                log.observed(name, "before", b"{}", drifted(), identity=machine(number + 1))
            else:
                log.observed(name, "before", b"{}", good(), identity=machine(number + 1))
        log.finish(1)
    return log.id


@pytest.fixture
def record(tmp_path):
    with Record.open(tmp_path / "record.db") as opened:
        yield opened


@pytest.fixture
def content(record):
    """Makes the content of a report of the record."""
    return lambda wanted="last": Content(record, wanted, datetime.now(UTC))


class Rack:
    """Writes runs of a rack into a record."""

    baselines = staticmethod(baselines)
    good = staticmethod(good)
    drifted = staticmethod(drifted)
    unseen = staticmethod(unseen)
    machine = staticmethod(machine)
    certificate = staticmethod(certificate)

    def __init__(self, record):
        self._record = record

    def write(self, names, **how):
        return write_rack(self._record, names, **how)

    def run(self, host, verdicts, *, code=0):
        with self._record.start_run("drift", ["hfprov", "drift"], baselines([host])) as log:
            log.observed(host, "before", b"{}", verdicts)
            log.finish(code)
        return log.id


@pytest.fixture
def rack(record):
    return Rack(record)
