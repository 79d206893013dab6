"""Every JSON document of the command line has a schema, and every schema describes one."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from hfprov import probe
from hfprov.baseline import Baseline, Value
from hfprov.catalogue.explanations import explanations
from hfprov.catalogue.profiles import ContainerSmoke, Profile
from hfprov.certificate import gate, index, signing
from hfprov.certificate.blocking import blockers, unreachable
from hfprov.certificate.case import Case, Diagnosed
from hfprov.certificate.document import Issuer, certificate, group_certificate
from hfprov.certificate.issue import Certified, GroupResult, Signed
from hfprov.certificate.uniformity import odd_hosts
from hfprov.certificate.verification import Verification
from hfprov.checks.registry import all_checks
from hfprov.cli import lab
from hfprov.cli.commands import build
from hfprov.container_smoke.judge import CHECKS
from hfprov.converge import Plan, Report
from hfprov.errors import ExitCode
from hfprov.evidence.system import Kernel
from hfprov.fleet_checks import Sample, odd_ones
from hfprov.judge import reads_for
from hfprov.lab.rack import NodeStatus, RackStatus
from hfprov.lab.state import NetworkStack
from hfprov.measure.judging import measurement
from hfprov.measure.plan import plan as measure_plan
from hfprov.measure.result import Judging, culprits
from hfprov.measure.result import judge as judge_measured
from hfprov.measure.run import Measured
from hfprov.measure.session import Taken
from hfprov.measure.tool import End, Figure, Settings
from hfprov.measure.tools import TOOLS
from hfprov.measure.traffic import Flow, Traffic
from hfprov.measure.trial import Trial as RoleTrial
from hfprov.measure.trial import effects
from hfprov.measure.watch import Watched
from hfprov.operate import Operation, Policy
from hfprov.pairs.ends import Endpoint, Rail
from hfprov.pairs.explain import explain
from hfprov.path_mtu.paths import Path as NetworkPath
from hfprov.path_mtu.run import PathMtu, RailResult
from hfprov.path_mtu.trial import Trial
from hfprov.reboot.boot import Boot
from hfprov.reboot.fleet import Rebooted
from hfprov.reboot.plan import RebootPlan
from hfprov.reboot.wave import RebootReport
from hfprov.record.identity import Identity
from hfprov.record.model import (
    Certificate,
    Change,
    GroupCertificate,
    HostState,
    Measurement,
    RunStatus,
)
from hfprov.record.store import Record
from hfprov.rejudge import evidence_document
from hfprov.report import certified as certified_report
from hfprov.report import documents
from hfprov.report.drift import drift_document, drift_of
from hfprov.report.golden import golden_table
from hfprov.report.measured import measured_document
from hfprov.report.paths import path_mtu_document
from hfprov.report.plan import plan_document, repair_document
from hfprov.report.reboots import reboot_document
from hfprov.report.trials import traffic_document, trial_document
from hfprov.sweep import HostVerdicts
from hfprov.verdict import (
    Impact,
    NotApplicable,
    Outcome,
    Verdict,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
ROLES = ("limits", "jumbo_mtu")
BASELINE = Baseline(
    "n1", ROLES, {"limits_memlock": Value("unlimited", "group_vars/all.yml:4"), "x": Value(1, "")}
)
VERDICTS = (
    Verdict("node.os", passed(observed="debian 12", expected="debian 12")),
    Verdict("mtu.live", failed("eth1", observed="1500", expected="9000", reason="Too small.")),
    Verdict("node.filesystems", warned("/", observed="83 %", expected="85 %", reason="Nearly.")),
    Verdict("node.cpus", not_applicable(NotApplicable.CONTAINER, "A container.")),
    Verdict("a.check.of.another.version", unknown(reason="It was lost.")),
)
IDENTITY = Identity("09933b4f262757e6c658880ed9e935ff", "", "S1")


def schema(name):
    kind, version = re.fullmatch(r"hfprov\.([a-z]+)/(\d+)", name).groups()
    return json.loads((SCHEMAS / f"{kind}-{version}.json").read_text("utf-8"))


def check(document):
    """Validate a document as it is printed: through JSON text."""
    plain = json.loads(json.dumps(document, default=str))
    found = schema(plain["schema"])
    validator = jsonschema.Draft202012Validator
    validator.check_schema(found)
    validator(found, format_checker=validator.FORMAT_CHECKER).validate(plain)
    return plain["schema"]


def names_in_code():
    """Every text of the form ``hfprov.KIND/N`` in hfprov's code."""
    return {
        node.value
        for path in (ROOT / "hfprov").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"hfprov\.[a-z_]+/\d+", node.value)
    }


def names_of_files():
    return {json.loads(path.read_text("utf-8"))["title"] for path in SCHEMAS.glob("*.json")}


@pytest.fixture
def record(tmp_path):
    with Record.open(tmp_path / "record.db") as opened:
        yield opened


@pytest.fixture
def run(record):
    """A run with a host in every condition that a document can show."""
    plan = {
        "reads": [{"id": read.id, **read.request} for read in reads_for(BASELINE)],
        "deadline": 20,
    }
    raw = json.dumps(probe.observe(plan)).encode()
    names = {name: Baseline(name, ROLES, BASELINE.values) for name in ("n1", "n2", "n3")}
    with record.start_run("provision", ["hfprov", "provision"], names) as log:
        log.observed("n1", "before", raw, VERDICTS, identity=IDENTITY)
        log.change("n1", Change("limits", "Write", "template", "changed", "-1\n+2"))
        log.observed("n1", "after", raw, VERDICTS, state=HostState.VERIFIED)
        log.not_observed("n2", "before", "No route.", [Verdict("node.os", unknown(reason="No."))])
        log.event("note", "Something happened.")
        log.event("note", "Something happened to it.", "n1", {"a": 1})
        log.interrupt("Stopped by a person.", 130)
    return log.id


def views():
    seen = HostVerdicts("n1", VERDICTS, reachable=True, evidence_sha256="ab" * 32)
    lost = HostVerdicts(
        "n2", (Verdict("node.os", unknown(reason="No.")),), reachable=False, reason="No."
    )
    return {"n1": seen, "n2": lost}


def issued():
    some = tuple(one for one in VERDICTS if one.outcome in {Outcome.PASS, Outcome.WARN})
    case = Case("r1", BASELINE, IDENTITY, "ab" * 32, datetime.now(UTC), some)
    profile = Profile(title="t", require=("node.*",), validity_hours=2)
    return certificate(case, ("quick", profile), ISSUER, datetime.now(UTC))


def issued_with_containers():
    """Certificates of a host whose containers were tested, and of one that has none."""
    now = datetime.now(UTC)
    some = (Verdict("node.os", passed()),)
    wanted = ContainerSmoke(max_age_hours=1, same_boot=False)
    profile = Profile(title="t", require=("node.*",), validity_hours=2, container_smoke=wanted)
    measured = Measurement(
        "n1", "container smoke nodes", 1.0, "nodes",
        parameters={"image": "site/smoke:1", "variant": "cpu"},
        conditions={"nodes": ["n1"], "image_id": "sha256:1", "image_digests": []}, at=now,
    )  # fmt: skip
    done = Diagnosed("r0", now, tuple(Verdict(one, passed()) for one in CHECKS), (measured,))
    for engine in ("docker", "none"):
        values = {"container_runtime_engine": engine, "node_container_smoke_image": "site/smoke:1"}
        given = {name: Value(value, "") for name, value in values.items()}
        baseline = Baseline("n1", ("container_runtime",), given)
        case = Case("r1", baseline, IDENTITY, "ab" * 32, now, some, smoked=done)
        yield certificate(case, ("quick", profile), ISSUER, now)


ISSUER = Issuer("0.1", "controller", "hfprov@controller")


def indexed(record):
    """The index of a certificate and a group, and what the gate says by it."""
    document = issued()
    text = json.dumps(document)
    stamps = {name: datetime.fromisoformat(document[name]) for name in ("issued_at", "expires_at")}
    group = group_certificate("rack", "quick", [document], ISSUER, datetime.now(UTC))
    with record.start_run("certify", ["hfprov", "certify"], {"n1": BASELINE}) as log:
        log.certified(
            Certificate(
                id=document["id"], host="n1", profile="quick", baseline_digest=BASELINE.digest,
                document=text, signature="s", **stamps,
            )
        )  # fmt: skip
        log.certified_group(
            GroupCertificate(group["id"], "rack", "quick", *stamps.values(), json.dumps(group), "s")
        )
        log.finish(0)
    home = Path(record.where).with_suffix(".certificates")
    signing.ensure_key(home / "signing_key", home / "allowed_signers")
    index.write_index(record, home / "signing_key")
    index.revoke_in_index(record.where, {document["id"]: "It drifted."})
    envelope = json.loads((home / "index.json").read_text("utf-8"))
    yield envelope
    body = {**schema("hfprov.index/1")["$defs"]["body"], "$defs": schema("hfprov.index/1")["$defs"]}
    jsonschema.validate(json.loads(envelope["body"]), body)
    answers = [gate.Answer("n1", allowed=False, reason="it was revoked", certificate="ab")]
    yield {"schema": gate.SCHEMA, "exit_code": 1, "nodes": [one._asdict() for one in answers]}


def every_document(record, run, lab_json):
    plan = Plan({"n1": ROLES}, (("n1",),), ("n2",), {"n1": {"mtu.live": "It disturbs work."}})
    report = Report(failed={"n1": "It failed."}, not_attempted=["n3"], stopped="Too many failed.")
    done = Operation("r1", views(), ExitCode.BAD, plan, report)
    case = Case("r1", BASELINE, IDENTITY, "ab" * 32, datetime.now(UTC), VERDICTS)
    wanted = Profile(title="t", require=("*", "other.*"), validity_hours=2)
    stand = blockers(case, wanted, datetime.now(UTC))
    lost = unreachable("No route.", "Make it reachable.")
    group = group_certificate("rack", "quick", [issued()], ISSUER, datetime.now(UTC))
    odd = odd_hosts([Sample("n1", "host", {"kernel": "6.1"}), Sample("n2", "host", {})])
    certified = Certified(
        "r1",
        views(),
        ExitCode.BAD,
        {"n1": stand, "n2": [lost]},
        {"n3": Signed(issued(), "text", "signature")},
        GroupResult("rack", Signed(group, "text", "signature"), odd, ("n1",)),
    )
    text = explanations()
    yield documents.sweep_document("drift", "r1", views(), ExitCode.BAD)
    yield documents.sweep_document("drift", "r1", {}, ExitCode.NOTHING)
    yield documents.operation_document("drift", Operation("r1", views(), ExitCode.UNKNOWN))
    yield documents.operation_document("provision", done)
    yield repair_document("provision", done)
    yield plan_document("drift", replace(done, report=None), Policy(("1",), "10%"))
    looked = Operation("r1", views(), ExitCode.UNKNOWN)
    yield drift_document(looked, drift_of(record, run, datetime.now(UTC)))
    yield certified_report.certify_document(certified)
    yield certified_report.certify_document(replace(certified, group=GroupResult("", None, (), ())))
    yield issued()
    yield from issued_with_containers()
    yield group
    yield from indexed(record)
    yield certified_report.certificates_document(record.certificates(), datetime.now(UTC))
    yield certified_report.verification_document(Verification("f", "", None, ["It expired."]))
    yield certified_report.verification_document(Verification("f", "me", issued(), []))
    yield documents.baseline_document(BASELINE, golden_table(BASELINE))
    yield from (documents.explanation_document(one.id, one, text[one.id]) for one in all_checks())
    yield documents.explanations_document({one.id: one for one in all_checks()}, text)
    yield documents.runs_document(record.runs())
    yield documents.run_document(record.run(run), [])
    figures = [
        Measurement("n1", "iperf3 tcp", 9.4, "Gbit/s", "n2", conditions={"outcome": "pass"}),
        Measurement("n1", "disk", None, "GB/s", samples=(1.0, 2.0), at=datetime.now(UTC)),
        *map(measurement, measured().results),
    ]
    yield documents.run_document(record.run(run), figures)
    yield documents.history_document("n1", record.history("n1"))
    yield evidence_document(record, run, "n1")
    yield odd_ones(
        [
            Sample(host, "10de:2330", {"vbios": vbios, "driver": host}, "gpu0")
            for host, vbios in (("n1", "96.00"), ("n2", "96.00"), ("n3", "95.00"))
        ]
    ).document()
    yield parsed()
    yield scheduled()
    yield reboot_document(rebooted())
    yield path_mtu_document(paths_found())
    yield measured_document(measured())
    yield trial_document(tried())
    yield traffic_document(watched())
    yield lab_json


def rebooted():
    boot = Boot(Kernel("6.1.0-1", "a" * 36, "quiet"), "running", {"CPUs": 2}, 1.0, {})
    plan = RebootPlan({"n1": "It was asked for."}, (("n1",),), ("n2",), {"n3": "It is at work."})
    report = RebootReport({"n1": (boot, boot)}, {}, {"n1": "The same boot."}, {"n1": "It failed."})
    return Rebooted("r1", plan, report, views(), ExitCode.UNKNOWN)


def paths_found():
    ends = [Endpoint(name, "eth1", "10.0.0.1", "10.0.0.0/24", 9000, 1500) for name in ("n1", "n2")]
    trials = (
        Trial(NetworkPath(*ends), 9000, passed=False, reason="Nothing came back."),
        Trial(NetworkPath(*reversed(ends)), 9000, None, "It is not known."),
    )
    result = RailResult(Rail("10.0.0.0/24", tuple(ends)), trials, explain({("n1", "n2"): False}))
    return PathMtu("r1", (result,), {"n3": "No route."}, ExitCode.UNKNOWN)


def measured():
    tool = next(one for one in TOOLS if one.name == "iperf3")
    ends = {name: End(name, "eth1", "10.0.0.1") for name in ("n1", "n2", "n3")}
    plan = measure_plan([tool], Settings(), dict.fromkeys(ends, frozenset(["iperf3"])), {"r": ends})
    taken = [
        Taken(tool, a, b, "r", figures={"x": Figure("x", "Gbit/s", (rate,) * 5, ((8.0, rate),))})
        for a, b, rate in (("n1", "n2", 1.0), ("n1", "n3", 1.0), ("n2", "n3", 9.0))
    ]
    taken.append(Taken(tool, "n3", "n2", "r", problem="It failed."))
    results = tuple(judge_measured(taken, Judging({}, {}, {})))
    found = tuple(culprits(taken))
    return Measured("r1", plan, results, found, {"n4": "No route."}, ExitCode.UNKNOWN)


def tried():
    first = measured()
    done = RoleTrial("r1", first, first, failed={"n1": "It failed."})
    done.effects = [*effects(first.results, first.results), *effects(first.results, ())]
    return done


def watched():
    flow = Flow("eth1", 1500, 1.0, 900.0, 0.0, 0.0, {"rx_dropped": 1})
    return Watched("r1", {"n1": Traffic(1.0, (flow,), None, {0: 2.0})}, {"n2": "No."}, ExitCode.BAD)


def parsed():
    """The document of ``hfprov parse``, from the command itself."""
    found = CliRunner().invoke(build(), ["parse", "os-release", "-", "--json"], input="ID=debian\n")
    return json.loads(found.stdout)


def scheduled():
    """The document of ``hfprov schedule show``, from the command itself."""
    env = {"XDG_CONFIG_HOME": "/nonexistent"}
    return json.loads(
        CliRunner().invoke(build(), ["schedule", "show", "--user", "--json"], env=env).stdout
    )


@pytest.fixture
def lab_json(monkeypatch):
    """The document of ``hfprov lab status``, from the command itself, of a rack that is made up."""
    node = NodeStatus(
        name="node01",
        address="10.1.0.11",
        data_address="10.2.0.11",
        network=NetworkStack.NETWORKD,
        running=True,
        systemd="running",
        faults=("mtu-live",),
    )
    status = RackStatus(
        directory=Path("/var/lib/rack"),
        inventory=Path("/var/lib/rack/inventory.yml"),
        ssh_config=Path("/var/lib/rack/ssh_config"),
        engine="container",
        suite="bookworm",
        management="10.1.0.0/24",
        data="10.2.0.0/24",
        nodes=(node,),
    )
    monkeypatch.setattr(lab, "_rack", lambda _: type("Rack", (), {"status": lambda _: status})())
    return json.loads(CliRunner().invoke(build(), ["lab", "status", "--json"]).stdout)


def test_every_document_is_as_its_schema_says(record, run, lab_json):
    seen = {check(one) for one in every_document(record, run, lab_json)}
    assert seen == names_of_files()


def test_every_name_in_the_code_has_a_schema_and_the_other_way_round():
    assert names_in_code() == names_of_files()


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.name)
class TestFiles:
    def test_the_name_of_the_file_is_that_of_the_document(self, path):
        found = json.loads(path.read_text("utf-8"))
        kind, version = path.stem.rsplit("-", 1)
        assert found["title"] == f"hfprov.{kind}/{version}"
        assert found["$id"] == f"urn:hfprov:{kind}:{version}"
        assert found["properties"]["schema"] == {"const": found["title"]}
        assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert found["description"]

    def test_no_object_of_ours_is_open(self, path):
        for one in objects(json.loads(path.read_text("utf-8"))):
            assert "additionalProperties" in one
            if "properties" in one:
                assert one["additionalProperties"] is False

    def test_shared_parts_are_the_same_in_all_files(self, path):
        mine = json.loads(path.read_text("utf-8")).get("$defs", {})
        for other in SCHEMAS.glob("*.json"):
            theirs = json.loads(other.read_text("utf-8")).get("$defs", {})
            for name in mine.keys() & theirs.keys():
                assert mine[name] == theirs[name], (name, other.name)

    def test_closed_lists_are_those_of_the_code(self, path):
        found = json.loads(path.read_text("utf-8")).get("$defs", {})
        for name, members in (
            ("outcome", Outcome),
            ("impact", Impact),
            ("exit_code", ExitCode),
            ("run_status", RunStatus),
            ("host_state", HostState),
        ):
            if name in found:
                assert found[name]["enum"] == [one.value for one in members], name
        if "verdict" in found:
            why = found["verdict"]["properties"]["not_applicable"]["oneOf"][0]["enum"]
            assert why == [one.value for one in NotApplicable]


def objects(node):
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for value in node.values():
            yield from objects(value)
    elif isinstance(node, list):
        for value in node:
            yield from objects(value)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: one.pop("summary"),
        lambda one: one.update(extra=1),
        lambda one: one["hosts"][0].update(outcome="good"),
        lambda one: one["hosts"][0]["verdicts"][0].update(extra=1),
        lambda one: one.update(exit_code=7),
    ],
)
def test_a_document_that_is_not_as_agreed_is_refused(spoil):
    document = documents.sweep_document("drift", "r1", views(), ExitCode.BAD)
    check(document)
    spoil(document)
    with pytest.raises(jsonschema.ValidationError):
        check(document)
