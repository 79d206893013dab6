"""The kernel log of the present boot, from the journal, else from the kernel's own buffer."""

from __future__ import annotations

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.kernel_log.log import KernelLog, parse
from hfprov.reading import Observation, Read, Source, command

LINES = 20_000
"""The newest lines that are read: weeks of a healthy node, minutes of a raving one."""
JOURNAL = command(
    "journalctl", "-k", "-b", "-o", "short-iso-precise", "--no-pager", "-n", str(LINES),
    timeout=30, limit=4 << 20,
)  # fmt: skip
DMESG = command("dmesg", timeout=10, limit=2 << 20)


class BootLog(Struct, frozen=True):
    """Events of the present boot, and whether all of it was seen."""

    log: KernelLog
    gap: str = ""
    """Why "nothing happened" cannot be said of this boot; empty when the whole log was read."""


def _parse(seen: Observation, _: Baseline) -> BootLog:
    """The log from whichever source has one. Raises NoEvidenceError when neither has."""
    reasons = []
    for read in (JOURNAL, DMESG):
        try:
            return boot_log(seen, read)
        except (NoEvidenceError, NotUnderstoodError) as error:
            reasons.append(error.message)
    raise NoEvidenceError("There is no kernel log to read: " + " ".join(reasons))


KERNEL_LOG: Source[BootLog] = Source("kernel log", lambda _: (JOURNAL, DMESG), _parse)


def boot_log(seen: Observation, read: Read) -> BootLog:
    """The log as one command printed it. What was cut off is read; that it was cut off is said."""
    result = seen.one(read)
    if not result.truncated:
        seen.text(read)  # says what is wrong with it, if anything is
    elif result.status != "ok":
        raise NoEvidenceError(f"'{read}' was cut off: {result.stderr or result.status}")
    return with_gap(parse(result.text), cut_off=result.truncated)


def with_gap(log: KernelLog, *, cut_off: bool = False) -> BootLog:
    """A log with the reason, if there is one, why it does not show the whole boot."""
    if not log.lines:
        raise NoEvidenceError("The kernel log has no lines.")
    if cut_off:
        return BootLog(log, "The kernel log is longer than what is read of it.")
    if log.lines >= LINES:
        return BootLog(log, f"Only the newest {LINES} lines of the kernel log were read.")
    if not log.from_boot:
        return BootLog(log, "The kernel log does not reach back to the boot of the node.")
    return BootLog(log)
