"""Which engines there are, and which one a rack has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab.container import ContainerEngine
from hfprov.lab.engine import Engine
from hfprov.lab.state import RackPaths, RackState
from hfprov.lab.vm import VmEngine

_MAKERS: dict[str, Callable[[Path, RackPaths], Engine]] = {
    ContainerEngine.name: ContainerEngine,
    VmEngine.name: VmEngine,
}
ENGINES = ("auto", *_MAKERS)
"""'auto' is what the rack has already, and containers for a new one."""


def make_engine(name: str, lab: Path, paths: RackPaths) -> Engine:
    """The engine of a name in :data:`ENGINES` other than 'auto'."""
    return _MAKERS[name](lab, paths)


def choose_engine(wanted: str, state: RackState | None) -> str:
    """Name of the engine for a rack, from what was asked for and what it was made with.

    Raises :class:`LabError` when these are two.
    """
    if state is None:
        return ContainerEngine.name if wanted == "auto" else wanted
    if wanted not in ("auto", state.engine):
        raise LabError(
            f"The nodes of this rack are of the engine '{state.engine}', not '{wanted}'.",
            hint="Take it down first (hfprov lab down), or choose another directory (--dir).",
        )
    return state.engine
