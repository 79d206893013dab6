"""What each check means, why it fails, and what to do: ``catalogue/explain/*.yml``."""

from __future__ import annotations

from functools import cache
from importlib import resources

from pydantic import BaseModel, ConfigDict

from hfprov.catalogue.data import parsed


class Explanation(BaseModel):
    """One entry: for a person who has just seen the check fail."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    """A noun phrase, e.g. 'Locked-memory limit of services'."""
    means: str
    causes: tuple[str, ...]
    """Most likely first."""
    remedy: tuple[str, ...]
    """Steps, in order."""
    source: str = ""


@cache
def explanations() -> dict[str, Explanation]:
    """Every explanation by check id. Files are ours: a mistake in one is a bug, and raises."""
    found: dict[str, Explanation] = {}
    folder = resources.files("hfprov.catalogue").joinpath("explain")
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".yml"):
            entries = parsed(entry.read_text(encoding="utf-8")) or {}
            for check_id, text in entries.items():
                if check_id in found:
                    raise ValueError(f"'{check_id}' is explained twice.")
                found[check_id] = Explanation.model_validate(text)
    return found
