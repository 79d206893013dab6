"""The memory of AMD's GPUs: whether it is protected, its errors and its bad pages."""

from __future__ import annotations

from hfprov.evidence.accelerators.model import Ecc, MemoryRepair
from hfprov.evidence.amd_smi_facts import EccBlock, Gpu, PageState

_BLOCKS_BESIDE_A_HOST = {"GFX", "SDMA", "MMHUB"}
"""amdgpu_ras.c, amdgpu_ras_check_supported: connected_to_cpu or is_app_apu."""


def ecc_of(gpu: Gpu) -> Ecc:
    if gpu.ecc is None:
        return Ecc()
    return Ecc(
        enabled=_enabled(gpu.ecc.blocks),
        volatile_corrected=gpu.ecc.correctable,
        volatile_uncorrected=total(
            _worst(gpu.ecc.uncorrectable, _counted(gpu.ecc.blocks)), gpu.ecc.deferred
        ),
        unrepairable="more of its pages are bad than the board allows"
        if gpu.ecc.too_many_bad_pages
        else "",
    )


def _enabled(blocks: tuple[EccBlock, ...]) -> bool | None:
    """Whether the memory (UMC) is protected; other blocks are off by design on many parts.

    Where the GPU shares its memory with the host (MI300A) or hangs on it by xGMI, amdgpu looks
    after three blocks only and the host after the memory: not told here.
    """
    on = {one.name.upper() for one in blocks if one.state == "ENABLED"}
    if on == _BLOCKS_BESIDE_A_HOST:
        return None
    memory = [one.state for one in blocks if one.name.upper() == "UMC" and one.state]
    return None if not memory else all(state == "ENABLED" for state in memory)


def _counted(blocks: tuple[EccBlock, ...]) -> int | None:
    return total(*(one.uncorrectable for one in blocks))


def total(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _worst(*counts: int | None) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def repair_of(gpu: Gpu) -> MemoryRepair:
    pages = gpu.bad_pages
    if pages is None or not pages.available:
        return MemoryRepair()
    states = [one.state for one in pages.pages]
    return MemoryRepair(
        "pages", len(states), PageState.PENDING in states, PageState.UNRESERVABLE in states
    )
