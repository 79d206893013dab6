"""Which machine this is: machine-id and the DMI identifiers."""

from __future__ import annotations

import re

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, Source, file
from hfprov.record.identity import Identity, meaningful

MACHINE_ID = file("/etc/machine-id", limit=256)
PRODUCT_UUID = file("/sys/class/dmi/id/product_uuid", limit=256)
PRODUCT_SERIAL = file("/sys/class/dmi/id/product_serial", limit=256)
READS = (MACHINE_ID, PRODUCT_UUID, PRODUCT_SERIAL)


def parse_machine_id(text: str) -> str:
    """A machine id, 32 hexadecimal digits (machine-id(5))."""
    machine_id = clean(text).strip().lower()
    if not re.fullmatch(r"[0-9a-f]{32}", machine_id) or not meaningful(machine_id):
        raise NotUnderstoodError(
            f"'/etc/machine-id' holds '{machine_id[:40]}', which is not a machine id.",
            hint="Run 'systemd-machine-id-setup' on the node.",
        )
    return machine_id


def _optional(seen: Observation, read: Read) -> str:
    try:
        return clean(seen.text(read)).strip()
    except NoEvidenceError:
        return ""  # no DMI (containers, some Arm boards), or not root


def parse(seen: Observation, _: Baseline) -> Identity:
    return Identity(
        machine_id=parse_machine_id(seen.text(MACHINE_ID)),
        product_uuid=_optional(seen, PRODUCT_UUID),
        serial=_optional(seen, PRODUCT_SERIAL),
    )


IDENTITY = Source("identity", lambda _: READS, parse)
