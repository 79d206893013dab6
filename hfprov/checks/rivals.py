"""What to say of settings that win over a role's own, and of who repairs them."""

from __future__ import annotations

from hfprov.baseline import Baseline
from hfprov.reading import Result

REPORT = "report"
"""Value of a role's variable ``…_rivals``: leave them to a person. The other is ``disable``."""


def why(what: str, variable: str, baseline: Baseline, path: str, result: Result | None) -> str:
    """The reason of a finding on a rival: ``what`` it does, and why no role repairs it if so.

    ``variable`` is the role's that says whether it may; ``result`` is what was read of the file.
    """
    if baseline[variable] == REPORT:
        return f"{what} '{variable}' is '{REPORT}': a person has to repair it."
    place = result.link if result is not None and result.link else path
    if not place.startswith("/etc/"):
        return f"{what} Roles change nothing outside '/etc': a person has to override it."
    return what
