"""What a declared value may be beyond its type: ``catalogue/bounds.yml``, read and applied.

Plain classes and YAML: reading what a user declared must not wait for what judges nodes to load.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from hfprov.catalogue.data import catalogue
from hfprov.declare.files import nearest
from hfprov.regex import regex

_NUMBER = regex(r"[0-9]{1,18}")
_MOST_CPUS = 65536
"""As irq_affinity's irq_plan.py: far more than any kernel is built for."""
_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Bound:
    """What one value may be; the fields are explained at the top of ``bounds.yml``."""

    words: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str = ""
    never: tuple[str, ...] = ()
    form: str = ""
    known: str = ""
    filled: bool = False
    each: Bound | None = None
    keys: Bound | None = None
    values: Bound | None = None
    fields: Mapping[str, Bound] = field(default_factory=dict)
    just_one: tuple[str, ...] = ()
    some: str = ""
    allowed: str = ""
    why: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """Where all bounds of ``given`` hold, those of ``needs`` must."""

    given: Mapping[str, Bound]
    needs: Mapping[str, Bound]
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """A value that is refused: the part of it that is wrong, and what would be right."""

    part: Any
    must: str
    guess: str = ""

    def said(self, value: Any, *, secret: bool = False) -> str:
        """``is '9' and must be 0 to 7``, for a part ``has '9', ...``; of a secret nothing."""
        text = str(self.part)
        shown = f"'{text[:_MOST_SHOWN]}...'" if len(text) > _MOST_SHOWN else f"'{text}'"
        if secret:
            return f"has a value, which is secret, that must be {self.must}"
        if self.part is value:
            return f"is {shown} and must be {self.must}"
        return f"has {shown}, which must be {self.must}"


@cache
def bounds() -> Mapping[str, Bound]:
    """The bound of each variable that has one."""
    return {name: _bound(row) for name, row in catalogue("bounds.yml")["bounds"].items()}


@cache
def pairs() -> tuple[Pair, ...]:
    """What must be declared together."""
    return tuple(
        Pair(
            {name: _bound(one) for name, one in row["given"].items()},
            {name: _bound(one) for name, one in row["needs"].items()},
            row["why"],
            row["source"],
        )
        for row in catalogue("bounds.yml")["pairs"]
    )


def _bound(row: Mapping[str, Any]) -> Bound:
    nested = {key: _bound(row[key]) for key in ("each", "keys", "values") if key in row}
    lists = {key: tuple(row[key]) for key in ("words", "never", "just_one") if key in row}
    fields = {name: _bound(one) for name, one in row.get("fields", {}).items()}
    return Bound(**{**row, **nested, **lists, "fields": fields})


def wrong_with(bound: Bound, value: Any) -> Wrong | None:
    """What is wrong with a value of the right type; None when nothing is, or it is not set."""
    if value is None:
        return None
    if isinstance(value, list):
        return _of_list(bound, value)
    if isinstance(value, Mapping):
        return _of_mapping(bound, value)
    if bound.filled and not value:
        return Wrong(value, "set")
    if _fits(bound, value):
        return None
    return _of_catalogue(bound, value) if bound.known else Wrong(value, _words(bound))


def _of_list(bound: Bound, value: list[Any]) -> Wrong | None:
    if bound.filled and not value:
        return Wrong("[]", "a list of at least one")
    if bound.some and not any(isinstance(one, Mapping) and one.get(bound.some) for one in value):
        return Wrong(value, f"a list with '{bound.some}' in one of its entries")
    if bound.each is None:
        return None
    found = (wrong_with(bound.each, one) for one in value)
    return next((one for one in found if one), None)


def _of_mapping(bound: Bound, value: Mapping[Any, Any]) -> Wrong | None:
    for key, item in value.items():
        found = wrong_with(bound.keys, key) if bound.keys else None
        if found is None and bound.values:
            found = wrong_with(bound.values, item)
        if found is None and bound.fields:
            if key not in bound.fields:
                return Wrong(key, _one_of(list(bound.fields)), nearest(str(key), bound.fields))
            found = wrong_with(bound.fields[key], item)
        if found:
            return found
    if bound.filled and not value:
        return Wrong("{}", "a mapping of at least one")
    if bound.just_one and sum(bool(value.get(key)) for key in bound.just_one) != 1:
        return Wrong(dict(value), f"an entry with {_one_of(list(bound.just_one))}, one of the two")
    return None


def _fits(bound: Bound, value: Any) -> bool:
    """Whether a plain value is a word of the bound, or all that the bound says of others."""
    if value in bound.words:
        return True
    if bound.least is not None or bound.most is not None:
        return _in_range(bound, value)
    return _is_name(bound, str(value))


def _is_name(bound: Bound, text: str) -> bool:
    if bound.form:
        return _FORMS[bound.form][0](text)
    if bound.known:
        return (text.lower() if bound.known == "formats" else text) in known_names(bound.known)
    if any(_clash(text, one) for one in bound.never):
        return False
    if bound.pattern:
        return re.fullmatch(bound.pattern, text) is not None
    return not bound.words


def _clash(text: str, pattern: str) -> bool:
    """A name that stands for several, such as ``net.ipv4.*``, must not stand for one of them."""
    return fnmatch.fnmatchcase(text, pattern) or fnmatch.fnmatchcase(pattern, text)


def _in_range(bound: Bound, value: Any) -> bool:
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return False
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    low = value >= bound.least if bound.least is not None else True
    # Also false for what is no number at all.
    return bool(low and (value <= bound.most if bound.most is not None else value < float("inf")))


def _is_network(text: str, *, strict: bool = True) -> bool:
    try:
        ipaddress.ip_network(text, strict=strict)
    except ValueError:
        return False
    return True


def _is_cpu_list(text: str) -> bool:
    for part in text.strip().split(",") if text.strip() else []:
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if not found:
            return False
        first = int(found[1])
        if not first <= int(found[2] or first) < _MOST_CPUS:
            return False
    return True


_FORMS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "network": (_is_network, "a network such as 10.1.0.0/16"),
    "addresses": (partial(_is_network, strict=False), "a network such as 10.1.0.0/16"),
    "cpu_list": (_is_cpu_list, "a list of CPUs such as 0-1,64-65"),
}


@cache
def known_names(kind: str) -> frozenset[str]:
    """Names of the catalogue: ``formats``, ``skus``, or ``skus of`` a vendor."""
    models = catalogue("accelerators.yml")["accelerators"]
    if kind == "formats":
        return frozenset(one for model in models for one in model.get("formats", ()))
    vendors = {model["id"]: model["vendor"] for model in models}
    wanted = kind.removeprefix("skus of ")
    return frozenset(
        one["id"]
        for one in catalogue("skus.yml")["skus"]
        if wanted in ("skus", vendors[one["accelerator"]])
    )


def _of_catalogue(bound: Bound, value: Any) -> Wrong:
    """A name that is none of the catalogue's: all of them are told where none is near."""
    names = known_names(bound.known)
    guess = nearest(str(value), names)
    must = f"one of the {bound.known} of the catalogue" if guess else _words(bound)
    return Wrong(value, must, guess)


def _words(bound: Bound) -> str:
    """What is allowed, in words."""
    others = bound.allowed
    if not others and (bound.least is not None or bound.most is not None):
        low = f" from {bound.least:g}" if bound.least is not None else ""
        high = f" to {bound.most:.0f}" if bound.most is not None else ""
        others = f"a number{low}{high}" if high else f"a number of at least {bound.least:g}"
    if not others and bound.form:
        others = _FORMS[bound.form][1]
    if not others and bound.known:
        others = f"one of: {', '.join(sorted(known_names(bound.known)))}"
    if not others and bound.never:
        others = f"something else than {_one_of(list(bound.never))}"
    named = [f"'{one}'" for one in bound.words if one != ""]
    return " or ".join([*named, *([others] if others else [])])


def _one_of(names: list[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)


def broken_pairs(values: Mapping[str, Any]) -> Iterator[tuple[Pair, str, str, Wrong]]:
    """Pairs that do not hold: the pair, the variable that is given, the one that is wrong, how."""
    for pair in pairs():
        if not all(_holds(one, values.get(name)) for name, one in pair.given.items()):
            continue
        for name, bound in pair.needs.items():
            found = wrong_with(bound, values[name]) if name in values else None
            if found:
                yield pair, next(iter(pair.given)), name, found


def _holds(bound: Bound, value: Any) -> bool:
    return value is not None and wrong_with(bound, value) is None
