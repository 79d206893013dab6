"""Errors that only the record raises."""

from __future__ import annotations

from hfprov.errors import RecordError


class HostIdentityError(RecordError):
    """Two inventory names lead to one machine; the second is not recorded as if it were another."""

    def __init__(self, host: str, other: str, why: str) -> None:
        super().__init__(
            f"Host '{host}' is the same machine as host '{other}' ({why}); "
            "its observation was not recorded.",
            hint=(
                f"If '{other}' was renamed to '{host}', forget '{other}' first. If they are two "
                "machines made from one image, give each its own machine-id."
            ),
        )
        self.host = host
        self.other = other
