"""Names are asked of somebody who is there. Whether a server elsewhere answers is not tried."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.resolver import PATH, RESOLVED, RESOLVER
from hfprov.verdict import Finding, Impact, failed, passed, warned

_EXPECTED = "a file, and whoever it names at work"


@check("node.resolver", reads=[RESOLVER], impact=Impact.MANUAL)
def resolver(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Without an answer each name that is not in /etc/hosts costs seconds, at every login too."""
    found = facts.get(RESOLVER)
    if not found.exists:
        reason = "Programs ask the node itself for names, where mostly nobody listens."
        # Without the file a site may run a resolver on each node; a link was to lead somewhere.
        tell = failed if found.link else warned
        observed = f"a link to '{found.link}', which is not there" if found.link else "absent"
        yield tell(PATH, observed=observed, expected=_EXPECTED, reason=reason)
    elif found.asks_resolved_alone and found.resolved not in ("active", "reloading"):
        observed = f"{', '.join(found.servers)}, and {RESOLVED} is {found.resolved}"
        reason = "Nobody listens there: no name of another machine is found but by /etc/hosts."
        yield failed(PATH, observed=observed, expected=_EXPECTED, reason=reason)
    else:
        yield passed(PATH, observed=_EXPECTED, expected=_EXPECTED)
