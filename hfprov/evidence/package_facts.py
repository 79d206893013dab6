"""What a package manager says."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

NOT_CLOSED = "The last row is not closed: the list may be cut off."


class Manager(StrEnum):
    """Who answered."""

    DPKG = "dpkg"
    RPM = "rpm"


class PackageState(StrEnum):
    """What is there of a package."""

    INSTALLED = "installed"
    CONFIG_FILES = "config-files"
    """Removed; its configuration is left."""
    NOT_INSTALLED = "not-installed"
    BROKEN = "broken"
    """Unpacked, half installed or half configured: an operation did not end."""
    TRIGGERS = "triggers"
    """Installed; triggers wait for or are pending on it."""


class Package(Struct, frozen=True):
    """One package. None: not in this form."""

    name: str
    epoch: str | None
    version: str
    """dpkg: with epoch and revision, as printed. rpm: the version alone."""
    release: str | None
    architecture: str | None
    state: PackageState
    codes: str
    """dpkg's letters: ``ii``, ``hi``, ``iHR``. Empty for rpm."""
    cut: tuple[str, ...]
    """Columns that are as wide as the table: ``name`` and ``version`` may have lost their end."""

    @property
    def is_held(self) -> bool | None:
        """Whether dpkg holds it; None for rpm, which keeps that elsewhere."""
        return self.codes.startswith("h") if self.codes else None


class PackageFacts(Struct, frozen=True):
    """A list of packages."""

    manager: Manager
    packages: tuple[Package, ...]
    errors: tuple[str, ...]
    """What the package manager complained about: with errors the list is not whole."""
    unread: tuple[str, ...]
    """Lines that are no package and no message."""
    notes: tuple[str, ...]
    """What else is to be known of the list: its last row is not closed."""

    @property
    def is_whole(self) -> bool:
        return not self.errors and not self.unread

    def versions(self, name: str) -> tuple[Package, ...]:
        """All packages of that name: kernels are installed side by side."""
        return tuple(package for package in self.packages if package.name == name)
