"""What loads RDMA at boot: the role's files and units, and what of others wins over them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.modprobe import DIRECTORIES, parse_statements
from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import ShowUnits, shown_units, units
from hfprov.reading import Observation, Result, Source, complete_text, file, listing
from hfprov.regex import regex

SERVICE = "hfprov-rdma.service"
TEMPLATES = ("hfprov-rdma@.service", "hfprov-rxe@.service")
MODULES_FILE = "/etc/modules-load.d/hfprov-rdma.conf"
MODPROBE_FILE = "/etc/modprobe.d/hfprov-rdma.conf"
UDEV_FILE = "/etc/udev/rules.d/90-hfprov-rdma.rules"
_FILES = tuple(
    file(path)
    for path in (
        MODULES_FILE,
        MODPROBE_FILE,
        UDEV_FILE,
        *(f"/etc/systemd/system/{name}" for name in (SERVICE, *TEMPLATES)),
    )
)
_INSTANCES = tuple(
    listing(f"/etc/systemd/system/*.wants/hfprov-{kind}@*.service") for kind in ("rdma", "rxe")
)
_UDEV = tuple(listing(f"/{place}/udev/rules.d/*.rules") for place in ("etc", "run"))
_PROPERTIES = ("LoadState", "UnitFileState", "NeedDaemonReload", "Result", "DropInPaths")
_RULE = regex(r"[0-9]+-rdma-(?!persistent-naming)[a-z0-9-]+\.rules")
"""Names of devices are everybody's own choice: nothing here goes by them."""
_NAMES = regex(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,14}")

WRITTEN: Source[Mapping[str, Result]] = Source(
    "files of the role rdma",
    lambda _: _FILES,
    lambda seen, _: {read.request["path"]: seen.one(read) for read in _FILES},
)
"""By path, those that are not there too."""


def instance_units(baseline: Baseline) -> tuple[str, ...]:
    """The role's units of declared interfaces: ``hfprov-rdma@eth1.service``."""
    wanted = (("rxe", "rdma_rxe_interfaces"), ("rdma", "rdma_interfaces"))
    return tuple(
        f"hfprov-{kind}@{name}.service"
        for kind, variable in wanted
        for name in map(str, baseline.get(variable, ()))
        if _NAMES.fullmatch(name)
    )


def _show(baseline: Baseline) -> ShowUnits:
    return units(SERVICE, *instance_units(baseline), properties=_PROPERTIES)


UNITS: Source[Mapping[str, Properties]] = Source(
    "units of the role rdma",
    lambda baseline: (_show(baseline),),
    lambda seen, baseline: shown_units(seen, _show(baseline))[1],
)
"""The boot's unit and those of declared interfaces, by name."""


def _parse_instances(seen: Observation, _: Baseline) -> frozenset[str]:
    return frozenset(
        result.name.rpartition("/")[2]
        for read in _INSTANCES
        for result in seen.each(read)
        if result.status != "absent"
    )


ENABLED_INSTANCES: Source[frozenset[str]] = Source(
    "enabled units of interfaces", lambda _: _INSTANCES, _parse_instances
)


class Override(Struct, frozen=True):
    """Something of others that changes what is loaded or set."""

    where: str
    statement: str


def _parse_lines(seen: Observation, _: Baseline) -> tuple[Override, ...]:
    names: set[str] = set()
    found: list[Override] = []
    for read in DIRECTORIES:
        for result in seen.each(read):
            name = result.name.rpartition("/")[2]
            if name in names or result.name == MODPROBE_FILE:
                continue
            names.add(name)
            text = complete_text(read, result) if result.type == "file" else ""
            found += [Override(result.name, line) for line in parse_statements(text)]
    return tuple(found)


MODPROBE_LINES: Source[tuple[Override, ...]] = Source(
    "lines of modprobe.d", lambda _: DIRECTORIES, _parse_lines
)
"""Of all files but the role's that modprobe reads: one hides those of its name in later places."""


def _parse_rules(seen: Observation, _: Baseline) -> tuple[Override, ...]:
    """Files that replace or hide a rule of rdma-core which loads modules, by having its name."""
    found = []
    for read in _UDEV:
        for result in seen.each(read):
            name = result.name.rpartition("/")[2]
            if _RULE.fullmatch(name):
                hidden = result.link == "/dev/null"
                found.append(Override(result.name, "hides the rule" if hidden else "replaces it"))
    return tuple(found)


UDEV_OVERRIDES: Source[tuple[Override, ...]] = Source(
    "rules of udev on RDMA", lambda _: _UDEV, _parse_rules
)
