"""Strict numbers, and JSON that says where something is wrong."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import Node, decimal, hexadecimal, integer, json_value, on_off


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), (" -3 ", -3), ("18446744073709551615", 2**64 - 1)]
)
def test_whole_numbers(text, value):
    assert integer(text, "x") == value


@pytest.mark.parametrize("text", ["", "1.0", "1 2", "0x10", "٣", "9" * 21, "1_000", "N/A", "1e3"])
def test_what_is_no_whole_number(text):
    with pytest.raises(NotUnderstoodError, match="the MTU"):
        integer(text, "the MTU")


def test_hexadecimal_and_decimal_numbers():
    assert (hexadecimal("0x1F", "x"), hexadecimal("31", "x")) == (31, 31)
    assert (decimal("1.5", "x"), decimal("5.", "x"), decimal("1e3", "x")) == (1.5, 5.0, 1000.0)
    for text in ("0x", "0xg", "1.2.3", "nan", "inf", "1e999", "--1", ""):
        with pytest.raises(NotUnderstoodError):
            decimal(text, "x")
        with pytest.raises(NotUnderstoodError):
            hexadecimal(text, "x")


def test_switches():
    assert on_off("Enabled", "x") is True
    assert on_off("no", "x") is False
    with pytest.raises(NotUnderstoodError, match="neither on nor off"):
        on_off("o", "x")


def test_json_behind_a_banner():
    assert json_value('warning: [old] tool\n\n\n{\n "a": 1}\n') == {"a": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON document"),
        ('{"a": 1', "not whole"),
        ('{"a": NaN}', "not a JSON number"),
        ('{"a": Infinity}', "not a JSON number"),
        ('{"a": 1} trailing', "text follows"),
        ("[" + "9" * 5000 + "]", "not whole or not valid"),
        ("[" * 101 + "]" * 101, "deeper than 100"),
    ],
)
def test_what_is_no_json_document(text, why):
    with pytest.raises(NotUnderstoodError, match=why):
        json_value(text)


def test_a_node_says_where_it_is():
    node = Node({"a": [{"b": "x"}], "n": None}, "tool")
    inner = node.need("a").objects()[0]
    with pytest.raises(NotUnderstoodError, match=r"tool\.a\[0\]\.b 'x' is not a whole number"):
        inner.int("b")
    with pytest.raises(NotUnderstoodError, match=r"tool\.a\[0\] has no 'c'"):
        inner.need("c")
    with pytest.raises(NotUnderstoodError, match=r"tool\.a is '.*', which is not an object"):
        node.need("a").members  # noqa: B018 - reading it is the test
    assert node.get("n") is None
    assert node.text("absent") is None


@pytest.mark.parametrize("value", [True, 1.5, 10**20, [], {}, "1.5", float("inf")])
def test_a_node_that_is_no_whole_number(value):
    with pytest.raises(NotUnderstoodError):
        Node(value, "tool").as_int()


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), 1e31, "x", None, []])
def test_a_node_that_is_no_number(value):
    with pytest.raises(NotUnderstoodError):
        Node(value, "tool").as_float()
