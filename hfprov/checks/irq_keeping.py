"""What puts interrupts in their place and keeps them there: scripts, units, udev, irqbalance."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hfprov.baseline import Baseline
from hfprov.checks.irq_scope import ROLE, interfaces
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.irq_files import (
    BALANCER,
    CONFIG,
    DIRECTORIES,
    DROP_IN,
    ETHTOOL,
    FILES,
    IRQBALANCE,
    LIBRARY,
    POLICY,
    RULES,
    SCRIPTS,
    TIMER,
    UNIT,
    UNITS,
    digest,
)
from hfprov.evidence.system import MACHINE, Machine
from hfprov.evidence.systemd import parse_settings, property_of
from hfprov.reading import Result
from hfprov.regex import regex
from hfprov.verdict import Finding, Impact, compared, failed, passed, unknown

DECLARED = (
    "channels",
    "coalescing",
    "interfaces",
    "reserved_cpus",
    "ring_rx",
    "ring_tx",
    "rps",
    "smt",
    "xps",
)
"""Keys of the scripts' configuration, in its order; each is a variable of the role."""
DIGESTS = {
    "irq_plan.py": "8ed972dfeaef3155adb445946bd4713ed272582f55018e567c58899796ae0321",
    "irq_affinity.py": "012c39ffdf7ac16969bd85f58fdbc9639aa5a60ddf41e4e1cab82ebb7a9c7549",
    "irqbalance_policy.sh": "0ddf3693725cd183b357644c0bef57a03eb1f8884a82874f3a6b55f5fa798d48",
}
"""SHA-256 of the role's scripts; of the policy without the line that names the interfaces."""
RULE = (
    'ACTION=="add|move", SUBSYSTEM=="net", SUBSYSTEMS=="pci", TAG+="systemd", '
    f'ENV{{SYSTEMD_WANTS}}+="{UNIT}"'
)
UNIT_STATEMENTS = {
    UNIT: (
        "[Unit] Description=Spread interrupts of the data NICs over the cores near them",
        "[Unit] ConditionVirtualization=!container",
        "[Unit] After=network.target network-online.target rdma-hw.target irqbalance.service",
        "[Unit] StartLimitIntervalSec=0",
        "[Service] Type=oneshot",
        f"[Service] ExecStart=/usr/bin/python3 -B -E -s {LIBRARY}/irq_affinity.py apply",
        "[Service] TimeoutStartSec=300",
        "[Install] WantedBy=multi-user.target",
    ),
    TIMER: (
        "[Unit] Description=Put interrupts of the data NICs back where they belong",
        "[Unit] ConditionVirtualization=!container",
        "[Timer] OnActiveSec=60",
        "[Timer] OnUnitInactiveSec=60",
        "[Timer] AccuracySec=10",
        "[Install] WantedBy=timers.target",
    ),
}
_BALANCER = "/usr/sbin/irqbalance --foreground"
DROP_IN_STATEMENTS = (
    "[Service] ExecStart=",
    f"[Service] ExecStart={_BALANCER} $IRQBALANCE_ARGS $OPTIONS --policyscript={POLICY}",
)
_EXECUTABLE, _DIRECTORY = 0o755, 0o755
_DATA_LINE = regex(r"^data='.*'$", re.MULTILINE)


def _settings(text: str) -> list[str]:
    settings, strange = parse_settings(text, "")
    return [setting.statement for setting in settings] + list(strange)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _json_statements(text: str) -> list[str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ["no JSON"]
    return _entries(document) if isinstance(document, dict) else ["no JSON object"]


def _entries(document: dict[str, Any]) -> list[str]:
    return [f"{key}: {json.dumps(document[key], sort_keys=True)}" for key in sorted(document)]


def policy_statements(text: str) -> list[str]:
    """The line that names the interfaces, and the digest of all the others."""
    return [*_DATA_LINE.findall(text), digest(_DATA_LINE.sub("", text))]


@check(
    "irq.files",
    reads=[FILES],
    role=ROLE,
    impact=Impact.NONE,
    judges=[f"irq_affinity_{key}" for key in DECLARED],
)
def files(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The scripts, their configuration, the udev rule, their directories, and ethtool."""
    found = facts.get(FILES)
    for path in SCRIPTS:
        wanted = [DIGESTS[path.rpartition("/")[2]]]
        yield judge_written_file(
            path, found[path], wanted=wanted, statements=lambda text: [digest(text)]
        )
    declared = {key: baseline[f"irq_affinity_{key}"] for key in DECLARED}
    declared["interfaces"] = list(interfaces(baseline))
    yield judge_written_file(
        CONFIG, found[CONFIG], wanted=_entries(declared), statements=_json_statements
    )
    yield judge_written_file(RULES, found[RULES], wanted=[RULE], statements=_lines)
    for path in DIRECTORIES:
        yield _directory(path, found[path])
    there = found[ETHTOOL].status != "absent"
    yield compared(
        "ethtool",
        observed="installed" if there else "absent",
        expected="installed",
        reason="Without it queues are neither set nor read.",
    )


def _directory(path: str, result: Result) -> Finding:
    expected = f"directory, {_DIRECTORY:04o} 0:0"
    if result.status == "absent":
        reason = "The directory is not there, and nothing that was in it."
        return failed(path, observed="absent", expected=expected, reason=reason)
    if not result.ok:
        return unknown(path, reason=f"It could not be read: {result.stderr}", expected=expected)
    kind = "link" if result.link else {"dir": "directory"}.get(result.type, "file")
    observed = f"{kind}, {result.mode or 0:04o} {result.uid}:{result.gid}"
    reason = "Others could put a script of their own in the place of the role's."
    return compared(path, observed=observed, expected=expected, reason=reason)


@check("irq.units", reads=[MACHINE, FILES, UNITS], role=ROLE, impact=Impact.DRAIN)
def units(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The service and its timer: as written, started at boot, and known to systemd.

    ``DRAIN``: their repair has systemd reload, which can take accelerators away from running
    containers.
    """
    for name, statements in UNIT_STATEMENTS.items():
        path = f"/etc/systemd/system/{name}"
        result = facts.get(FILES)[path]
        yield judge_written_file(path, result, wanted=statements, statements=_settings)
        unit = facts.get(UNITS)[name]
        rows = [
            ("UnitFileState", "enabled", "It is not started at boot."),
            ("NeedDaemonReload", "no", "systemd has not read it since it changed."),
            ("DropInPaths", "", "A drop-in changes what it does."),
        ]
        if name == UNIT:
            rows.append(("Result", "success", "It failed when it last ran; see its journal."))
        elif facts.get(MACHINE) is not Machine.CONTAINER:
            rows.append(("ActiveState", "active", "The timer does not run."))
        for key, expected, reason in rows:
            observed = property_of(unit, key)
            yield compared(f"{name} {key}", observed=observed, expected=expected, reason=reason)


@check(
    "irq.irqbalance",
    reads=[FILES, UNITS, BALANCER],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=["irq_affinity_interfaces"],
)
def irqbalance(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's script is asked about each interrupt, now and whenever irqbalance starts."""
    found = facts.get(FILES)
    yield judge_written_file(
        DROP_IN, found[DROP_IN], wanted=DROP_IN_STATEMENTS, statements=_settings
    )
    yield judge_written_file(
        POLICY,
        found[POLICY],
        wanted=[f"data=' {' '.join(interfaces(baseline))} '", DIGESTS[POLICY.rpartition("/")[2]]],
        statements=policy_statements,
        mode=_EXECUTABLE,
    )
    unit = facts.get(UNITS)[IRQBALANCE]
    if property_of(unit, "LoadState") == "not-found":
        yield passed(IRQBALANCE, observed="not installed", expected="asks the role's script")
        return
    yield compared(
        f"{IRQBALANCE} NeedDaemonReload",
        observed=property_of(unit, "NeedDaemonReload"),
        expected="no",
        reason="systemd has not read the drop-in since it changed.",
    )
    yield _last_policy(IRQBALANCE, re.findall(r"\S+", property_of(unit, "ExecStart")))
    running = facts.get(BALANCER)
    if running is not None:
        yield _last_policy("irqbalance, running", list(running))


def _last_policy(subject: str, words: list[str]) -> Finding:
    """Of several policies on a command line the last one counts."""
    given = [
        following if word in ("-l", "--policyscript") else word.partition("=")[2]
        for word, following in zip(words, [*words[1:], ""], strict=True)
        if word in ("-l", "--policyscript") or word.startswith("--policyscript=")
    ]
    reason = "irqbalance does not ask the role's script: it moves the interrupts within seconds."
    observed = given[-1] if given else "no policy script"
    return compared(subject, observed=observed, expected=POLICY, reason=reason)
