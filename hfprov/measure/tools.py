"""Every tool that measures, in the order in which they are used."""

from __future__ import annotations

from collections.abc import Sequence

from hfprov.measure.collective import COLLECTIVE_TOOLS
from hfprov.measure.tool import Kind, Tool
from hfprov.measure.tools_bandwidth import BANDWIDTH_TOOLS
from hfprov.measure.tools_gpu import GPU_TOOLS
from hfprov.measure.tools_host import HOST_TOOLS
from hfprov.measure.tools_latency import LATENCY_TOOLS

TOOLS: tuple[Tool, ...] = (
    *HOST_TOOLS,
    *GPU_TOOLS,
    *COLLECTIVE_TOOLS,
    *BANDWIDTH_TOOLS,
    *LATENCY_TOOLS,
)
"""Of two with the same aim the first that is installed is used."""


def tools_of(kinds: Sequence[Kind]) -> list[Tool]:
    """The tools of some kinds, in the order of :data:`TOOLS`."""
    return [tool for tool in TOOLS if tool.kind in kinds]
