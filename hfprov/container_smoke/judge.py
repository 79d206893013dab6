"""What the answers of the smoke test are worth. Pure.

Only the controller knows what is right: how many devices there must be, which product and which
sum. That a program says it is well counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hfprov.container_smoke.answers import Device, DevicesTold, Launched, NodesTold
from hfprov.container_smoke.declared import CPU, Wanted
from hfprov.container_smoke.known import product_digest, size_for, sum_digest
from hfprov.verdict import Finding, Verdict, failed, passed, unknown, warned
from hfprov.words import plural

MADE = "container_smoke.made"
"""Says why the test was not made, which is nothing against the node."""
START = "container_smoke.start"
IMAGE = "container_smoke.image"
DEVICES = "container_smoke.devices"
RESULT = "container_smoke.result"
NODES = "container_smoke.nodes"
CHECKS = (START, IMAGE, DEVICES, RESULT, NODES)
MOST_FINDINGS = 64


@dataclass(frozen=True, slots=True)
class Meeting:
    """Who was to meet whom, and with which number; the same for all."""

    names: tuple[str, ...]
    salt: int
    root: str
    awaited: tuple[str, ...]
    """Those of them that could try; the others say themselves why they could not."""
    secret: str = ""
    """Who has it is one of them."""


def judge_start(launched: Launched, wanted: Wanted) -> Finding:
    """Whether a container was started, ran to its end, and is gone."""
    subject, said = wanted.engine, launched.last_words
    expected = "starts, ends and is removed"
    unclear = {
        "no_image": "There is no image to start",
        "late": "It did not end in time",
        "too_much": "It said more than is read",
        "alone": "It was cut off",
    }
    bad = {
        "no_engine": ("absent", "Its program is not there: run the role 'container_runtime'."),
        "engine_error": ("no answer", f"The runtime does not answer: {said}"),
    }
    if launched.status in unclear:
        return unknown(subject, reason=f"{unclear[launched.status]}: {said}", expected=expected)
    if launched.code:
        what = "It could not be started, or its program ended badly"
        bad["ran"] = (f"exit code {launched.code}", f"{what}: {said}")
    if launched.status in bad:
        observed, reason = bad[launched.status]
        return failed(subject, observed=observed, expected=expected, reason=reason)
    if launched.left:
        observed = f"{len(launched.left)} left behind"
        reason = "Containers with the label 'hfprov.smoke' cannot be removed: look at the runtime."
        return warned(subject, observed=observed, expected=expected, reason=reason)
    return passed(subject, observed=expected, expected=expected)


def judge_image(launched: Launched, wanted: Wanted) -> Finding | None:
    """What the name of the image stands for on this node; None when that was not looked at."""
    if launched.status == "no_image":
        return unknown(
            wanted.image,
            reason=f"It is not on the node, and this test fetches none: {wanted.engine} pull it.",
        )
    if not launched.image_id:
        return None
    seen = launched.image_id
    if not wanted.pinned:
        reason = (
            "It is named by tag, which may stand for something else on another node or tomorrow; "
            "the certificate says what it was. Name it by digest."
        )
        return warned(wanted.image, observed=seen, expected="an image by digest", reason=reason)
    digest = wanted.image.rpartition("sha256:")[2]
    if any(one.endswith(digest) for one in (seen, *launched.image_digests)):
        return passed(wanted.image, observed=seen, expected="the declared digest")
    reason = "The runtime has another image under this digest."
    return failed(wanted.image, observed=seen, expected="the declared digest", reason=reason)


def judge_devices(
    told: DevicesTold, launched: Launched, wanted: Wanted, salt: int
) -> list[Verdict]:
    """How many devices the container sees, and whether each computes right."""
    if told.variant != wanted.variant:
        reason = f"The program answered for '{told.variant}'."
        return [Verdict(DEVICES, unknown(reason=reason))]
    if told.error:
        # Without torch, or with one for other devices, the image is at fault and not the node.
        reason = f"The program could not be run in this image: {told.error}"
        return [Verdict(one, unknown(reason=reason)) for one in (DEVICES, RESULT)]
    return [
        Verdict(DEVICES, _count(told.devices, launched, wanted)),
        *(Verdict(RESULT, one) for one in _results(told.devices, wanted, salt)),
    ]


def _count(devices: Sequence[Device], launched: Launched, wanted: Wanted) -> Finding:
    what = "CPUs" if wanted.variant == CPU else "accelerators"
    expected = launched.cpus if wanted.devices is None else wanted.devices
    seen = {one.index for one in devices}
    uuids = [one.uuid for one in devices if one.uuid]
    if len(seen) != len(devices) or len(set(uuids)) != len(uuids):
        return unknown(reason="The program names a device twice.", expected=f"{expected} {what}")
    if expected < 1 or not devices:
        reason = "A container that sees no device proves nothing."
        return failed("", observed=f"{len(devices)} {what}", expected=f"{expected} {what}",
                      reason=reason)  # fmt: skip
    if len(devices) == expected:
        return passed(observed=f"{expected} {what}", expected=f"{expected} {what}")
    reason = (
        f"A container sees other {what} than the node is declared to have: look at the CDI "
        "specification, at the runtime's settings, and at 'accelerator.count'."
    )
    return failed(
        "", observed=f"{len(devices)} {what}", expected=f"{expected} {what}", reason=reason
    )


def _results(devices: Sequence[Device], wanted: Wanted, salt: int) -> Iterator[Finding]:
    size = size_for(wanted.variant)
    bad = []
    for one in devices:
        subject = f"{one.index} {one.name}".strip()
        if one.error:
            reason = f"It could not compute: {one.error}"
            bad.append(failed(subject, observed="error", expected="the product", reason=reason))
        elif one.digest != product_digest(size, salt + one.index):
            reason = "The product of two known matrices is wrong: do not compute on this device."
            bad.append(failed(subject, observed="wrong", expected="the product", reason=reason))
    yield from bad[:MOST_FINDINGS]
    if not devices:
        yield unknown(reason="Nothing was computed.")
    elif not bad:
        yield passed(observed=f"right on {len(devices)}", expected="right on each")


def judge_nodes(
    told: NodesTold, wanted: Wanted, host: str, meeting: Meeting, present: Sequence[str]
) -> Finding:
    """Whether a node was found by the others, and their sum is right.

    ``present`` are those whom the root found: a node that lacks others is not at fault for them.
    """
    expected = f"{plural(len(meeting.names), 'node')}, and their sum"
    if told.variant != wanted.variant or (told.members and host not in told.members):
        return unknown(reason="The program did not answer for this node.", expected=expected)
    wrong = _wrong_meeting(told, meeting, present)
    if wrong:
        observed = plural(len(told.members), "node") if told.members else "not found"
        return failed("", observed=observed, expected=expected, reason=wrong)
    if len(told.members) < len(meeting.names):
        missing = [one for one in meeting.names if one not in told.members]
        reason = f"Not found were: {', '.join(missing[:10])}."
        observed = f"{plural(len(told.members), 'node')}, and their sum"
        return warned("", observed=observed, expected=expected, reason=reason)
    return passed(observed=expected, expected=expected)


def _wrong_meeting(told: NodesTold, meeting: Meeting, present: Sequence[str]) -> str:
    """What speaks against this node, in a sentence; empty for nothing."""
    if not told.members:
        return f"It was not found by '{meeting.root}', or did not find it: {told.error}"
    if list(told.members) != list(present) or not set(told.members) <= set(meeting.names):
        return "It met other nodes than the rest of them."
    if told.error:
        return f"The communication library failed between nodes that see each other: {told.error}"
    if told.digest != sum_digest(meeting.names, told.members, meeting.salt):
        # NCCL, RCCL or what else the program in the container says that it used.
        return f"The sum over the nodes is wrong; '{told.library}' made it."
    if len(told.members) == 1 < len(meeting.awaited):
        return "It met none of the others."
    return ""
