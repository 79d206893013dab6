"""One section of ethtool's output as ``key: value`` lines, shared by the small forms."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from hfprov.evidence.net_lines import not_understood


class Section(Struct, frozen=True):
    """The lines below one heading. ``first`` is the line number of the first of ``lines``."""

    form: str
    interface: str | None
    lines: tuple[str, ...]
    first: int

    def numbered(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(self.lines, start=self.first):
            if line.strip():
                yield number, line

    def pairs(self) -> Iterator[tuple[int, str, str]]:
        """Line number, key and value of each line; a line without a colon is refused."""
        for number, line in self.numbered():
            key, colon, value = line.partition(":")
            if not colon:
                raise not_understood(f"ethtool ({self.form})", number, line, "'name: value'")
            yield number, key.strip(), value.strip()
