"""The gate: what it lets through, and everything that it does not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hfprov.certificate import gate, signing
from hfprov.certificate.index import revoke_in_index, write_index
from hfprov.certificate.revocation import revoke
from hfprov.errors import UsageError
from hfprov.sweep import HostVerdicts

HOUR = 3600.0


@pytest.fixture
def certified(bench, monkeypatch):
    bench.certify(monkeypatch, group="rack")
    return bench


def index_of(bench):
    return bench.home / "index.json"


def asked(bench, *words, index=None):
    """The exit code and what was said."""
    argv = [*words, "--index", str(index or index_of(bench))]
    return gate.main(argv)


def refusals(bench, *nodes, now=None, profile=""):
    found = gate.load_index(index_of(bench), bench.home / "allowed_signers")
    answers = gate.ask(found, nodes, profile, now or time.time())
    return {one.node: one.reason for one in answers if not one.allowed}


def spoil(bench, change):
    path = index_of(bench)
    envelope = json.loads(path.read_text("utf-8"))
    change(envelope)
    path.write_text(json.dumps(envelope), "utf-8")


def test_certified_nodes_pass(certified):
    assert asked(certified, "n1", "n2", "n3") == 0
    assert asked(certified, "--group", "rack") == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("n1", "--group", "rack"), 2),
        (("n1", "n2", "--here"), 2),
        (("--nonsense",), 2),
        (("n1", "n9"), 1),
        (("n1", "--profile", "acceptance"), 1),
        (("--group", "other"), 1),
    ],
)
def test_anything_else_does_not(certified, words, code, capsys):
    assert asked(certified, *words) == code
    assert "Traceback" not in (said := capsys.readouterr().err)
    assert said


def test_a_blocked_node_has_no_certificate(bench, monkeypatch):
    bench.views["n2"] = HostVerdicts("n2", (), reachable=False, reason="No route.")
    done = bench.certify(monkeypatch, group="rack")
    assert (int(done.code), done.group.signed, done.group.missing) == (3, None, ("n2",))
    assert set(refusals(bench, "n1", "n2", "n3")) == {"n2"}


def test_it_expires(certified):
    later = time.time() + 2 * HOUR + 1
    assert "expired" in refusals(certified, "n1", now=later)["n1"]


def test_a_clock_that_was_set_back_is_noticed(certified):
    with pytest.raises(signing.SignatureRefusedError, match="clock"):
        refusals(certified, "n1", now=time.time() - HOUR)


def test_revoked_without_a_key_and_forever(certified):
    [issued] = certified.record.certificates("n1")
    revoke(certified.record, {issued.id: "It drifted."})
    assert refusals(certified, "n1", "n2") == {"n1": "its certificate was revoked: It drifted."}
    write_index(certified.record, certified.home / "signing_key")
    assert "It drifted." in refusals(certified, "n1")["n1"]
    assert asked(certified, "--group", "rack") == 1


def test_what_the_record_did_not_hear_stays_revoked_when_it_is_signed_again(certified):
    [issued] = certified.record.certificates("n1")
    revoke_in_index(certified.record.where, {issued.id: "It drifted."})
    write_index(certified.record, certified.home / "signing_key")
    assert set(refusals(certified, "n1", "n2")) == {"n1"}


def test_a_new_certificate_counts_again(certified, monkeypatch):
    [issued] = certified.record.certificates("n1")
    revoke(certified.record, {issued.id: "It drifted."})
    certified.certify(monkeypatch)
    assert refusals(certified, "n1") == {}


@pytest.mark.parametrize("heard", ["both", "index", "record"])
def test_a_group_ends_with_the_certificate_of_a_member_whatever_that_holds_since(
    certified, monkeypatch, capsys, heard
):
    [issued] = certified.record.certificates("n1")
    if heard != "record":
        revoke_in_index(certified.record.where, {issued.id: "Its kernel changed."})
    if heard != "index":
        certified.record.revoke_certificate(issued.id, "Its kernel changed.")
    certified.certify(monkeypatch)
    assert asked(certified, "n1", "n2", "n3") == 0
    assert asked(certified, "--group", "rack") == 1
    assert "'n1' was revoked: Its kernel changed." in capsys.readouterr().err
    certified.certify(monkeypatch, group="rack")
    assert asked(certified, "--group", "rack") == 0


def test_certificates_are_in_the_index_however_many_were_issued_since(certified, monkeypatch):
    monkeypatch.setattr("hfprov.record.store._LARGE", 2)
    for _ in range(3):
        certified.certify(monkeypatch, profile_name="nightly")
    found = gate.load_index(index_of(certified), certified.home / "allowed_signers")
    profiles = {host: {one["profile"] for one in all_} for host, all_ in found.entries.items()}
    assert profiles == {name: {"quick", "nightly"} for name in ("n1", "n2", "n3")}
    assert refusals(certified, "n1", "n2", "n3", profile="quick") == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.update(body=one["body"].replace('"n1"', '"n9"')),
        lambda one: one.update(body=one["body"].replace('"revoked":""', '"revoked":"x"', 1)),
        lambda one: one.update(signature=""),
        lambda one: one.update(signer="somebody@else"),
        lambda one: one.pop("body"),
        lambda one: one.update(body="{}"),
    ],
    ids=["host", "revoked", "unsigned", "signer", "no body", "empty body"],
)
def test_an_index_that_was_tampered_with_proves_nothing(certified, change, capsys):
    spoil(certified, change)
    assert asked(certified, "n1") == 3
    assert capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"body": 3}'])
def test_a_damaged_index_proves_nothing(certified, text):
    index_of(certified).write_text(text, "utf-8")
    assert asked(certified, "n1") == 3


def test_without_an_index_or_somebody_to_trust_nothing_is_told(certified, tmp_path):
    assert asked(certified, "n1", index=tmp_path / "none.json") == 2
    assert asked(certified, "n1", "--allowed-signers", str(tmp_path / "none")) == 2


def test_the_key_of_somebody_else_is_not_trusted(certified, tmp_path):
    other, signers = tmp_path / "other", tmp_path / "signers"
    signing.ensure_key(other, signers)
    assert asked(certified, "n1", "--allowed-signers", str(signers)) == 3


def test_a_signature_of_a_certificate_is_none_of_an_index(certified):
    body = json.loads(index_of(certified).read_text("utf-8"))["body"]
    [signature] = signing.sign([body], certified.home / "signing_key")
    spoil(certified, lambda one: one.update(signature=signature))
    assert asked(certified, "n1") == 3


def test_this_machine_must_be_the_one(certified, tmp_path, monkeypatch, capsys):
    mine = tmp_path / "machine-id"
    monkeypatch.setattr(gate, "_MACHINE_ID", mine)
    mine.write_text(f"{1:032x}\n", "ascii")
    assert asked(certified, "n1", "--here") == 0
    assert asked(certified, "n2", "--here") == 1
    assert "certified as 'n1', not as 'n2'" in capsys.readouterr().err
    mine.write_text("f" * 32, "ascii")
    assert asked(certified, "n1", "--here") == 1
    mine.unlink()
    assert asked(certified, "n1", "--here") == 1


def test_a_reason_cannot_write_to_a_terminal(certified, capsys):
    [issued] = certified.record.certificates("n1")
    revoke_in_index(certified.record.where, {issued.id: "\x1b[31mred\x07"})
    assert asked(certified, "n1") == 1
    assert "\x1b" not in capsys.readouterr().err


def test_it_loads_nothing_that_is_slow():
    code = (
        "import sys; from hfprov.certificate import gate; "
        "print([one for one in ('typer', 'rich', 'sqlalchemy', 'ansible', 'pydantic', 'yaml', "
        "'asyncio') if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_signing_needs_a_key(tmp_path):
    with pytest.raises(UsageError, match="could not sign"):
        signing.sign(["text"], tmp_path / "none")


def test_a_key_with_a_passphrase_is_refused_and_not_waited_for(tmp_path):
    key = tmp_path / "key"
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "a secret", "-f", str(key)]
    subprocess.run(argv, check=True, timeout=60)
    with pytest.raises(UsageError, match="could not sign"):
        signing.sign(["text"], key)


def test_plain_ssh_keygen_verifies_what_was_written(certified, tmp_path):
    """The command of docs/certificates.md, word for word but for the names of the files."""
    [issued] = certified.record.certificates("n1")
    path = tmp_path / "n1.json"
    path.write_text(issued.document, "utf-8")
    Path(f"{path}.sig").write_text(issued.signature, "utf-8")
    text = Path(__file__).parents[3].joinpath("docs/certificates.md").read_text("utf-8")
    [block] = re.findall(r"^(ssh-keygen -Y verify.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    command = block.replace("allowed_signers", str(certified.home / "allowed_signers"))
    command = command.replace("node01.json", str(path))
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    path.write_text(issued.document.replace('"n1"', '"n2"'), "utf-8")
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=60)
    assert done.returncode != 0


def test_the_time_of_an_index_only_grows(certified):
    before = json.loads(index_of(certified).read_text("utf-8"))["latest"]
    ahead = (datetime.now(UTC) + timedelta(minutes=30)).timestamp()
    spoil(certified, lambda one: one.update(latest=ahead))
    write_index(certified.record, certified.home / "signing_key")
    assert json.loads(index_of(certified).read_text("utf-8"))["latest"] == ahead > before
