"""The tables of lscpu: ``-e`` (columns) and ``-p`` (commas)."""

from __future__ import annotations

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, natural, numbered_lines


class CpuRow(Struct, frozen=True):
    """Where one CPU is. None: the column is missing or empty (an off-line CPU)."""

    cpu: int
    core: int | None
    socket: int | None
    node: int | None
    online: bool | None


def parse_columns(text: str) -> tuple[CpuRow, ...]:
    """``lscpu -e``: a header, then one row of words for each CPU."""
    lines = [(number, line) for number, line in numbered_lines(text) if line.strip()]
    names = lines[0][1].split()
    rows = []
    for number, line in lines[1:]:
        words = line.split()
        if len(words) < len(names) and "no" not in words:
            raise bad_line("lscpu", number, line, f"{len(names)} columns")
        # An off-line CPU has "-" in columns without value; extra words are frequencies.
        rows.append(_row(dict(zip(names, words, strict=False)), number, line))
    return _whole_table(rows)


def parse_commas(text: str) -> tuple[CpuRow, ...]:
    """``lscpu -p``: comments, the last of which names the columns, then comma separated rows.

    Where the text has several tables (physical numbers follow logical ones) the first counts.
    """
    names: list[str] = []
    rows: list[CpuRow] = []
    for number, line in numbered_lines(text):
        plain = line.strip()
        if plain.startswith("#"):
            if rows:
                break
            if "CPU" in plain and "," in plain:
                names = plain.lstrip("# ").split(",")
        elif plain:
            values = plain.split(",")
            if not names or len(values) < min(4, len([name for name in names if name])):
                raise bad_line("lscpu", number, line, "a row after the names of its columns")
            rows.append(_row(dict(zip(names, values, strict=False)), number, line))
    return _whole_table(rows)


def _row(values: dict[str, str], number: int, line: str) -> CpuRow:
    fields = {name.upper(): value for name, value in values.items()}
    if "CPU" not in fields:
        raise bad_line("lscpu", number, line, "a column 'CPU'")

    def count(name: str) -> int | None:
        value = fields.get(name, "")
        return None if value in ("", "-") else natural(value, f"Column {name} of lscpu")

    online = fields.get("ONLINE")
    if online not in (None, "yes", "no", "Y", "N"):
        raise bad_line("lscpu", number, line, "'yes' or 'no' in the column ONLINE")
    return CpuRow(
        cpu=natural(fields["CPU"], "Column CPU of lscpu"),
        core=count("CORE"),
        socket=count("SOCKET"),
        node=count("NODE"),
        online=None if online is None else online in ("yes", "Y"),
    )


def _whole_table(rows: list[CpuRow]) -> tuple[CpuRow, ...]:
    if not rows:
        raise NotUnderstoodError("The lscpu table has no row.")
    if len({row.cpu for row in rows}) != len(rows):
        raise NotUnderstoodError("The lscpu table lists a CPU twice.")
    return tuple(rows)
