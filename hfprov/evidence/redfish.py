"""Documents of a BMC's Redfish service: firmware inventory, systems, memory, sensors, logs.

One document at a time, as GET returned it, or with ``$expand``. The schema is recognised from
``@odata.type``, not from the URI: vendors name things differently (Dell ``Installed-25227-…``,
NVIDIA ``HGX_FW_ERoT_BMC_0``, Lenovo ``BMC-Backup``). Source: DMTF DSP0266 and DSP2046.
"""

from __future__ import annotations

from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import (
    json_count,
    json_value,
    mapping,
    optional_bool,
    optional_text,
    sequence,
)
from hfprov.evidence.redfish_facts import LogEntry, RedfishFacts
from hfprov.evidence.redfish_resources import read_resource, type_name
from hfprov.evidence.text import excerpt


def parse(text: str) -> RedfishFacts:
    """Facts from one Redfish document.

    Raises NotUnderstoodError for an error document, with the BMC's words.
    """
    document = mapping(json_value(text, "Redfish"), "A Redfish document")
    if "error" in document and "@odata.id" not in document:
        raise _refused(document["error"])
    if "@odata.type" not in document:
        raise NotUnderstoodError("This JSON document has no '@odata.type': it is not from Redfish.")
    resource = read_resource(document)
    if "Members" not in document:
        return RedfishFacts(resource, (), (), (), None, complete=True)
    return _collection(document, is_log=type_name(document) == "LogEntryCollection")


def _refused(error: Any) -> NotUnderstoodError:
    said = ""
    if isinstance(error, dict):
        infos = error.get("@Message.ExtendedInfo")
        first = infos[0] if isinstance(infos, list) and infos else None
        if isinstance(first, dict) and isinstance(first.get("Message"), str):
            said = first["Message"]
        elif isinstance(error.get("message"), str):
            said = error["message"]
    return NotUnderstoodError(f"The BMC answered with an error: '{excerpt(said or 'no message')}'.")


def _collection(document: dict[str, Any], *, is_log: bool) -> RedfishFacts:
    members = sequence(document["Members"], "'Members'")
    announced = document.get("Members@odata.count")
    count = None if announced is None else json_count(announced, "'Members@odata.count'")
    uris: list[str] = []
    resources = []
    entries = []
    for item in members:
        member = mapping(item, "A member")
        uri = optional_text(member.get("@odata.id"), "'@odata.id' of a member")
        if uri is not None:
            uris.append(uri)
        if is_log and "@odata.type" in member:
            entries.append(_log_entry(member))
        elif "@odata.type" in member:
            resources.append(read_resource(member))
        elif uri is None:
            raise NotUnderstoodError(
                "A member of the collection has neither content nor '@odata.id'."
            )
    next_page = document.get("Members@odata.nextLink", document.get("@odata.nextLink"))
    return RedfishFacts(
        resource=read_resource(document),
        members=tuple(resources),
        member_uris=tuple(uris),
        entries=tuple(entries),
        announced=count,
        complete=count is not None and count == len(members) and next_page is None,
    )


def _log_entry(member: dict[str, Any]) -> LogEntry:
    return LogEntry(
        id=optional_text(member.get("Id"), "'Id' of a log entry") or "",
        created=optional_text(member.get("Created"), "'Created' of a log entry"),
        severity=optional_text(member.get("Severity"), "'Severity' of a log entry"),
        message=optional_text(member.get("Message"), "'Message' of a log entry") or "",
        message_id=optional_text(member.get("MessageId"), "'MessageId' of a log entry"),
        resolved=optional_bool(member.get("Resolved"), "'Resolved' of a log entry"),
    )
