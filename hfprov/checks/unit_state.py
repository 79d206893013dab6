"""What to say of a unit that is not enabled: for ever, or only until the next boot."""

from __future__ import annotations

_UNTIL_BOOT = {
    "masked-runtime": (
        "It is masked until the next boot: nothing can start it before, or start it anew."
    ),
    "enabled-runtime": "It is enabled until the next boot only.",
    "linked-runtime": "Its file is linked in '/run': it is gone after a reboot.",
}
"""By ``UnitFileState``, systemctl(1): what is below ``/run`` does not outlive a boot."""


def why_not_enabled(state: str, otherwise: str) -> str:
    """The reason of a finding on a unit's ``UnitFileState``.

    >>> why_not_enabled("disabled", "chrony is not started at boot.")
    'chrony is not started at boot.'
    """
    return _UNTIL_BOOT.get(state, otherwise)
