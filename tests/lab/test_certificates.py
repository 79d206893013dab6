"""Certificates on real nodes: given, refused, revoked, given again; and what never gets one."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hfprov.certificate import signing

HFPROV = Path(sys.executable).with_name("hfprov")
NODES = ("node01", "node02", "node03")

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PROFILES = """
moment: {title: t, require: ["node.*", "*"], validity_hours: 0.0005}
diagnosed: {title: t, require: ["node.*"], validity_hours: 1, diagnosis: {level: 1, max_age_hours: 1}}
measured:
  title: t
  require: ["node.*"]
  validity_hours: 1
  measurements:
    - {test: stream triad, unit: GB/s, max_age_hours: 1, only_with_accelerators: false,
       gates: [{sku: "*", at_least: 1, source: a test, checked_on: 2026-11-29}]}
"""  # fmt: skip  # noqa: E501 - a line of YAML
GPU = """<gpu id="00000000:{bus}:00.0"><product_name>NVIDIA H100 80GB HBM3</product_name>
<uuid>GPU-{bus}</uuid><pci><pci_device_id>233010DE</pci_device_id></pci>
<utilization><gpu_util>0 %</gpu_util></utilization><processes></processes></gpu>"""


def smi(count):
    gpus = "".join(GPU.format(bus=f"{bus:02x}") for bus in range(16, 16 + count))
    return (
        "<?xml version='1.0'?><nvidia_smi_log><driver_version>580.95.05</driver_version>"
        f"<attached_gpus>{count}</attached_gpus>{gpus}</nvidia_smi_log>"
    )


def diag(status, count):
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": n, "status": status}
        for n in range(count)
    ]
    tests = [{"name": "memory", "results": results, "test_summary": {"status": status}}]
    return json.dumps(
        {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}}
    )


def certify(site, *options):
    return site.hfprov("certify", "--json", *options)


def gate(site, *words):
    argv = [str(HFPROV), "gate", "--db", str(site.db), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def verify(path, *options):
    argv = [str(HFPROV), "verify", str(path), "--json", *map(str, options)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    found = json.loads(done.stdout)
    assert found["holds"] is (done.returncode == 0)
    return found["problems"]


def blocked(done, name):
    return [(one["check"], one["reason"]) for one in done.document["blockers"].get(name, ())]


@pytest.fixture
def site(quick_site):
    """A rack that takes seconds to bring to its baseline, with a fresh record."""
    return quick_site


@pytest.fixture
def home(site):
    return site.db.with_suffix(".certificates")


@pytest.fixture
def profiles(tmp_path):
    path = tmp_path / "profiles.yml"
    path.write_text(PROFILES, "utf-8")
    return path


def test_given_revoked_and_given_again(site, home, tmp_path):
    done = certify(site, "--group", "rack", "-o", tmp_path)
    assert done.code == 0, done.out
    assert set(done.document["certificates"]) == set(NODES)
    assert done.document["group"]["uniform"]
    assert gate(site, *NODES) == (0, "")
    assert gate(site, "--group", "rack") == (0, "")
    signers = ("--allowed-signers", home / "allowed_signers")
    for name in (*NODES, "group-rack"):
        assert verify(tmp_path / f"{name}.json", *signers, "--db", site.db) == []

    site.rack.break_node("node02", "mtu-runtime")
    try:
        assert site.hfprov("drift").code == 1
        code, said = gate(site, *NODES)
        assert code == 1
        assert "node02: its certificate was revoked" in said
        assert "mtu.live" in said
        assert "node01" not in said
        assert gate(site, "--group", "rack")[0] == 1
        [problem] = verify(tmp_path / "node02.json", *signers, "--db", site.db)
        assert "It was revoked" in problem
        assert verify(tmp_path / "node02.json", *signers) == []
        failed = certify(site, "--group", "rack")
        assert (failed.code, failed.document["group"]["certificate"]) == (1, None)
        assert failed.document["group"]["missing"] == ["node02"]
        assert [check for check, _ in blocked(failed, "node02")] == ["mtu.live"]
    finally:
        site.hfprov("drift", "--repair")
    assert gate(site, "node02")[0] == 1
    assert certify(site, "--group", "rack").code == 0
    assert gate(site, "--group", "rack") == (0, "")


def test_what_is_not_its_own_or_not_as_it_was_signed_is_refused(site, home, tmp_path):
    assert certify(site, "-o", tmp_path).code == 0
    signers = ("--allowed-signers", home / "allowed_signers")
    mine, sibling = tmp_path / "node01.json", tmp_path / "node02.json"
    assert verify(sibling, *signers, "--host", "node01") == [
        "It is the certificate of 'node02', not of 'node01'."
    ]
    assert "another machine" in verify(mine, *signers, "--here")[0]
    signing.ensure_key(tmp_path / "key", tmp_path / "others")
    assert "does not allow" in verify(mine, "--allowed-signers", tmp_path / "others")[0]
    with sqlite3.connect(site.db) as record:
        record.execute("UPDATE verdict SET observed = 'better' WHERE check_id = 'mtu.live'")
    assert "verdicts" in verify(mine, *signers, "--db", site.db)[0]
    with sqlite3.connect(site.db) as record:
        record.execute("UPDATE evidence SET content = x'00'")
    assert any("evidence" in one for one in verify(mine, *signers, "--db", site.db))
    mine.write_text(mine.read_text("utf-8").replace("quick", "acceptance"), "utf-8")
    assert verify(mine, *signers) == ["It was changed after it was signed."]
    # A record with a forged time does not convince the gate, which goes by what was signed.
    with sqlite3.connect(site.db) as record:
        record.execute("UPDATE certificate SET expires_at = '2099-01-01T00:00:00.000000Z'")
    assert json.loads(json.loads((home / "index.json").read_text())["body"])["certificates"]
    index = json.loads((home / "index.json").read_text("utf-8"))
    index["body"] = index["body"].replace("node01", "node09")
    (home / "index.json").write_text(json.dumps(index), "utf-8")
    assert gate(site, "node09")[0] == 3


def test_it_expires(site, profiles):
    done = certify(site, "--profiles", profiles, "--profile", "moment")
    assert set(done.document["certificates"]) == set(NODES)
    time.sleep(2.5)
    code, said = gate(site, "node01")
    assert code == 1
    assert "expired" in said


def test_a_probe_that_is_stopped_and_a_host_that_is_gone_prove_nothing(site):
    site.inside("node01", "systemctl kill -s STOP ssh.service")
    site.rack.break_node("node02", "sshd-down")
    try:
        done = certify(site, "--deadline", "8")
    finally:
        site.inside("node01", "systemctl kill -s CONT ssh.service")
        site.inside(
            "node02", "systemctl start ssh.socket 2>/dev/null || :; systemctl start ssh.service"
        )
    assert done.code == 3
    assert set(done.document["certificates"]) == {"node03"}
    for name in ("node01", "node02"):
        assert [check for check, _ in blocked(done, name)] == ["reachable"]


def test_a_waiver_lifts_the_block_is_shown_everywhere_and_blocks_again(site, tmp_path):
    waivers, later = tmp_path / "waivers.yml", "2099-01-01"
    entry = (
        "waivers:\n- {{node: node02, check: mtu.live, owner: ops, expires: {}, "
        "reason: The switch is replaced.}}\n"
    )
    site.rack.break_node("node02", "mtu-runtime")
    try:
        waivers.write_text(entry.format(later), "utf-8")
        done = certify(site, "--waivers", waivers)
        assert done.code == 0, done.out
        [waived] = done.document["certificates"]["node02"]["waivers"]
        assert (waived["check"], waived["owner"]) == ("mtu.live", "ops")
        assert gate(site, *NODES) == (0, "")
        drift = site.hfprov("drift", env={"HFPROV_WAIVERS": str(waivers)})
        assert (drift.code, "by ops: The switch is replaced." in drift.out) == (1, True)
        assert gate(site, *NODES) == (0, "")
        for kind in ("html", "markdown", "junit", "csv"):
            assert "The switch is replaced." in site.hfprov("report", "-f", kind).out, kind
        waivers.write_text(entry.format("2020-01-01"), "utf-8")
        done = certify(site, "--waivers", waivers)
        assert done.code == 1
        assert "waiver of ops expired" in blocked(done, "node02")[0][1]
        assert gate(site, "node02")[0] == 1
    finally:
        site.inside("node02", "ip link set dev eth1 mtu 9000")


@pytest.fixture
def accelerators(site):
    """Make node03 look like a machine with GPUs; call it with the scripts of its tools."""
    folder = site.rack.paths.inventory / "host_vars"
    folder.mkdir(exist_ok=True)
    (folder / "node03.yml").write_text("node_sku: hgx-h100-8\n", "utf-8")
    names = ("nvidia-smi", "dcgmi")

    def put(**texts):
        for name, text in texts.items():
            path = f"/usr/local/bin/{name.replace('_', '-')}"
            script = f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n"
            site.inside("node03", f"cat > {path} <<'OUTER'\n{script}OUTER\nchmod 755 {path}")

    try:
        yield put
    finally:
        shutil.rmtree(folder)
        site.inside("node03", "; ".join(f"rm -f /usr/local/bin/{name}" for name in names))


def test_fewer_accelerators_than_its_kind_has_and_no_diagnosis_are_never_certified(
    site, accelerators, profiles
):
    accelerators(nvidia_smi=smi(7))
    for options in ((), ("--profile", "acceptance"), ("--profile", "pre-benchmark")):
        done = certify(site, "--limit", "node03", *options)
        assert done.code in (1, 3)
        assert done.document["certificates"] == {}
        assert any(check.startswith("accelerator.") for check, _ in blocked(done, "node03"))
    stages = [one["stage"] for one in done.document["blockers"]["node03"]]
    assert stages == sorted(stages, key=("reach", "checks", "diagnosis", "measurements").index)
    assert {"diagnosis", "measurements"} <= set(stages)

    accelerators(nvidia_smi=smi(8))
    wanted = ("--limit", "node03", "--profiles", profiles, "--profile")
    for text, says in (
        (diag("Skip", 8), "skipped"),
        ("", ""),
        ("{", ""),
        (diag("Pass", 7), "7 of 8"),
        (diag("Fail", 8), ""),
    ):
        accelerators(dcgmi=text)
        argv = [str(HFPROV), "diagnose", "-i", str(site.inventory), "--db", str(site.db)]
        done = subprocess.run(
            [*argv, "--limit", "node03"], capture_output=True, check=False, timeout=120
        )
        assert done.returncode in (1, 3), done.stdout
        found = certify(site, *wanted, "diagnosed")
        assert found.document["certificates"] == {}
        reasons = [reason for check, reason in blocked(found, "node03") if "diagnos" in check]
        assert reasons
        assert any(says in one for one in reasons), (says, reasons)
    found = certify(site, *wanted, "measured")
    assert ("measurement", "It was never measured, and the profile requires it.") in blocked(
        found, "node03"
    )
