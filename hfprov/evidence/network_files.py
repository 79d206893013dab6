"""Network configuration of whatever kind: netplan, ifcfg, nmcli. Recognised from the text."""

from __future__ import annotations

import re

from hfprov.evidence import ifcfg, netplan, nmcli
from hfprov.evidence.host_values import unknown_form
from hfprov.evidence.text import clean
from hfprov.regex import regex

_NETPLAN = regex(r"^(?:network|\"network\"):", re.MULTILINE)
_NMCLI = regex(r"^(?:GENERAL\.|connection\.)[A-Za-z-]+:", re.MULTILINE)
_IFCFG = regex(r"^(?:export )?[A-Z_][A-Z0-9_]*=", re.MULTILINE)


def parse(text: str) -> netplan.NetplanFacts | ifcfg.IfcfgFacts | nmcli.NmcliFacts:
    """Facts from a network configuration."""
    plain = clean(text)
    if _NMCLI.search(plain):
        return nmcli.parse(plain)
    if _NETPLAN.search(plain):
        return netplan.parse(plain)
    if _IFCFG.search(plain):
        return ifcfg.parse(plain)
    raise unknown_form(
        "the network configuration", plain, "netplan YAML, an ifcfg file or nmcli output"
    )
