"""What adapters do in place of the CPUs: ``ethtool -k``, of all interfaces at once.

With a star for the name one process tells of all of them, from ethtool 5.7 and kernel 5.6 on
(ethtool(8), ethtool netlink); what is older tells of no interface of that name.
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool import dispatch
from hfprov.evidence.ethtool.settings import Feature, Features
from hfprov.reading import Observation, Read, Source, command
from hfprov.regex import regex

_READ = command("ethtool", "-k", "*", timeout=5, limit=1 << 20)
_TOO_OLD = regex(r"No such device|not supported|bad command line|Invalid argument")


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    return (_READ,) if baseline.get("jumbo_mtu_interfaces") else ()


def _parse(seen: Observation, _: Baseline) -> Mapping[str, Mapping[str, Feature]] | None:
    result = seen.one(_READ)
    if result.status == "absent" or (result.ok and result.code and _TOO_OLD.search(result.stderr)):
        return None
    found = dispatch.parse(seen.text(_READ))
    told = found if isinstance(found, tuple) else (found,)
    features: dict[str, Mapping[str, Feature]] = {}
    for one in told:
        if not isinstance(one, Features) or one.interface is None:
            raise NotUnderstoodError("'ethtool -k' did not tell features of interfaces.")
        features[one.interface] = one.features
    return features


OFFLOADS: Source[Mapping[str, Mapping[str, Feature]] | None] = Source(
    "offloads of adapters", _reads, _parse
)
"""By interface and ethtool's name; None where ethtool is absent, or too old to tell of all."""
