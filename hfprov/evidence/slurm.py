"""Slurm: ``sinfo`` and ``squeue`` tables, ``scontrol show node``.

sinfo with a header (columns divided by ``|`` or by blanks), squeue rows of fields divided by ``|#``
or with a header, and the ``Key=value`` blocks of scontrol. Source: sinfo(1), squeue(1),
scontrol(1). A node state may carry marks: ``*`` not responding, ``~`` powered off, ``$`` in
maintenance, ``-`` planned, ``@`` pending reboot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, natural, numbered_lines, unknown_form
from hfprov.evidence.slurm_tables import cells, table_lines
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_KEY = regex(r"(?:^|\s)([A-Z][A-Za-z0-9_:/]*)=")
_GPU = regex(r"gpu(?::[A-Za-z0-9_.-]+)?:([0-9]{1,5})")
_JOB_STATES = frozenset(
    [
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETING",
        "COMPLETED",
        "CONFIGURING",
        "FAILED",
        "CANCELLED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "OUT_OF_MEMORY",
        "BOOT_FAIL",
        "DEADLINE",
        "STOPPED",
        "RESIZING",
        "REQUEUED",
        "REQUEUE_HOLD",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "REVOKED",
        "LAUNCH_FAILED",
    ]
)
_NO_REASON = ("", "none", "(null)", "None")
_REASON = regex(r"\([^()]*\)\s*$")
_SHORT_STATE = regex(r"[A-Z]{1,2}")
_DRAINING = regex(r"DRAIN|DRNG", re.IGNORECASE)
_DOWN = regex(r"\b(?:DOWN|FAIL|FAILING|NOT_RESPONDING|NO_RESPOND|ERROR|INVAL)|\*", re.IGNORECASE)


class SlurmNode(Struct, frozen=True):
    """One node in one partition. None: the table has no such column, or ``N/A``."""

    name: str
    state: str
    """In full and with its marks, as printed: ``drain*``, ``IDLE+DRAIN``."""
    partition: str | None
    reason: str | None
    cpus: int | None
    memory_mib: int | None
    gpus: int | None
    version: str | None
    values: Mapping[str, str]

    @property
    def is_draining(self) -> bool:
        return _DRAINING.search(self.state) is not None

    @property
    def is_responding(self) -> bool:
        return _DOWN.search(self.state) is None


class SlurmNodesFacts(Struct, frozen=True):
    """``sinfo`` or ``scontrol show node``."""

    nodes: tuple[SlurmNode, ...]


class SlurmJobsFacts(Struct, frozen=True):
    """``squeue``: jobs as their fields. ``states`` counts jobs by state."""

    jobs: tuple[tuple[str, ...], ...]
    states: Mapping[str, int]


def parse(text: str) -> SlurmNodesFacts | SlurmJobsFacts:
    """Facts from any of the three."""
    text = clean(text)
    first = next((line for _, line in table_lines(text)), "")
    if first.startswith("NodeName="):
        return SlurmNodesFacts(tuple(_scontrol(text)))
    if "|#" in first:
        return _queue(text)
    words = {word.strip() for word in re.split(r"[|\s]+", first)}
    if words & {"NODELIST", "HOSTNAMES", "NODELIST(REASON)"}:
        if not words & {"STATE", "ST"}:
            raise NotUnderstoodError(
                f"The table of Slurm has no column STATE: '{excerpt(first)}'.",
                hint="Give the output of 'sinfo -N -l' or 'scontrol show node'.",
            )
        if "JOBID" in words:
            return _queue_with_header(text)
        return _info(text)
    raise unknown_form("Slurm", text, "a table of sinfo or squeue, or 'NodeName='")


def _info(text: str) -> SlurmNodesFacts:
    nodes: list[SlurmNode] = []
    (_, header), *lines = table_lines(text)
    names = _cells(header, header, "REASON") or []
    for number, line in lines:
        values = _cells(header, line, "REASON")
        if values is None or len(values) != len(names):
            raise bad_line("sinfo", number, line, f"{len(names)} columns")
        fields: dict[str, str] = {}
        for name, value in zip(names, values, strict=True):
            fields.setdefault(name, value)
        node = fields.get("HOSTNAMES") or fields.get("NODELIST") or ""
        state = fields.get("STATE", "")
        if not node and state == "n/a":  # A partition without a node.
            continue
        if not node or not state:
            raise bad_line("sinfo", number, line, "the name and the state of a node")
        nodes.append(_node(node, state, fields, fields))
    if not nodes:
        raise NotUnderstoodError("sinfo lists no node.")
    return SlurmNodesFacts(tuple(nodes))


def _cells(header: str, line: str, loose: str) -> list[str] | None:
    if "|" not in header:
        return cells(header, line, loose)
    values = [value.strip() for value in line.split("|")]
    # With a divider at the end of rows there is one empty column more than names.
    if len(values) == header.count("|") + 2 and not values[-1]:
        values.pop()
    return values


def _node(name: str, state: str, fields: Mapping[str, str], values: Mapping[str, str]) -> SlurmNode:
    def count(*keys: str) -> int | None:
        for key in keys:
            value = fields.get(key, "")
            if value and value not in ("N/A", "(null)"):
                return natural(value.rstrip("+"), f"'{key}' of node '{excerpt(name, 40)}'")
        return None

    gres = fields.get("GRES", fields.get("Gres", ""))
    gpus = [int(number) for number in _GPU.findall(gres)]
    reason = fields.get("REASON", fields.get("Reason", ""))
    return SlurmNode(
        name=name,
        state=state,
        partition=fields.get("PARTITION") or fields.get("Partitions"),
        reason=None if reason in _NO_REASON else reason,
        cpus=count("CPUS", "CPUTot"),
        memory_mib=count("MEMORY", "RealMemory"),
        gpus=sum(gpus) if gpus else (0 if gres in ("(null)", "none") else None),
        version=None
        if fields.get("VERSION", fields.get("Version", "")) in ("", "N/A")
        else fields.get("VERSION", fields.get("Version")),
        values=values,
    )


def _scontrol(text: str) -> list[SlurmNode]:
    nodes = []
    for block in re.split(r"\n(?=NodeName=)", text.strip()):
        matches = list(_KEY.finditer(block))
        fields: dict[str, str] = {}
        for match, after in zip(matches, [*matches[1:], None], strict=True):
            end = after.start() if after else len(block)
            fields.setdefault(match.group(1), block[match.end() : end].strip())
        if not fields.get("NodeName") or not fields.get("State"):
            raise NotUnderstoodError(
                f"scontrol shows no state of node '{excerpt(fields.get('NodeName', ''), 40)}': "
                "it is cut off."
            )
        nodes.append(_node(fields["NodeName"], fields["State"], fields, fields))
    return nodes


def _queue(text: str) -> SlurmJobsFacts:
    jobs: list[tuple[str, ...]] = []
    for number, line in numbered_lines(text):
        if not line.strip():
            continue
        fields = tuple(part.strip() for part in line.split("|#"))
        if jobs and len(fields) != len(jobs[0]):
            raise bad_line("squeue", number, line, f"{len(jobs[0])} columns")
        if not any(field in _JOB_STATES for field in fields):
            raise bad_line("squeue", number, line, "the state of a job")
        jobs.append(fields)
    return SlurmJobsFacts(tuple(jobs), _states(jobs))


def _queue_with_header(text: str) -> SlurmJobsFacts:
    (_, header), *lines = table_lines(text)
    names = _cells(header, header, "NAME") or []
    column = next((names.index(name) for name in ("ST", "STATE") if name in names), None)
    if column is None:
        raise unknown_form("squeue", header, "a column ST or STATE")
    jobs = []
    states: dict[str, int] = {}
    for number, line in lines:
        # The reason of a job that waits may hold blanks as its name may: '(launch failed ...)'.
        row = _REASON.sub(lambda reason: reason.group().replace(" ", "\0"), line)
        job = tuple(value.replace("\0", " ") for value in _cells(header, row, "NAME") or ())
        if len(job) != len(names):
            raise bad_line("squeue", number, line, f"{len(names)} columns")
        if not _is_job_state(job[column]):
            raise bad_line("squeue", number, line, "the state of a job")
        jobs.append(job)
        states[job[column]] = states.get(job[column], 0) + 1
    return SlurmJobsFacts(tuple(jobs), states)


def _is_job_state(text: str) -> bool:
    """In full, cut to the width of its column, or short (``R``, ``PD``)."""
    long = len(text) >= 4 and any(state.startswith(text) for state in _JOB_STATES)
    return long or _SHORT_STATE.fullmatch(text) is not None


def _states(jobs: list[tuple[str, ...]]) -> dict[str, int]:
    states: dict[str, int] = {}
    for job in jobs:
        state = next(field for field in job if field in _JOB_STATES)
        states[state] = states.get(state, 0) + 1
    return states
