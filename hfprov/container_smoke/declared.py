"""What is declared for the smoke test of a node: runtime, image, variant, devices. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import accelerators
from hfprov.catalogue.skus import NONE, Sku, find_sku
from hfprov.evidence.container_engine import engine_of
from hfprov.verdict import Finding, NotApplicable, not_applicable, unknown

ROLE = "container_runtime"
CPU = "cpu"
_VARIANTS: Mapping[str, str] = {"nvidia": "cuda", "amd": "rocm"}
"""By vendor of the accelerator; the other vendors have none yet."""
_DEVICES: Mapping[str, str] = {"cuda": "nvidia.com/gpu=all", "rocm": "amd.com/gpu=all"}
"""CDI names, as the role and its users give them to a container."""
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,400}")
_PINNED = re.compile(r"(?:^|@)sha256:[0-9a-f]{64}$")
_PYTHON = re.compile(r"/?[A-Za-z0-9][A-Za-z0-9._/+-]{0,200}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the test is run on a node."""

    engine: str
    image: str
    variant: str
    devices: int | None
    """How many there must be; None: as many CPUs as the node itself has."""
    python: str

    @property
    def pinned(self) -> bool:
        """Whether the image is named by what is in it."""
        return _PINNED.search(self.image) is not None

    @property
    def options(self) -> tuple[str, ...]:
        """What gives a container the devices, for every engine alike."""
        device = _DEVICES.get(self.variant)
        return ("--device", device) if device else ()


def without_runtime(baseline: Baseline) -> str:
    """Why the test is not required of a node; empty where it is."""
    if engine_of(baseline) != "none":
        return ""
    if ROLE not in baseline.roles:
        return f"not required: no runtime declared, the role '{ROLE}' is left out."
    return "not required: no runtime declared, 'container_runtime_engine' is 'none'."


def wanted_of(baseline: Baseline) -> Wanted | Finding:
    """How to test a node, or the finding that says why it is not tested."""
    why = without_runtime(baseline)
    if why:
        return not_applicable(NotApplicable.NOT_REQUESTED, f"{why[0].upper()}{why[1:]}")
    image = str(baseline.get("node_container_smoke_image") or "")
    python = str(baseline.get("node_container_smoke_python") or "python3")
    if not image:
        return unknown(
            reason="A container runtime is declared, and no image to test it with: name one, by "
            "digest, in 'node_container_smoke_image'."
        )
    if not _IMAGE.fullmatch(image) or not _PYTHON.fullmatch(python):
        return unknown(
            reason=f"'{image}' with '{python}' cannot be the name of an image and of its Python: "
            "correct 'node_container_smoke_image' and 'node_container_smoke_python'."
        )
    return _with_devices(baseline, image, python)


def _with_devices(baseline: Baseline, image: str, python: str) -> Wanted | Finding:
    declared = str(baseline.get("node_sku") or "")
    asked = str(baseline.get("node_container_smoke_variant") or "auto")
    engine = engine_of(baseline)
    if declared == NONE:
        if asked not in ("auto", CPU):
            reason = f"The variant '{asked}' needs accelerators, and 'node_sku' is 'none'."
            return unknown(reason=reason)
        cpus = baseline.get("node_container_smoke_cpus")
        return Wanted(engine, image, CPU, None if cpus is None else int(str(cpus)), python)
    sku = find_sku(declared)
    if sku is None:
        return unknown(
            reason=f"How many accelerators a container must see is not known: the catalogue has no "
            f"'node_sku' '{declared}'."
        )
    variant = _variant_of(sku)
    if not variant:
        return unknown(
            reason=f"There is no variant of this test for '{sku.accelerator}' yet: look by hand, "
            "and answer for it with a waiver."
        )
    if asked not in ("auto", variant):
        return unknown(
            reason=f"The variant '{asked}' would prove nothing of the declared accelerators: "
            f"'{declared}' needs '{variant}'."
        )
    count = baseline.get("node_accelerator_count")
    return Wanted(engine, image, variant, sku.count if count is None else int(str(count)), python)


def _variant_of(sku: Sku) -> str:
    model = accelerators().by_id(sku.accelerator)
    return _VARIANTS.get(model.vendor, "") if model else ""
