"""Patterns that are compiled late are the same patterns, and none of ours has a mistake."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re

import pytest

import hfprov.catalogue
import hfprov.checks
import hfprov.evidence
from hfprov.regex import Uncompiled, regex


def test_nothing_is_compiled_before_it_is_used(monkeypatch):
    monkeypatch.setattr(re, "compile", pytest.fail)
    regex("(")


@pytest.mark.parametrize("method", ["fullmatch", "match", "search"])
def test_it_finds_what_the_compiled_one_finds(method):
    late, compiled = (
        regex(r"(A)(?P<n>\d+)", re.IGNORECASE),
        re.compile(r"(A)(?P<n>\d+)", re.IGNORECASE),
    )
    for text in ("a12", "xa12", "a12x", ""):
        found, wanted = getattr(late, method)(text), getattr(compiled, method)(text)
        assert (found and found.groupdict()) == (wanted and wanted.groupdict())


def test_it_has_the_other_methods_too():
    late = regex(r"[,;]")
    assert late.split("a,b;c") == ["a", "b", "c"]
    assert late.sub("-", "a,b;c") == "a-b-c"
    assert late.findall("a,b;c") == [",", ";"]
    assert [one[0] for one in late.finditer("a,b;c")] == [",", ";"]
    assert (late.pattern, late.flags) == (r"[,;]", re.compile(r"[,;]").flags)


def test_a_method_that_no_pattern_has_is_told():
    with pytest.raises(AttributeError):
        regex("a").replace("a", "b")


def test_every_pattern_of_ours_can_be_compiled():
    for package in (hfprov.catalogue, hfprov.checks, hfprov.evidence):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    late = [one for one in gc.get_objects() if isinstance(one, Uncompiled)]
    assert len(late) > 500
    for one in late:
        assert one.pattern is not None
