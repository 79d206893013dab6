"""A record with certified hosts, signed by a key of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.catalogue.profiles import Profile
from hfprov.certificate import issue, signing
from hfprov.certificate.configuration import Configuration, Device
from hfprov.certificate.places import home_of
from hfprov.certificate.revocation import Revoker
from hfprov.record.identity import Identity
from hfprov.record.store import Record
from hfprov.sweep import Fleet, HostVerdicts
from hfprov.verdict import Finding, Outcome, Verdict

PROFILE = Profile(title="t", require=("node.*",), validity_hours=2)
GPU = Device("0000:19:00.0", "10de:2330", "S1", "GPU-1", {"driver": "580.95", "vbios": "96.00"})
SEEN = Configuration("6.1.0", "boot-1", "debian 12", (GPU,), {"accelerators": "1 x 10de:2330"})
GOOD = (Verdict("node.os", Finding(Outcome.PASS)),)


def view(host, number, verdicts=GOOD, configuration=SEEN, **parts):
    return HostVerdicts(
        host,
        tuple(verdicts),
        **({"reachable": True, "identity": Identity(f"{number:032x}")} | parts),
        configuration=configuration,
    )


@dataclass
class Bench:
    """A record, and hosts as they will be seen next."""

    record: Record
    views: dict[str, HostVerdicts] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return home_of(self.record.where)

    def wish(self, **parts):
        key = self.home / "signing_key"
        signing.ensure_key(key, self.home / "allowed_signers")
        return issue.Wish(**({"profile_name": "quick", "profile": PROFILE, "key": key} | parts))

    def certify(self, monkeypatch, **parts):
        """The command's work, with observations that are made up."""
        baselines = {
            host: Baseline(host, ("limits",), {"node_sku": Value("none", "here")})
            for host in self.views
        }

        def sweep(fleet, log, *, phase, on_host):
            found = {}
            for host in fleet.baselines:
                one = self.views[host]
                digest = ""
                if one.reachable:
                    raw = json.dumps({"host": host}).encode()
                    digest = log.observed(host, phase, raw, one.verdicts, identity=one.identity)
                else:
                    log.not_observed(host, phase, one.reason, one.verdicts)
                found[host] = replace(one, evidence_sha256=digest)
                on_host(found[host])
            return found

        monkeypatch.setattr(issue, "sweep", sweep)
        fleet = Fleet(baselines, {})
        with self.record.start_run("certify", ["hfprov", "certify"], baselines) as log:
            done = issue.certify(self.record, fleet, log, self.wish(**parts), lambda _: None)
            log.finish(int(done.code))
        return done

    def drift(self, **views):
        """A drift run that tells what it sees to the revoker, as hfprov does."""
        baselines = {host: Baseline(host, ()) for host in self.views}
        with self.record.start_run("drift", ["hfprov", "drift"], baselines) as log:
            revoker = Revoker(self.record, log)
            for one in views.values():
                revoker.seen(one)
            log.finish(1)


@pytest.fixture
def bench(tmp_path):
    with Record.open(tmp_path / "record.db") as record:
        yield Bench(record, {f"n{number}": view(f"n{number}", number) for number in (1, 2, 3)})


@pytest.fixture
def later():
    return datetime.now(UTC) + timedelta(hours=3)
