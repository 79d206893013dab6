"""Values given on the command line: judged as those of the inventory are, before any contact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hfprov import paths
from hfprov.catalogue.data import parsed
from hfprov.declare.bounds import bounds, broken_pairs, wrong_with
from hfprov.declare.engine import Engine
from hfprov.declare.values import native
from hfprov.errors import Problem


def given_problems(
    role: str, values: Mapping[str, Any], where: str, beside: Mapping[str, Any]
) -> Iterator[Problem]:
    """What is wrong with values of a role's variables; names that it does not have are passed over.

    ``where`` names the option they came by, ``beside`` is what the inventory declares.
    """
    path = paths.roles_dir() / role / "meta" / "argument_specs.yml"
    if not path.is_file():
        return
    specs = parsed(path.read_text("utf-8"))["argument_specs"]["main"]["options"]
    good: dict[str, Any] = {}
    for name, value in values.items():
        if name not in specs:
            continue
        validated, wrong = Engine.validate(name, specs[name], {name: value})
        bound = bounds().get(name)
        out = wrong_with(bound, native(validated)) if bound and not wrong else None
        if wrong:
            yield Problem(where, f"'{name}': {wrong}.")
        elif bound and out:
            said = out.said(native(validated))
            yield Problem(where, f"'{name}' {said}.", hint=f"{out.guess} {bound.why}".strip())
        else:
            good[name] = validated
    for pair, given, name, found in broken_pairs({**beside, **good}):
        if good.keys() & {*pair.given, name}:
            # What is beside may be a secret of the inventory; its value is not shown.
            text = f"With '{given}' as it is, '{name}' must be {found.must}."
            yield Problem(where, text, hint=pair.why)
