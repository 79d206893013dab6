"""Numbers of things in words: one of them is no plural."""

import pytest

from hfprov.measure.judges import peers
from hfprov.words import at_work, plural


@pytest.mark.parametrize(
    ("number", "words", "work"),
    [
        (0, "0 hosts", "0 containers or jobs are at work"),
        (1, "1 host", "1 container or job is at work"),
        (2, "2 hosts", "2 containers or jobs are at work"),
    ],
)
def test_one_is_no_plural(number, words, work):
    assert plural(number, "host") == words
    assert at_work(number) == work


def test_judges_count_in_words():
    assert peers(1.0, [], higher_is_better=True).reason.startswith("There is 1 value to tell")
    assert peers(1.0, [1.0], higher_is_better=True).reason.startswith("There are 2 values to tell")
