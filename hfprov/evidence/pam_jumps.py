"""Which modules of a PAM stack a login comes by, when lines jump over others or end it early.

pam.conf(5): the number in ``[success=N]`` counts modules, a ``substack`` as one; ``done`` (of
``sufficient``) ends the stack, or the substack that it stands in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from hfprov.evidence.pam_stack import PamFiles, PamRule, Step, steps
from hfprov.regex import regex

_KEYWORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "required": {"success": "ok", "default": "bad"},
        "requisite": {"success": "ok", "default": "die"},
        "sufficient": {"success": "done", "default": "ignore"},
        "optional": {"success": "ok", "default": "ignore"},
    }
)
_VALUE = regex(r"([a-z_]+)=([a-z]+|[0-9]{1,5})")
_REFUSES = "pam_deny.so"
_DEPENDS = regex(
    r"pam_(access|exec|group|krb5|ldap|listfile|localuser|nologin|rootok|script|securetty|shells|"
    r"sss|succeed_if|time|wheel|winbind)\.so"
)
"""Modules that succeed for some logins and not for others."""
_ENDS, _REFUSED = "done", "die"
_MOST_FILES = 500


class Passed(Struct, frozen=True):
    """How a module is passed by."""

    by: PamRule
    """The line that jumps over it, or ends the stack before it."""
    always: bool
    """Whether no login comes to it at all."""


def _actions(rule: PamRule) -> Iterator[str]:
    """What may be done when the module has answered: what is sure, where it is."""
    values = _KEYWORDS.get(rule.control)
    if values is None:
        values = {str(name): str(action) for name, action in _VALUE.findall(rule.control)}
    otherwise = values.get("default", "bad")
    if rule.module != _REFUSES:
        yield values.get("success", otherwise)
    if rule.module == _REFUSES or _DEPENDS.fullmatch(rule.module):
        yield otherwise
        yield from (values[name] for name in sorted(values.keys() - {"success", "default"}))


def _holds(step: Step, module: str) -> bool:
    return step.module == module if isinstance(step, PamRule) else _is_within(step, module)


def _is_within(stack: Iterable[Step], module: str) -> bool:
    return any(_holds(step, module) for step in stack)


def passed_by(files: PamFiles, service: str, kind: str, module: str) -> Passed | None:
    """The line by which some or all logins miss the first line with a module; None: there is none.

    None too where the stack does not have the module. Raises NoEvidenceError for what is included
    and was not read, or never ends.
    """
    stack = steps(files, service, kind, most=_MOST_FILES)
    while True:
        target = next((at for at, step in enumerate(stack) if _holds(step, module)), None)
        if target is None:
            return None
        if found := _missed(stack, target):
            return found
        inner = stack[target]
        if isinstance(inner, PamRule):
            return None
        stack = inner


def _missed(stack: tuple[Step, ...], target: int) -> Passed | None:
    """The line that passes by ``target``, whichever way a login takes to that line."""
    reached, by = {0}, None
    for at in range(target):
        step = stack[at]
        if at not in reached:
            continue
        if not isinstance(step, PamRule):
            # What is done within a substack ends that one alone.
            reached.add(at + 1)
            continue
        for action in _actions(step):
            after = at + 1 + int(action) if action.isdigit() else at + 1
            if action == _ENDS or (action != _REFUSED and after > target):
                by = by or step
            elif action != _REFUSED:
                reached.add(after)
    return Passed(by, always=target not in reached) if by else None
