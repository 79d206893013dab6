"""What an NVIDIA node needs beside its GPUs: fabric manager, persistence, paths to the NICs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.fabricmanager import FabricRun
from hfprov.evidence.fabricmanager import parse as parse_log
from hfprov.evidence.nvidia_smi.forms import parse as parse_smi
from hfprov.evidence.nvidia_smi.topo import Topology
from hfprov.evidence.systemd import parse as parse_show
from hfprov.evidence.systemd import property_of
from hfprov.evidence.systemd_units import together
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Source, command, file, listing
from hfprov.regex import regex

_PROPERTIES = "--property=Id,LoadState,ActiveState,SubState,UnitFileState"
UNIT = together(
    command("systemctl", "show", _PROPERTIES, "nvidia-fabricmanager.service", limit=4096)
)
VERSION = command("nv-fabricmanager", "--version", limit=4096)
_LOG_FILE = "/var/log/fabricmanager.log"
LOG = command("tail", "-c", "262144", _LOG_FILE, limit=300_000, needs=_LOG_FILE)
TOPO = command("nvidia-smi", "topo", "-m", timeout=30)
PEERMEM = file("/sys/module/nvidia_peermem/initstate", limit=64)
RDMA_DEVICES = listing("/sys/class/infiniband/*", most=256)
_VERSION = regex(r"[Vv]ersion(?: is)?\s{0,3}:?\s{0,3}([0-9]+\.[0-9.]+)")


class FabricManager(Struct, frozen=True):
    """NVIDIA's fabric manager, which sets up the NVSwitches."""

    installed: bool
    active: bool = False
    state: str = ""
    """``active/running``, as systemd says it."""
    enabled: str = ""
    version: str = ""
    """Of the program, else of the last start in the log; empty when neither tells."""
    run: FabricRun | None = None
    """What the log says since the last start; None when there is no log that can be read."""


def _parse_manager(seen: Observation, _: Baseline) -> FabricManager:
    unit = parse_show(seen.text(UNIT))[0]
    if property_of(unit, "LoadState") == "not-found":
        return FabricManager(installed=False)
    active = property_of(unit, "ActiveState")
    run, version = _log(seen)
    program = seen.one(VERSION)
    told = _VERSION.search(clean(program.text)) if program.ok else None
    return FabricManager(
        installed=True,
        active=active == "active",
        state=f"{active}/{property_of(unit, 'SubState')}",
        enabled=property_of(unit, "UnitFileState"),
        version=told.group(1) if told else version,
        run=run,
    )


def _log(seen: Observation) -> tuple[FabricRun | None, str]:
    try:
        log = parse_log(seen.text(LOG))
    except (NoEvidenceError, NotUnderstoodError):
        return None, ""
    return log.present, log.version


FABRIC_MANAGER: Source[FabricManager] = Source(
    "fabric manager", lambda _: (UNIT, VERSION, LOG), _parse_manager
)


def _parse_topology(seen: Observation, _: Baseline) -> Topology:
    found = parse_smi(seen.text(TOPO))
    if not isinstance(found, Topology):
        raise NotUnderstoodError("'nvidia-smi topo -m' printed no topology.")
    if found.incomplete:
        raise NotUnderstoodError(f"'nvidia-smi topo -m': {found.incomplete}")
    return found


TOPOLOGY: Source[Topology] = Source("gpu topology", lambda _: (TOPO,), _parse_topology)


class DirectPath(Struct, frozen=True):
    """Whether a NIC can reach a GPU's memory without the host's."""

    peermem: bool
    rdma_devices: tuple[str, ...]


def _parse_path(seen: Observation, _: Baseline) -> DirectPath:
    names = tuple(result.name.rsplit("/", 1)[-1] for result in seen.each(RDMA_DEVICES))
    return DirectPath(seen.exists(PEERMEM), names)


DIRECT_PATH: Source[DirectPath] = Source(
    "gpu direct rdma", lambda _: (PEERMEM, RDMA_DEVICES), _parse_path
)


def nearest_nic(topology: Topology) -> Mapping[str, tuple[str, str]]:
    """For each GPU of the matrix its nearest NIC and the relation to it; ``("", "")`` if none."""
    nics = [name for name in topology.columns if not name.startswith("GPU")]
    found = {}
    for row in topology.rows:
        if not row.name.startswith("GPU"):
            continue
        near = [(topology.relation(row.name, nic) or "", nic) for nic in nics]
        ranked = sorted(
            (one for one in near if one[0] in DISTANCE), key=lambda one: DISTANCE[one[0]]
        )
        found[row.name] = (ranked[0][1], ranked[0][0]) if ranked else ("", "")
    return found


DISTANCE: Mapping[str, int] = {"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3, "SYS": 4}
"""How far two devices are apart, nearest first (legend of ``nvidia-smi topo -m``)."""
