"""Where keys, trusted signers and the index of certificates are. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

SYSTEM_SIGNERS = Path("/etc/hfprov/allowed_signers")
"""Trusted before the one beside the record: only root may write there."""


def state_dir() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "hfprov"


def home_of(record: str | None) -> Path:
    """The folder of a record's certificates: beside its file, or in the state directory.

    ``record`` is the path or URL of the record; None is the default record.
    """
    named = os.environ.get("HFPROV_CERTIFICATES")
    if named:
        return Path(named)
    if record is None or "://" in record:
        return state_dir() / "record.certificates"
    return Path(record).expanduser().absolute().with_suffix(".certificates")


def index_in(home: Path) -> Path:
    return home / "index.json"


def key_in(home: Path) -> Path:
    return home / "signing_key"


def signers_for(home: Path, named: Path | None = None) -> Path:
    """The file of allowed signers that counts: the one named, the system's, the record's own."""
    chosen = named or os.environ.get("HFPROV_ALLOWED_SIGNERS")
    if chosen:
        return Path(chosen)
    return SYSTEM_SIGNERS if SYSTEM_SIGNERS.is_file() else home / "allowed_signers"
