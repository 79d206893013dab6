"""JSON among other output: banners are passed over; what is cut, doubled or no JSON is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import json_document

DOCUMENT = {"devices": [{"name": "nvme0", "media_errors": 0}, {"name": "nvme1", "media_errors": 3}]}


@pytest.mark.parametrize("before", ["", "WARNING: old tool\n", "[1] 2345\n", "[sudo] password:\n"])
@pytest.mark.parametrize("indent", [None, 2])
def test_lines_before_the_document_are_passed_over(before, indent):
    assert json_document(before + json.dumps(DOCUMENT, indent=indent) + "\n") == DOCUMENT


@given(cut=st.integers(0, 10_000), indent=st.sampled_from([None, 0, 1, 4]))
def test_a_document_that_was_cut_off_is_no_document(cut, indent):
    """Its last element may be whole: it must not be taken for the document."""
    for document in (DOCUMENT, DOCUMENT["devices"]):
        text = json.dumps(document, indent=indent)
        with pytest.raises(NotUnderstoodError):
            json_document(text[: cut % len(text)])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON document"),
        ("nothing here", "no JSON document"),
        ('{"a": NaN}', "'NaN' is not a JSON number"),
        ('{"a": -Infinity}', "'-Infinity' is not a JSON number"),
        ('{"a": 0, "a": 1}', "the key 'a' comes twice with different values"),
        ('{"a": 1}\n{"a": 2}', "text follows it"),
        ('{"a": ' + "9" * 5000 + "}", "Exceeds the limit"),
        ("[" * 5000, "nests deeper"),
        ('{"a": 1', "not whole or not valid"),
    ],
)
def test_what_is_refused_and_why(text, why):
    with pytest.raises(NotUnderstoodError, match="JSON document") as caught:
        json_document(text)
    assert why in caught.value.message


def test_equal_members_that_come_twice_contradict_nothing():
    assert json_document('{"a": [1], "a": [1]}') == {"a": [1]}


def test_repeated_members_can_be_kept():
    assert json_document('{"a": 0, "a": 1}', pairs=list) == [("a", 0), ("a", 1)]


@pytest.mark.parametrize("blank", ["\n", " \n", "{\n", "[1] 2\n", "\t\n{ \n"])
def test_a_long_text_without_a_document_is_refused_without_searching_it_again_and_again(blank):
    with pytest.raises(NotUnderstoodError):
        json_document(blank * 200_000)
