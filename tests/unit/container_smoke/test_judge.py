"""What answers are worth: only what the controller itself knows to be right passes."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.container_smoke import judge
from hfprov.container_smoke.answers import Launched, read_devices, read_nodes
from hfprov.container_smoke.declared import Wanted, wanted_of, without_runtime
from hfprov.container_smoke.judge import Meeting
from hfprov.container_smoke.known import product_digest, size_for, sum_digest
from hfprov.errors import NotUnderstoodError
from hfprov.verdict import NotApplicable, Outcome

TOKEN = "ef" * 16
PINNED = "site/smoke@sha256:" + "1" * 64
CPU = Wanted("docker", PINNED, "cpu", 2, "python3")
GPU = Wanted("docker", PINNED, "cuda", 8, "python3")
RAN = Launched(status="ran", cpus=2, code=0, image_id="sha256:" + "2" * 64, image_digests=(PINNED,))
MEETING = Meeting(("n1", "n2", "n3"), 7, "n1", ("n1", "n2", "n3"))


def line(**told):
    return f"hfprov-smoke {TOKEN} {json.dumps(told)}\n"


def device(index, wanted=CPU, **changes):
    good = {
        "index": index, "name": f"d{index}", "uuid": f"U{index}", "error": "", "ms": 1,
        "digest": product_digest(size_for(wanted.variant), 5 + index),
    }  # fmt: skip
    return good | changes


def devices(wanted=CPU, some=None, **changes):
    some = [device(n, wanted) for n in range(wanted.devices)] if some is None else some
    told = {"mode": "devices", "variant": wanted.variant, "error": "", "devices": some} | changes
    return read_devices(line(**told), TOKEN)


def judged(wanted=CPU, launched=RAN, **told):
    found = judge.judge_devices(devices(wanted, **told), launched, wanted, 5)
    return {(one.check, one.outcome) for one in found}


PASS = {(judge.DEVICES, Outcome.PASS), (judge.RESULT, Outcome.PASS)}


@pytest.mark.parametrize("wanted", [CPU, GPU], ids=lambda one: one.variant)
def test_the_declared_devices_that_compute_right_pass(wanted):
    assert judged(wanted) == PASS


@pytest.mark.parametrize(
    ("some", "devices_outcome", "result"),
    [
        ([device(0)], "fail", "pass"),  # prints success, but for fewer
        ([device(0), device(1), device(2)], "fail", "pass"),
        ([], "fail", "unknown"),
        ([device(0), device(0)], "unknown", "pass"),
        ([device(0), device(1, uuid="U0")], "unknown", "pass"),
        ([device(0), device(1, digest="0" * 64)], "pass", "fail"),
        ([device(0), device(1, digest="")], "pass", "fail"),
        ([device(0), device(1, digest=device(0)["digest"])], "pass", "fail"),
        ([device(0), device(1, error="CUDA error: uncorrectable ECC")], "pass", "fail"),
    ],
)
def test_everything_else_does_not(some, devices_outcome, result):
    assert judged(some=some) == {(judge.DEVICES, devices_outcome), (judge.RESULT, result)}


def test_an_error_or_another_variant_proves_nothing_whatever_else_is_said():
    assert judged(error="no torch") == {(judge.DEVICES, "unknown"), (judge.RESULT, "unknown")}
    assert judged(variant="cuda") == {(judge.DEVICES, "unknown")}


def test_cpus_that_nobody_declared_are_those_of_the_node():
    wanted = Wanted("docker", PINNED, "cpu", None, "python3")
    some = [device(0), device(1)]
    found = judge.judge_devices(devices(wanted, some), RAN, wanted, 5)
    assert {(one.check, one.outcome) for one in found} == PASS
    larger = RAN.model_copy(update={"cpus": 4})
    assert judge.judge_devices(devices(wanted, some), larger, wanted, 5)[0].outcome == "fail"


def test_many_bad_devices_are_not_more_findings_than_anybody_reads():
    wanted = Wanted("docker", PINNED, "cpu", 4000, "python3")
    some = [device(n, digest="0" * 64) for n in range(4000)]
    assert len(judge.judge_devices(devices(wanted, some), RAN, wanted, 5)) < 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SUCCESS: all 8 devices computed right\n",
        line(mode="devices", variant="cpu", error="") * 2,
        line(mode="nodes", variant="cpu", error=""),
        line(mode="devices", variant="cpu", error="", devices=[device(0, digest="<b>")]),
        line(mode="devices", variant="cpu", error="", devices=[device(-1)]),
        line(mode="devices", variant="cpu", error="", devices=[device(0, name="x" * 501)]),
        line(mode="devices", variant="cpu", error="", devices=[device(index=True)]),
        line(mode="devices", variant="cpu", error="", devices=[device(0)] * 5000),
        line(mode="devices", variant="cpu", error="")[:-20],
        line(mode="devices", variant="cpu", error="").rstrip() + " trailing\n",
        line(mode="devices").replace(TOKEN, "0" * 32),
    ],
)
def test_an_answer_that_is_not_as_agreed_is_none(text):
    with pytest.raises(NotUnderstoodError):
        read_devices(text, TOKEN)


def test_a_banner_around_the_answer_is_passed_over_and_escapes_are_taken_out():
    text = f"== Container ==\n\x1b[31m{{}}\n{line(mode='devices', variant='cpu', error='')}bye\n"
    assert read_devices(text, TOKEN).devices == ()
    told = line(mode="devices", variant="cpu", error="\x1b[2J<script>")
    assert (
        "\x1b" not in judge.judge_devices(read_devices(told, TOKEN), RAN, CPU, 5)[0].finding.reason
    )


@pytest.mark.parametrize(
    ("changes", "outcome", "says"),
    [
        ({}, "pass", ""),
        ({"status": "no_engine"}, "fail", "not there"),
        ({"status": "engine_error", "said": "Cannot connect"}, "fail", "Cannot connect"),
        ({"status": "no_image", "said": "No such image"}, "unknown", "No such image"),
        ({"status": "late"}, "unknown", "in time"),
        ({"status": "too_much"}, "unknown", "more than is read"),
        ({"status": "alone"}, "unknown", "cut off"),
        ({"code": 125, "stderr": "x\nunresolvable device\n"}, "fail", "unresolvable device"),
        ({"code": 124}, "fail", "nothing"),
        ({"left": ("old",)}, "warn", "hfprov.smoke"),
    ],
)
def test_how_the_container_fared(changes, outcome, says):
    found = judge.judge_start(RAN.model_copy(update=changes), CPU)
    assert found.outcome == outcome
    assert says in found.reason


@pytest.mark.parametrize(
    ("image", "changes", "outcome"),
    [
        (PINNED, {}, "pass"),
        (RAN.image_id, {}, "pass"),
        (PINNED, {"image_digests": ()}, "fail"),
        ("site/smoke:1", {}, "warn"),
        (PINNED, {"status": "no_image"}, "unknown"),
    ],
)
def test_the_image_is_the_declared_one(image, changes, outcome):
    wanted = Wanted("docker", image, "cpu", 2, "python3")
    assert judge.judge_image(RAN.model_copy(update=changes), wanted).outcome == outcome


def met(members, *, variant="cpu", error="", digest=None, host="n2", present=None):
    good = sum_digest(MEETING.names, [one for one in members if one in MEETING.names], 7)
    told = line(
        mode="nodes", variant=variant, error=error, members=members, library="sockets",
        digest=good if digest is None else digest,
    )  # fmt: skip
    present = members if present is None else present
    return judge.judge_nodes(read_nodes(told, TOKEN), CPU, host, MEETING, present)


@pytest.mark.parametrize(
    ("options", "outcome", "says"),
    [
        ({"members": ["n1", "n2", "n3"]}, "pass", ""),
        ({"members": ["n1", "n2"]}, "warn", "Not found were: n3"),
        ({"members": [], "error": "timed out"}, "fail", "timed out"),
        ({"members": [], "error": ""}, "fail", "not found by 'n1'"),
        ({"members": ["n2"]}, "fail", "none of the others"),
        ({"members": ["n1", "n2", "n3"], "present": ["n1", "n3"]}, "fail", "other nodes"),
        ({"members": ["n1", "n2", "n3", "n9"]}, "fail", "other nodes"),
        ({"members": ["n1", "n2", "n3"], "digest": "0" * 64}, "fail", "sum"),
        ({"members": ["n1", "n2", "n3"], "digest": ""}, "fail", "sum"),
        ({"members": ["n1", "n2", "n3"], "error": "NCCL"}, "fail", "NCCL"),
        ({"members": ["n1", "n3"]}, "unknown", "for this node"),
        ({"members": ["n1", "n2", "n3"], "variant": "cuda"}, "unknown", "for this node"),
    ],
)
def test_who_was_found_and_what_they_added_up(options, outcome, says):
    found = met(**options)
    assert (found.outcome, says in found.reason) == (outcome, True)


def declared(**values):
    runtime = {"container_runtime_engine": "docker", "node_container_smoke_image": PINNED}
    given = {name: Value(value, "") for name, value in {**runtime, **values}.items()}
    return Baseline("n1", ("container_runtime",), given)


@pytest.mark.parametrize(
    ("values", "variant", "count"),
    [
        ({"node_sku": "none"}, "cpu", None),
        ({"node_sku": "none", "node_container_smoke_cpus": 4}, "cpu", 4),
        ({"node_sku": "hgx-h100-8"}, "cuda", 8),
        ({"node_sku": "hgx-h100-8", "node_accelerator_count": 7}, "cuda", 7),
    ],
)
def test_variant_and_count_are_those_of_the_sku(values, variant, count):
    found = wanted_of(declared(**values))
    assert (found.variant, found.devices) == (variant, count)
    assert found.options == (() if variant == "cpu" else ("--device", "nvidia.com/gpu=all"))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"node_sku": "none", "node_container_smoke_image": ""}, "no image"),
        ({"node_sku": "none", "node_container_smoke_image": "--privileged"}, "cannot be the name"),
        ({"node_sku": "none", "node_container_smoke_python": "-c"}, "cannot be the name"),
        ({"node_sku": "none", "node_container_smoke_variant": "cuda"}, "needs accelerators"),
        # The way around the accelerators is closed.
        ({"node_sku": "hgx-h100-8", "node_container_smoke_variant": "cpu"}, "prove nothing"),
        ({"node_sku": ""}, "not known"),
        ({"node_sku": "no-such"}, "not known"),
        ({"node_sku": "gaudi3-8"}, "no variant"),
    ],
)
def test_what_cannot_be_tested_is_unknown_with_its_reason(values, says):
    found = wanted_of(declared(**values))
    assert (found.outcome, says in found.reason) == (Outcome.UNKNOWN, True), found


def test_without_a_runtime_it_is_not_required_and_says_so():
    none = declared(container_runtime_engine="none", node_sku="none")
    found = wanted_of(none)
    assert found.not_applicable is NotApplicable.NOT_REQUESTED
    assert found.reason.startswith("Not required: no runtime declared")
    assert without_runtime(none).startswith("not required: no runtime declared")
    assert "left out" in without_runtime(Baseline("n1", (), {}))
