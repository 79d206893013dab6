"""Priorities of RoCE interfaces, by the tool that is declared: ``dcb`` or ``mlnx_qos``."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import dcb, mlnx_qos
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, Source, command

DCB, MLNX_QOS = "dcb", "mlnx_qos"


class Priorities(Struct, frozen=True):
    """Of one interface."""

    trust: str
    """``dscp`` or ``pcp``."""
    dscp: Mapping[int, int]
    """Priority by DSCP; empty where DSCP is not trusted."""
    pfc: tuple[int, ...]
    """Priorities with flow control."""


def _reads_of(tool: str, interface: str) -> tuple[Read, ...]:
    if tool == MLNX_QOS:
        return (command("mlnx_qos", "-i", interface, timeout=15),)
    shown = ("pfc", "prio-pfc"), ("app", "dscp-prio")
    return tuple(
        command("dcb", "-j", "-N", kind, "show", "dev", interface, what) for kind, what in shown
    )


def _names(baseline: Baseline) -> tuple[str, ...]:
    tool = baseline.get("rdma_qos_tool")
    return tuple(map(str, baseline.get("rdma_interfaces", ()))) if tool in (DCB, MLNX_QOS) else ()


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    tool = str(baseline.get("rdma_qos_tool"))
    return tuple(read for name in _names(baseline) for read in _reads_of(tool, name))


def from_dcb(pfc: str, app: str) -> Priorities:
    """From the two answers of ``dcb``. An empty table of DSCP is printed as no attribute at all."""
    enabled = dcb.parse(pfc).pfc
    if enabled is None:
        raise NotUnderstoodError("'dcb pfc show' did not tell the priorities.")
    empty = "".join(clean(app).split()) in ("", "{}", "[]", '{"dscp_prio":[]}')
    dscp = {} if empty else dcb.parse(app).dscp_priority
    if dscp is None:
        raise NotUnderstoodError("'dcb app show' did not tell the priorities of DSCP.")
    # mlx5 trusts DSCP as soon as there is an entry (en_dcbnl.c).
    on = tuple(priority for priority in sorted(enabled) if enabled[priority])
    return Priorities("dscp" if dscp else "pcp", dscp, on)


def from_mlnx_qos(text: str) -> Priorities:
    """Raises NoEvidenceError when a part that is judged was not shown."""
    found = mlnx_qos.parse(text)
    if found.trust is None or found.pfc_enabled is None:
        raise NoEvidenceError("'mlnx_qos' did not tell trust and flow control.")
    trusted = found.trust == "dscp"
    on = tuple(priority for priority, enabled in enumerate(found.pfc_enabled) if enabled)
    return Priorities(found.trust, dict(found.dscp_priority or {}) if trusted else {}, on)


def _parse(seen: Observation, baseline: Baseline) -> Mapping[str, Priorities]:
    tool = str(baseline.get("rdma_qos_tool"))
    found = {}
    for name in _names(baseline):
        texts = [seen.text(read) for read in _reads_of(tool, name)]
        found[name] = from_mlnx_qos(*texts) if tool == MLNX_QOS else from_dcb(*texts)
    return found


PRIORITIES: Source[Mapping[str, Priorities]] = Source("priorities of RoCE", _reads, _parse)
"""By declared interface; empty where no tool is declared."""
