"""Versions as vendors write them, compared by number, and ranges of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from hfprov.errors import NotUnderstoodError
from hfprov.regex import regex

_NUMBERS = regex(r"\d{1,12}")
_CONDITION = regex(r"(>=|<=|==|!=|<|>)\s*([A-Za-z_]+|[0-9][0-9A-Za-z.\-_+~]*)")
_COMPARE: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def version_key(text: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at the end: ``535.161.08`` is ``(535, 161, 8)``.

    Raises NotUnderstoodError for a text that does not begin with a number (a leading ``v`` aside).
    """
    plain = text.strip().removeprefix("v")
    if not plain[:1].isdigit():
        raise NotUnderstoodError(f"'{text.strip()[:60]}' is not a version.")
    numbers = [int(number) for number in _NUMBERS.findall(plain)]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def in_range(version: str, wanted: str, others: Mapping[str, str] | None = None) -> bool:
    """Whether a version is in a range such as ``>=580,<581`` or ``==driver``.

    A name stands for a version in ``others``. Raises ValueError for a range that is not one or
    names what is not in ``others``, and NotUnderstoodError for a version that is none.
    """
    have = version_key(version)
    for part in wanted.split(","):
        match = _CONDITION.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"'{part}' of '{wanted}' is not a condition on a version.")
        sign, right = match.groups()
        if not right[0].isdigit():
            if others is None or not others.get(right):
                raise ValueError(f"'{wanted}' names '{right}', which is not known.")
            right = others[right]
        if not _COMPARE[sign](have, version_key(right)):
            return False
    return True
