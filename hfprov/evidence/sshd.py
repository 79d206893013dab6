"""sshd: what its files say, what they come to, and whether the daemon has read them.

``sshd -T -C …`` resolves the files as sshd itself does for one connection; of each keyword the
first value holds, so that a file which sorts earlier wins (sshd_config(5)). The running daemon
keeps what it had read; on SIGHUP it starts itself anew and writes its PID file again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.find import one_find
from hfprov.evidence.system import COMMAND_LINES
from hfprov.evidence.text import clean, excerpt, number
from hfprov.reading import Observation, Result, Source, command, complete_text, file, glob
from hfprov.regex import regex

MAIN = file("/etc/ssh/sshd_config")
DROP_INS = glob("/etc/ssh/sshd_config.d/*.conf")
POLICY_PATH = "/etc/crypto-policies/back-ends/opensshserver.config"
"""Ciphers of the whole system on EL 9, which its drop-in for sshd includes (crypto-policies(7))."""
POLICY = glob(POLICY_PATH)
READ_PATTERNS = ("/etc/ssh/sshd_config.d/*.conf", "sshd_config.d/*.conf", POLICY_PATH)
"""What Include names where it names the drop-ins; a relative one is below /etc/ssh."""
_EFFECTIVE = command(
    "/usr/sbin/sshd", "-T", "-C", "user=root,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22"
)
SSHD_PID = "/run/sshd.pid"
_WRITTEN = one_find(SSHD_PID, "/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d")


class Keyword(Struct, frozen=True):
    """One line of sshd_config."""

    name: str
    """In lower case: sshd does not tell them apart."""
    value: str
    path: str
    line: int
    match: str
    """Condition of the Match block that it stands in; empty outside."""

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def statement(self) -> str:
        return f"{self.name} {self.value}".strip()


def parse_keywords(text: str, path: str) -> tuple[Keyword, ...]:
    """Lines of one file in order. A Match block ends with the file, or with the next one."""
    found, match = [], ""
    for line_number, raw in enumerate(clean(text).splitlines(), start=1):
        words = re.match(r'\s*"?([A-Za-z0-9]+)"?(?:\s*=\s*|\s+)(.*)', raw)
        if raw.lstrip().startswith("#") or words is None:
            continue
        name, value = words[1].lower(), " ".join(words[2].replace('"', "").split())
        if name == "match":
            match = "" if value.lower() == "all" else value
        found.append(Keyword(name, value, path, line_number, match))
    return tuple(found)


class SshdFiles(Struct, frozen=True):
    """All files of sshd."""

    keywords: tuple[Keyword, ...]
    results: Mapping[str, Result]


def _all_files(seen: Observation, _: Baseline) -> SshdFiles:
    keywords: list[Keyword] = []
    results = {}
    for read in (DROP_INS, POLICY, MAIN):
        for result in seen.each(read):
            results[result.name] = result
            keywords += parse_keywords(complete_text(read, result), result.name)
    return SshdFiles(tuple(keywords), results)


FILES: Source[SshdFiles] = Source("files of sshd", lambda _: (DROP_INS, POLICY, MAIN), _all_files)


def parse_effective(text: str) -> Mapping[str, str]:
    """First value by keyword, of ``sshd -T``."""
    found: dict[str, str] = {}
    for line in clean(text).splitlines():
        name, _, value = line.strip().partition(" ")
        if not re.fullmatch("[a-z0-9]+", name):
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of 'sshd -T'.")
        found.setdefault(name, value)
    return found


EFFECTIVE: Source[Mapping[str, str]] = Source(
    "what sshd's files come to",
    lambda _: (_EFFECTIVE,),
    lambda seen, _: parse_effective(seen.text(_EFFECTIVE)),
)


RUNNING = "running sshd"
_DEFAULTS = (glob("/etc/default/ssh"), glob("/etc/sysconfig/sshd"))
_ASSIGNED = regex(r"^[ \t]*(?:SSHD_OPTS|OPTIONS)=(.*)$", re.MULTILINE)
_LISTENER = regex(r"sshd: (.+?) \[listener\]")
"""sshd shows how it was started in the title of the process that listens."""


def overriding(command_line: str) -> str:
    """Options of sshd that win over all its files: of ``-o``, and another file by ``-f``."""
    words = command_line.replace('"', " ").replace("'", " ").split()
    found = []
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if word.startswith("-o") or (
            word.startswith("-f") and (word[2:] or following) != MAIN.request["path"]
        ):
            found.append(word if word[2:] else f"{word} {following}")
    return " ".join(found)


def _parse_command_lines(seen: Observation, _: Baseline) -> Mapping[str, str]:
    listed = [result for result in seen.each(COMMAND_LINES) if result.ok]
    if not listed:
        raise NoEvidenceError("The node's processes could not be listed.")
    places: dict[str, str] = {}
    for result in listed:
        if result.text.startswith("sshd: /"):  # those of sessions name a user there
            match = _LISTENER.match(clean(complete_text(COMMAND_LINES, result).replace("\0", " ")))
            # Under a name that stays the same from run to run; a second sshd counts as well.
            places[RUNNING] = f"{places.get(RUNNING, '')} {match[1] if match else ''}".strip()
    for read in _DEFAULTS:
        for result in seen.each(read):
            values = _ASSIGNED.findall(clean(complete_text(read, result)))
            places[result.name] = values[-1] if values else ""
    return {place: options for place, line in places.items() if (options := overriding(line))}


OVERRIDING: Source[Mapping[str, str]] = Source(
    "options on sshd's command line",
    lambda _: (COMMAND_LINES, *_DEFAULTS),
    _parse_command_lines,
)
"""By where they are: what listens, or the file that the next start takes them from."""


def _times(text: str) -> Iterator[tuple[str, float]]:
    for line in clean(text).splitlines():
        seconds, _, path = line.partition(" ")
        yield path, number(seconds)


# find ends with 1 when one of the places is not there.
WRITTEN: Source[Mapping[str, float]] = Source(
    "times of sshd's files",
    lambda _: (_WRITTEN,),
    lambda seen, _: dict(_times(seen.text(_WRITTEN, codes=(0, 1)))),
)
"""When each file was last written, and sshd.pid at sshd's last start or reload: seconds by path."""
