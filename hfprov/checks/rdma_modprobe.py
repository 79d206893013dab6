"""What lines of others in modprobe.d do to the modules of RDMA; modprobe.d(5).

A helper of the check 'rdma.rivals'. Lines that ban a module are judged there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from hfprov.evidence.rdma_boot import Override
from hfprov.evidence.text import excerpt
from hfprov.regex import regex
from hfprov.verdict import Finding, failed, warned

_TAKERS = frozenset({"vfio_pci", "vfio", "pci_stub", "uio_pci_generic", "igb_uio"})
"""Drivers that hold a device for a virtual machine or for a program, away from the kernel."""
_VENDORS = ("15b3", "1dd8")
"""NVIDIA (Mellanox) and AMD (Pensando): all that these make for PCI is adapters and bridges."""
_REFUSING = regex(r"install \S+ (/usr)?/bin/(true|false)\b")
"""Bans; see hfprov.evidence.modprobe."""
_NAMESPACES = regex(r"options ib[-_]core .*\bnetns_mode\b")
EXPECTED = "nothing of the kind"


def judge_lines(
    lines: tuple[Override, ...], needed: Collection[str], *, netns_declared: bool
) -> Iterator[Finding]:
    """A finding for each line that changes how one of the ``needed`` modules is loaded or set."""
    for line in lines:
        if _NAMESPACES.match(line.statement):
            if netns_declared:
                reason = "It sets the mode of network namespaces, too: which line holds is chance."
                yield failed(line.where, observed=line.statement, expected=EXPECTED, reason=reason)
            continue
        kind, _, said = line.statement.partition(" ")
        named, _, given = said.partition(" ")
        name, rest = _module(named), given.split()
        if not rest:
            continue  # modprobe passes over it
        subject, observed = f"{line.where} {kind} {excerpt(named)}", excerpt(line.statement, 200)
        if reason := _why_wrong(kind, name, rest, needed):
            if not _REFUSING.match(line.statement):
                yield failed(subject, observed=observed, expected=EXPECTED, reason=reason)
        elif kind == "options" and name in needed:
            reason = "Nobody declared these options of the module, and another node may lack them."
            yield warned(subject, observed=observed, expected="no options", reason=reason)


def _module(name: str) -> str:
    """The name as modprobe takes it, which does not tell ``-`` and ``_`` apart."""
    return name.replace("-", "_")


def _why_wrong(kind: str, name: str, rest: list[str], needed: Collection[str]) -> str:
    given = {_module(word) for word in rest}
    if kind == "install" and name in needed:
        return "modprobe runs this command, and does not load the module that RDMA needs."
    if kind == "alias" and name in needed and name not in given:
        return "The name of a module that RDMA needs leads to another one."
    if kind == "alias" and _is_adapter(name) and given & _TAKERS:
        return "It gives adapters to a driver that holds them away from RDMA."
    if kind == "softdep" and name in needed and given & _TAKERS:
        return "A driver that holds devices away from RDMA is loaded before the adapter's own."
    if kind == "options" and name in _TAKERS and _names_an_adapter(rest):
        return "It gives adapters to a driver that holds them away from RDMA."
    return ""


def _is_adapter(alias: str) -> bool:
    """Whether an alias of a device, ``pci:v000015B3d…``, is of a vendor of adapters."""
    return alias.lower().startswith(tuple(f"pci:v0000{vendor}" for vendor in _VENDORS))


def _names_an_adapter(options: Iterable[str]) -> bool:
    ids = [one.partition("=")[2].lower() for one in options if one.startswith("ids=")]
    return any(one.startswith(_VENDORS) for text in ids for one in text.split(","))
