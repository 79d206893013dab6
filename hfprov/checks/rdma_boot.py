"""Units and the rule of udev that load RDMA, and set again what adapters forget.

Repairs that have systemd reload are ``DRAIN``: with systemd-managed control groups a reload takes
the accelerators away from running containers (NVIDIA container toolkit, report 48).
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.rdma_boot import (
    ENABLED_INSTANCES,
    SERVICE,
    TEMPLATES,
    UDEV_FILE,
    UNITS,
    WRITTEN,
    instance_units,
)
from hfprov.evidence.rdma_settings import declared_addresses
from hfprov.evidence.systemd import parse_settings, property_of
from hfprov.verdict import Finding, Impact, compared, failed, passed

ROLE, LEAVE = "rdma", "leave"
QOS = ("rdma_qos_tool", "rdma_dscp_priorities", "rdma_pfc_priorities", "rdma_ecn_priorities")
PCI = ("rdma_max_read_request_bytes", "rdma_relaxed_ordering", "rdma_acs_off_bridges")
ROCE = ("rdma_roce_mode", "rdma_roce_tos")
ROCE_TYPES = {"v1": "IB/RoCE v1", "v2": "RoCE v2"}
"""What the kernel calls them; drivers/infiniband/core/cache.c, gid_type_str."""
_READ_REQUESTS = ("128", "256", "512", "1024", "2048", "4096")
_CONTAINER = "[Unit] ConditionVirtualization=!container"


def dscp_priorities(baseline: Baseline) -> dict[int, int]:
    """The declared priority by DSCP, in order; keys of a mapping may be text."""
    pairs = dict(baseline["rdma_dscp_priorities"]).items()
    return dict(sorted((int(dscp), int(priority)) for dscp, priority in pairs))


def numbers(baseline: Baseline, variable: str) -> list[int]:
    return sorted(int(one) for one in baseline[variable])


def _before(baseline: Baseline) -> Iterator[str]:
    names = [f"{name}.service" for name in baseline["rdma_before_services"]]
    if names:
        yield f"[Unit] Before={' '.join(names)}"


def _of_service(baseline: Baseline) -> Iterator[str]:
    size, ordering = (str(baseline[name]) for name in PCI[:2])
    yield (
        "[Unit] Description=Load RDMA modules before what uses them, and set what PCI devices "
        "forget"
    )
    yield _CONTAINER
    yield "[Unit] After=systemd-modules-load.service rdma-hw.target"
    yield from _before(baseline)
    yield from ("[Service] Type=oneshot", "[Service] RemainAfterExit=yes")
    run = "[Service] ExecStart="
    yield f"{run}modprobe --all {' '.join(map(str, baseline['rdma_modules']))}"
    for address in declared_addresses(baseline):
        if size in _READ_REQUESTS:
            yield f"{run}setpci -s {address} CAP_EXP+8.w={_READ_REQUESTS.index(size)}000:7000"
        if ordering != LEAVE:
            bit = "0010" if ordering == "enabled" else "0000"
            yield f"{run}setpci -s {address} CAP_EXP+8.w={bit}:0010"
    for bridge in baseline["rdma_acs_off_bridges"]:
        yield f"{run}setpci -s {bridge} ECAP_ACS+6.w=0000:000c"
    yield "[Install] WantedBy=multi-user.target"


def _of_interface(baseline: Baseline) -> Iterator[str]:
    yield "[Unit] Description=Set RoCE mode and priorities of %I as declared"
    yield _CONTAINER
    yield (
        "[Unit] After=hfprov-rdma.service sys-subsystem-net-devices-%i.device "
        "sys-kernel-config.mount"
    )
    yield from _before(baseline)
    yield from ("[Unit] StartLimitIntervalSec=0", "[Service] Type=oneshot")
    yield "[Service] ExecStart=-udevadm settle --timeout=30"
    yield from (f"[Service] ExecStart={line}" for line in _of_roce(baseline))
    yield from (f"[Service] ExecStart={line}" for line in _of_priorities(baseline))
    for priority in numbers(baseline, "rdma_ecn_priorities"):
        on = "; ".join(f"echo 1 >{side}/enable/{priority}" for side in ("roce_np", "roce_rp"))
        yield f"[Service] ExecStart=/bin/sh -ec 'cd /sys/class/net/$$1/ecn; {on}' sh %I"
    yield "[Install] WantedBy=multi-user.target sys-subsystem-net-devices-%i.device"


def _of_roce(baseline: Baseline) -> Iterator[str]:
    mode, tos = (str(baseline[name]) for name in ROCE)
    if (mode, tos) == (LEAVE, LEAVE):
        return
    set_mode = "" if mode == LEAVE else f'echo "{ROCE_TYPES[mode]}" >default_roce_mode; '
    set_tos = "" if tos == LEAVE else f"echo {tos} >default_roce_tos; "
    yield (
        "/bin/sh -ec 'found=; for port in /sys/class/infiniband/*/ports/*; do "
        'grep -qsxF "$$1" "$$port"/gid_attrs/ndevs/* || continue; '
        'found=yes; number=$$(basename "$$port"); '
        'device=$$(basename "$$(dirname "$$(dirname "$$port")")"); '
        "mkdir -p /sys/kernel/config/rdma_cm/$$device; "
        f"cd /sys/kernel/config/rdma_cm/$$device/ports/$$number; {set_mode}{set_tos}done; "
        '[ "$$found" ] || { echo "No RDMA device has the interface $$1." >&2; exit 1; }\' sh %I'
    )


def _of_priorities(baseline: Baseline) -> Iterator[str]:
    tool, dscp = baseline["rdma_qos_tool"], dscp_priorities(baseline)
    pfc = numbers(baseline, "rdma_pfc_priorities")
    if tool == "dcb":
        yield "dcb app flush dev %I dscp-prio"
        if dscp:
            pairs = " ".join(f"{one}:{priority}" for one, priority in dscp.items())
            yield f"dcb app add dev %I dscp-prio {pairs}"
        yield " ".join(
            ["dcb pfc set dev %I prio-pfc all:off", *(f"{priority}:on" for priority in pfc)]
        )
    elif tool == "mlnx_qos":
        yield f"mlnx_qos -i %I --trust {'dscp' if dscp else 'pcp'}"
        for one, priority in dscp.items():
            yield f"mlnx_qos -i %I --dscp2prio set,{one},{priority}"
        yield f"mlnx_qos -i %I --pfc {','.join('01'[n in pfc] for n in range(8))}"


def _of_rxe(_: Baseline) -> Iterator[str]:
    yield "[Unit] Description=Soft-RoCE device on %I"
    yield _CONTAINER
    yield "[Unit] After=hfprov-rdma.service sys-subsystem-net-devices-%i.device"
    yield "[Unit] Before=hfprov-rdma@%i.service"
    yield from ("[Service] Type=oneshot", "[Service] ExecStart=modprobe rdma_rxe")
    yield (
        '[Service] ExecStart=/bin/sh -ec \'grep -qsxF "$$1" /sys/class/infiniband/*/parent || '
        'rdma link add "rxe_$$1" type rxe netdev "$$1"\' sh %I'
    )
    yield "[Install] WantedBy=multi-user.target sys-subsystem-net-devices-%i.device"


def _settings(text: str) -> list[str]:
    settings, strange = parse_settings(text, "")
    return [" ".join(one.statement.split()) for one in settings] + list(strange)


@check(
    "rdma.unit",
    reads=[WRITTEN, UNITS, ENABLED_INSTANCES],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=[
        "rdma_modules",
        "rdma_before_services",
        "rdma_devices",
        "rdma_interfaces",
        "rdma_rxe_interfaces",
        *ROCE,
        *QOS,
        *PCI,
    ],
)
def unit(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The units' files, that they are started at boot, and how their last run ended."""
    written = (_of_service, _of_interface, _of_rxe)
    for name, wanted in zip((SERVICE, *TEMPLATES), written, strict=True):
        path = f"/etc/systemd/system/{name}"
        yield judge_written_file(
            path, facts.get(WRITTEN)[path], wanted=wanted(baseline), statements=_settings
        )
    units = facts.get(UNITS)
    for name in (SERVICE, *instance_units(baseline)):
        for key, expected, reason in (
            ("UnitFileState", "enabled", "The unit is not started at boot."),
            ("NeedDaemonReload", "no", "systemd has not read the unit since it changed."),
            ("Result", "success", "It failed when it was last started; see its journal."),
        ):
            observed = property_of(units[name], key)
            yield compared(f"{name} {key}", observed=observed, expected=expected, reason=reason)
    left = sorted(facts.get(ENABLED_INSTANCES) - set(instance_units(baseline)))
    for name in left:
        reason = "The unit is of an interface that is not declared, and sets it at boot."
        yield failed(name, observed="enabled", expected="not there", reason=reason)
    if not left:
        yield passed("other interfaces", observed="none enabled", expected="none enabled")


@check(
    "rdma.udev",
    reads=[WRITTEN],
    role=ROLE,
    impact=Impact.NONE,
    judges=["rdma_interfaces"],
)
def udev(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The rule that starts the units again when a device appears."""
    names = [str(name) for name in baseline["rdma_interfaces"]]
    units = {name: f"hfprov-rdma@{name}.service" for name in names}
    wants = 'TAG+="systemd", ENV{SYSTEMD_WANTS}+='
    wanted = []
    if names:
        every = " ".join(units.values())
        wanted.append(f'ACTION=="add", SUBSYSTEM=="infiniband", {wants}"{every}"')
    wanted += [
        f'ACTION=="add|move", SUBSYSTEM=="net", NAME=="{name}", {wants}"{units[name]}"'
        for name in names
    ]
    yield judge_written_file(
        UDEV_FILE, facts.get(WRITTEN)[UDEV_FILE], wanted=wanted, statements=_rules
    )


def _rules(text: str) -> list[str]:
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line and line[0] != "#"]
