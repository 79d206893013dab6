"""Lists and masks of CPUs as the kernel and its tools write them.

``0-3,8,10-11`` (sysfs, procfs), ``0-62:2`` (lscpu, every second), ``0-31:2/8`` (kernel, groups of
two out of every eight), ``ff,ffffffff`` (masks in groups of 32 bits) and ``0xff`` (lscpu -x).
Source: the kernel's Documentation/admin-guide/kernel-parameters.rst, section "cpu lists".
"""

from __future__ import annotations

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

MAX_CPUS = 65536
"""Linux supports 8192 CPUs on the largest configurations; a list that names more is garbage."""

_GROUP_DIGITS = 8
_PART = regex(r"([0-9]{1,9})(?:-([0-9]{1,9}))?(?::([0-9]{1,9})(?:/([0-9]{1,9}))?)?")
_MASK = regex(r"(?:0[xX])?[0-9a-fA-F]+(?:,[0-9a-fA-F]*)*")


def parse_cpulist(text: str) -> tuple[int, ...]:
    """The CPU numbers in a list, ascending. An empty list is no CPU (a memory-only node).

    Raises NotUnderstoodError for anything else, and for numbers beyond MAX_CPUS.
    """
    plain = text.strip()
    if not plain:
        return ()
    if plain.lower().startswith("0x"):
        return parse_cpumask(plain)
    cpus: set[int] = set()
    for part in plain.split(","):
        cpus.update(_part(part.strip(), plain))
        if len(cpus) > MAX_CPUS:
            raise NotUnderstoodError(f"The CPU list '{excerpt(plain, 40)}' is too long.")
    return tuple(sorted(cpus))


def _part(part: str, whole_list: str) -> range | list[int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise NotUnderstoodError(
            f"'{excerpt(part, 40)}' in the CPU list '{excerpt(whole_list, 40)}' is no CPU number "
            "and no range."
        )
    first, last, step, group = (None if item is None else int(item) for item in match.groups())
    if first is None:  # the expression always has it; this is for the type checker
        raise NotUnderstoodError(f"'{part}' has no first CPU.")
    last = first if last is None else last
    if last < first or last >= MAX_CPUS:
        raise NotUnderstoodError(
            f"The CPU range '{excerpt(part, 40)}' runs backwards or beyond CPU {MAX_CPUS - 1}."
        )
    if step == 0 or group == 0:
        raise NotUnderstoodError(f"The CPU range '{excerpt(part, 40)}' has a step of zero.")
    if group is not None:
        used = step or 1
        return [cpu for cpu in range(first, last + 1) if (cpu - first) % group < used]
    return range(first, last + 1, step or 1)


def parse_cpumask(text: str) -> tuple[int, ...]:
    """The CPU numbers in a hexadecimal mask: ``ff``, ``0xff`` or groups of 32 bits with commas.

    An empty group (``00080000,,,,0``) is what a broken script writes; the kernel refuses it too.
    """
    plain = text.strip()
    if len(plain) > MAX_CPUS // 2 or _MASK.fullmatch(plain) is None:
        raise NotUnderstoodError(f"'{excerpt(plain, 40)}' is not a CPU mask.")
    digits = plain[2:] if plain[:2].lower() == "0x" else plain
    groups = digits.split(",")
    if any(not group or len(group) > _GROUP_DIGITS for group in groups[1:]):
        raise NotUnderstoodError(f"A group of the CPU mask '{excerpt(plain, 40)}' is not 32 bits.")
    joined = groups[0] + "".join(group.rjust(_GROUP_DIGITS, "0") for group in groups[1:])
    value = int(joined, 16)
    if value.bit_length() > MAX_CPUS:
        raise NotUnderstoodError(f"The CPU mask '{excerpt(plain, 40)}' is too long.")
    bits = bin(value)[:1:-1]
    return tuple(cpu for cpu, bit in enumerate(bits) if bit == "1")
