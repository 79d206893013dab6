"""What to read on a node, what came back, and how an evidence module ties the two together.

A :class:`Read` is a request to the probe. Its id is derived from what it asks for, so that two
evidence modules that want the same file share one read. An :class:`Observation` is everything that
one probe returned for one host; asking it for text that is not there raises
:class:`~hfprov.errors.NoEvidenceError` with the precise reason, which the judge turns into
``unknown``. A :class:`Source` is a list of reads with the pure parser of their answers.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from hfprov.errors import NoEvidenceError

if TYPE_CHECKING:
    from hfprov.baseline import Baseline

F = TypeVar("F")

KIB = 1024


@dataclass(frozen=True, slots=True)
class Read:
    """One thing to read on a node; made by ``file``, ``glob``, ``listing`` or ``command``."""

    id: str
    request: Mapping[str, Any] = field(hash=False)
    """What the probe is sent. Two reads with one id may differ in it: see :meth:`merged`."""

    def __str__(self) -> str:
        return self.id

    def sent_as(self) -> Read:
        """The read that is sent for it: another one, where that is cheaper for the node."""
        return self

    def answered_by(
        self,
        results: Mapping[str, tuple[Result, ...]],  # noqa: ARG002 - other kinds of read need it
    ) -> tuple[Result, ...] | None:
        """Its results, taken from those of the read that was sent for it; None: there are none."""
        return None

    def merged(self, other: Read) -> Read:  # noqa: ARG002 - other kinds of read need it
        """One read that answers both, of two with the same id: most ask for the very same.

        A kind of read whose id does not say all that it asks for adds here what the other wants.
        """
        return self


def once(reads: Iterable[Read]) -> tuple[Read, ...]:
    """Each read once, in order of first mention; those that can be made one are."""
    found: dict[str, Read] = {}
    for read in (one.sent_as() for one in reads):
        known = found.get(read.id)
        found[read.id] = known.merged(read) if known else read
    return tuple(found.values())


def file(path: str, *, limit: int = 64 * KIB) -> Read:
    """The content, mode and owner of one file; at most ``limit`` bytes."""
    return Read(f"file {path}", {"kind": "file", "path": path, "limit": limit})


def glob(pattern: str, *, limit: int = 16 * KIB, most: int = 1024) -> Read:
    """The content, mode and owner of each file that matches (``limit`` bytes each)."""
    request = {"kind": "glob", "pattern": pattern, "limit": limit, "most": most, "content": True}
    return Read(f"glob {pattern}", request)


def listing(pattern: str, *, most: int = 1024) -> Read:
    """Names, modes, owners and link targets of what matches, without content."""
    request = {"kind": "glob", "pattern": pattern, "limit": 0, "most": most, "content": False}
    return Read(f"list {pattern}", request)


def command(
    *argv: str,
    timeout: float = 10,
    limit: int = 256 * KIB,
    each: str = "",
    most: int = 256,
    needs: str = "",
    bus: Mapping[str, Any] | None = None,
) -> Read:
    """The output of a command that changes nothing, run as an argv without a shell.

    With ``each`` (a glob) the command runs once per match; ``{name}`` and ``{path}`` in the argv
    stand for the match's base name and path. ``timeout`` is in seconds, ``limit`` in bytes.
    Without a file that matches ``needs`` (a glob) it is not run, and its result is ``absent``.
    ``bus`` are properties that are asked for over D-Bus (see :mod:`hfprov.probe`); where they are
    told, lines ``Name=value`` of them are the output, and the command is not run.
    """
    request = {
        "kind": "command",
        "argv": list(argv),
        "timeout": timeout,
        "limit": limit,
        "each": each,
        "most": most,
    }
    if needs:
        request["needs"] = needs
    if bus:
        request["bus"] = bus
    label = shlex.join(argv)
    return Read(f"run {label} (each {each})" if each else f"run {label}", request)


class Result(Struct, frozen=True):
    """What the probe saw for one file or one run of a command."""

    name: str
    status: str
    """``ok``, ``absent``, ``denied``, ``timeout``, ``error`` or ``skipped``."""
    text: str = ""
    stderr: str = ""
    code: int | None = None
    ms: int = 0
    truncated: bool = False
    garbled: bool = False
    """The bytes were not valid UTF-8; what was not is shown as backslash escapes."""
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    link: str = ""
    type: str = "file"

    @property
    def ok(self) -> bool:
        return self.status == "ok"


_KNOWN_KEYS = frozenset(Result.__struct_fields__)


def _result(raw: Mapping[str, Any]) -> Result:
    if _KNOWN_KEYS.issuperset(raw):
        return Result(**raw)
    return Result(**{key: value for key, value in raw.items() if key in _KNOWN_KEYS})


class RawResults(Mapping[str, tuple[Result, ...]]):
    """The results of an answer; those that somebody looks at are made, the others stay JSON.

    Of a host whose evidence is that of another one, most are never looked at.
    """

    __slots__ = ("_made", "_raw")

    def __init__(self, raw: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        """Raises TypeError, ValueError or KeyError when a result is not of the agreed form."""
        for items in raw.values():
            for item in items:
                item["name"], item["status"]  # a KeyError now, not in a check
                if item["status"] != "timeout":
                    # Nobody is told of it, and it would make equal results look different.
                    item.pop("ms", None)
                hash(tuple(item.values()))
        self._raw = raw
        self._made: dict[str, tuple[Result, ...]] = {}

    def __getitem__(self, read: str) -> tuple[Result, ...]:
        made = self._made.get(read)
        if made is None:
            made = self._made[read] = tuple(map(_result, self._raw[read]))
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def shown(self, read: str) -> tuple[Any, ...] | None:
        """All that a read gave, to be compared with that of other hosts; None: it was not asked."""
        items = self._raw.get(read)
        return None if items is None else tuple([tuple(item.items()) for item in items])


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything one probe returned for one host. Immutable; kept as evidence."""

    results: Mapping[str, tuple[Result, ...]]
    python: str = ""
    uid: int = -1
    now: float = 0.0
    """The node's own clock when it answered, seconds since 1970; 0 if it did not say."""
    seconds: float = 0.0

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], wanted: Collection[str] | None = None
    ) -> Observation:
        """Build from the probe's answer. Keys that this version does not know are ignored.

        ``wanted`` are the ids of reads that are needed of it; None: all.
        """
        results = data["results"]
        if wanted is not None:
            results = {name: items for name, items in results.items() if name in wanted}
        return cls(
            RawResults(results),
            python=str(data.get("python", "")),
            uid=int(data.get("uid", -1)),
            now=float(data.get("now", 0.0)),
            seconds=float(data.get("seconds", 0.0)),
        )

    def each(self, read: Read) -> tuple[Result, ...]:
        """All results of a read, failed ones too. No match is an empty tuple, and is evidence.

        Raises NoEvidenceError when the read was not asked for, or was cut off by the deadline.
        """
        try:
            results = self.results[read.id]
        except KeyError:
            answered = read.answered_by(self.results)
            if answered is None:
                raise NoEvidenceError(f"'{read}' was not observed.") from None
            results = answered
        for result in results:
            if result.status == "skipped":
                raise NoEvidenceError(f"'{read}' was not observed: {result.stderr}")
        return results

    def one(self, read: Read) -> Result:
        """The single result of a file or command read, whatever its status."""
        results = self.each(read)
        if len(results) != 1:
            raise NoEvidenceError(f"'{read}' gave {len(results)} results instead of one.")
        return results[0]

    def exists(self, read: Read) -> bool:
        """Whether a file exists. A file that may not be read exists."""
        result = self.one(read)
        if result.status in ("error", "timeout"):
            raise NoEvidenceError(f"'{read}' could not be read: {result.stderr}")
        return result.status != "absent"

    def text(self, read: Read, *, codes: Iterable[int] = (0,)) -> str:
        """The complete text of a file, or the stdout of a command that ended with one of ``codes``.

        Raises NoEvidenceError when there is no such complete text; half an answer is none.
        """
        return complete_text(read, self.one(read), codes=codes)


def complete_text(read: Read, result: Result, *, codes: Iterable[int] = (0,)) -> str:
    """The text of one result, if it is whole. See :meth:`Observation.text`."""
    what = f"'{read}'" + (
        f" for '{result.name}'" if result.name and result.name not in read.id else ""
    )
    if result.status == "absent":
        raise NoEvidenceError(f"{what}: not there ({result.stderr or 'absent'}).")
    if result.status == "timeout":
        raise NoEvidenceError(f"{what} did not end within its deadline ({result.ms} ms).")
    if result.status != "ok":
        raise NoEvidenceError(f"{what} could not be read: {result.stderr or result.status}")
    if result.code is not None and result.code not in tuple(codes):
        said = (result.stderr or result.text).strip().splitlines()
        raise NoEvidenceError(
            f"{what} ended with exit code {result.code}" + (f": {said[-1]}" if said else ".")
        )
    if result.truncated:
        raise NoEvidenceError(f"{what} was longer than its limit and was cut off.")
    return result.text


@dataclass(frozen=True, slots=True)
class Source(Generic[F]):
    """One kind of evidence: what to read, and the pure function that understands it.

    ``reads`` may depend on the baseline (a unit's name, say). ``parse`` does no I/O; it raises
    NoEvidenceError or NotUnderstoodError when it cannot say.
    """

    name: str
    reads: Callable[[Baseline], tuple[Read, ...]] = field(compare=False)
    parse: Callable[[Observation, Baseline], F] = field(compare=False)


def text_source(name: str, read: Read, parse: Callable[[str], F]) -> Source[F]:
    """A source that is one file or one command, understood from its text alone."""
    return Source(name, lambda _: (read,), lambda seen, _: parse(seen.text(read)))
