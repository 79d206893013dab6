"""The smoke test in containers as a condition of certificates. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from hfprov.catalogue.profiles import ContainerSmoke
from hfprov.certificate.case import (
    ABSENT,
    PROVEN,
    Blocker,
    Case,
    Diagnosed,
    Stage,
    bad,
    blocker_of,
    excused,
    same_boot,
    too_old,
)
from hfprov.container_smoke.declared import without_runtime
from hfprov.container_smoke.judge import CHECKS, MADE, NODES
from hfprov.record.model import Measurement

TEST_NODES = "container smoke nodes"
"""The measurement that names the nodes which were found."""
_REMEDY = "Drain the nodes that are to be certified, and run 'hfprov container-smoke' on all."


def smoke_blockers(case: Case, wanted: ContainerSmoke, now: datetime) -> Iterator[Blocker]:
    """What the smoke test has against a host; nothing where no container runtime is declared."""
    if without_runtime(case.baseline):
        return
    done = case.smoked
    if done is None:
        yield _block(ABSENT, "No container was ever tried on this node.")
        return
    if not done.finished:
        yield _block("unknown", "The newest smoke test did not come to a judgement.")
        return
    yield from (blocker_of(one, Stage.CONTAINERS) for one in bad(done.verdicts, now))
    late = too_old(done.at, wanted.max_age_hours, now)
    if late:
        yield _block("unknown", f"The newest smoke test {late}.")
    excusing = {one.check for one in done.verdicts if excused(one, now)}
    if MADE not in excusing:
        told = excusing | {one.check for one in bad(done.verdicts, now)}
        yield from _unproven(done, told)
        yield from _of_measurements(case, done, wanted)
        if wanted.together and NODES not in told:
            yield from _apart(case, done)


def _block(outcome: str, reason: str, check: str = "container_smoke") -> Blocker:
    return Blocker(check, "", outcome, reason, _REMEDY, Stage.CONTAINERS)


def _unproven(done: Diagnosed, told: Collection[str]) -> Iterator[Blocker]:
    """Parts of the test that nothing is known of; ``told`` are those of which it was said."""
    for check in CHECKS:
        proven = any(one.check == check and one.outcome in PROVEN for one in done.verdicts)
        if not proven and check not in told:
            yield _block(ABSENT, "The newest smoke test did not come to this.", check)


def _apart(case: Case, done: Diagnosed) -> Iterator[Blocker]:
    met = nodes_of(done.measurements)
    lacking = [one for one in case.together if one not in met]
    if lacking:
        reason = f"It was not tested together with {', '.join(lacking[:10])}."
        yield _block("unknown", reason, NODES)


def _of_measurements(case: Case, done: Diagnosed, wanted: ContainerSmoke) -> Iterator[Blocker]:
    if not done.measurements:
        yield _block(ABSENT, "The newest smoke test measured nothing.")
    image = str(case.baseline.get("node_container_smoke_image") or "")
    for one in done.measurements:
        if wanted.same_boot and not same_boot(one, case.configuration):
            yield _block("unknown", f"'{one.test}' ran before the node was booted last.")
        if one.parameters.get("image") != image:
            yield _block("unknown", f"'{one.test}' was another image than the declared one.")


def nodes_of(measurements: tuple[Measurement, ...]) -> tuple[str, ...]:
    """Nodes that were found in a test, this one included."""
    for one in measurements:
        nodes = one.conditions.get("nodes")
        if one.test == TEST_NODES and one.value is not None and isinstance(nodes, list):
            return tuple(map(str, nodes))
    return ()


def passed(done: Diagnosed | None, now: datetime) -> bool:
    """Whether a smoke test found nothing bad."""
    return done is not None and done.finished and not any(bad(done.verdicts, now))


def smoke_document(
    case: Case, verdicts_sha256: str, measured: list[dict[str, Any]]
) -> dict[str, Any]:
    """What the certificate says of the test; that it was not required is said too."""
    why = without_runtime(case.baseline)
    if why or case.smoked is None:
        return {"required": False, "reason": why}
    first = case.smoked.measurements[0] if case.smoked.measurements else None
    conditions: Mapping[str, Any] = first.conditions if first else {}
    return {
        "required": True,
        "run": case.smoked.run,
        "at": case.smoked.at.isoformat(timespec="seconds"),
        "verdicts_sha256": verdicts_sha256,
        "image": str(case.baseline.get("node_container_smoke_image") or ""),
        "image_id": str(conditions.get("image_id", "")),
        "image_digests": [str(one) for one in conditions.get("image_digests") or ()],
        "variant": str(first.parameters.get("variant", "")) if first else "",
        "nodes": list(nodes_of(case.smoked.measurements)),
        "measurements": measured,
    }
