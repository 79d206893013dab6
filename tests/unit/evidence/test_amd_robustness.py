"""Whatever bytes arrive: facts, a failure, or NotUnderstoodError; nothing else, and no endless run.

Covers every tool of the captures test. The samples are small outputs of our own, so that the test
says the same with and without the captures beside the checkout.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.tools import find_tool

SAMPLES = Path(__file__).parents[2] / "data" / "captures_other_samples"
TOOLS = (
    "amd-smi", "rocm-smi", "rvs", "rccl-ras", "npu-smi", "hl-smi", "xpu-smi", "docker",
    "containerd", "cdi", "nvbandwidth", "nccl-tests", "fio", "stream", "transferbench",
    "rocm-bandwidth-test", "superbench",
)  # fmt: skip
CASES = [
    (path.name.partition("__")[0], path.name) for path in sorted(SAMPLES.iterdir())
]  # TOOL__what.ext


def attempt(tool, text):
    """Facts, or None when the parser refused; any other exception fails the test."""
    try:
        facts = find_tool(tool).parse(text)
    except NotUnderstoodError:
        return None
    assert facts is not None
    return facts


def sample(name):
    return (SAMPLES / name).read_text()


def test_every_tool_has_a_sample():
    assert {tool for tool, _ in CASES} == set(TOOLS)


@pytest.mark.parametrize(("tool", "name"), CASES)
def test_a_sample_is_understood(tool, name):
    assert attempt(tool, sample(name)) is not None


@pytest.mark.parametrize(("tool", "name"), CASES)
def test_cut_at_every_line_and_inside_lines(tool, name):
    text = sample(name)
    lines = text.splitlines(keepends=True)
    for end in range(len(lines)):
        attempt(tool, "".join(lines[:end]))
    for end in random.Random(7).sample(range(len(text)), min(60, len(text))):
        attempt(tool, text[:end])


@pytest.mark.parametrize(("tool", "name"), CASES)
def test_line_ends_escapes_and_controls_change_nothing(tool, name):
    text = sample(name)
    expected = attempt(tool, text)
    assert attempt(tool, text.replace("\n", "\r\n")) == expected
    assert attempt(tool, "\ufeff" + text) == expected
    assert attempt(tool, text.replace("\n", "\x1b[0m\n")) == expected
    assert attempt(tool, text.replace("\n", "\x00\n")) == expected


@pytest.mark.parametrize(("tool", "name"), CASES)
def test_mutated_samples(tool, name):
    """Lines swapped, doubled, dropped; characters and numbers replaced by nonsense."""
    text = sample(name)
    chance = random.Random(11)
    nonsense = [
        *["", "ERR!", "N/A", "9" * 40, "9" * 5000, "-1", "nan", "inf", "1e999", "\x1b[31m"],
        *["{", "}", "[" * 50, "]", "|", "||||", ":", '"', "\\", "é", "\u2028", "0x", "<b>"],
    ]
    for _ in range(60):
        lines = text.split("\n")
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(lines))
            kind = chance.randrange(5)
            if kind == 0:
                lines[at] = lines[chance.randrange(len(lines))]
            elif kind == 1:
                lines.insert(at, lines[chance.randrange(len(lines))])
            elif kind == 2 and len(lines) > 1:
                del lines[at]
            else:
                words = lines[at].split(" ")
                words[chance.randrange(len(words))] = chance.choice(nonsense)
                lines[at] = " ".join(words)
        attempt(tool, "\n".join(lines))


HOSTILE = {
    "empty": "",
    "blank": " \n\t\n",
    "newlines": "\n" * 300_000,
    "one long word": "a" * 300_000,
    "spaces": " " * 300_000,
    "bars": "| " * 150_000,
    "slashes": "| 1 / 2 " * 40_000,
    "digits": "1 " * 150_000,
    "huge integer": '{"gpu": ' + "9" * 200_000 + "}",
    "deep list": "[" * 200_000,
    "deep object": '{"a":' * 100_000,
    "deep nvbandwidth": '{\n"nvbandwidth": ' + "[" * 100_000,
    "open string": '{"' + "a" * 300_000,
    "braces": "{\n" * 100_000,
    "objects": "{}\n" * 100_000,
    "escapes": "\x1b]0;" * 50_000,
    "surrogates": "\ud800" * 1000,
    "nul": "\x00" * 100_000,
    "colons": "a: b\n" * 60_000,
    "hashes": "# " * 100_000,
    "commas": "device," + "," * 300_000,
    "json null": "null",
    "json number": "1e999",
    "json nan": "[NaN]",
    "nested gpu": '[{"gpu": 0, "a": ' + '{"b": ' * 60 + "1" + "}" * 60 + "}]",
    "yaml bomb": "kind: a\na: &a [x,x,x]\nb: &b [*a,*a,*a]\ndevices: [*b,*b,*b]\n",
    "toml dots": "a." * 50_000 + "b = 1",
    "toml brackets": "a = " + "[" * 50_000,
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.timeout(20)
def test_hostile_input_is_refused_or_a_failure(tool, what):
    attempt(tool, HOSTILE[what])


@pytest.mark.parametrize("tool", TOOLS)
def test_too_long_an_output_is_refused(tool):
    with pytest.raises(NotUnderstoodError):
        find_tool(tool).parse("x" * (100 * 1024 * 1024))


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("text", ["", "\n", "   ", "\x00\x00"])
def test_nothing_is_never_facts(tool, text):
    with pytest.raises(NotUnderstoodError):
        find_tool(tool).parse(text)


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=400), tool=st.sampled_from(TOOLS))
def test_random_bytes(tool, data):
    attempt(tool, data.decode("utf-8", errors="backslashreplace"))
    attempt(tool, data.decode("latin-1"))


WORDS = (
    *["GPU: 0", "\n", "    ", "ASIC:", "KEY: v", "{", "}", "[", "]", '"gpu"', ":", "0", ",", "|"],
    *["+---+---+", "# ", "size count type time algbw busbw", "8 2 float", "1.0", "N/A", "D/D 0 1"],
    *["0 1.0 2.0", "SRC\\DST", "GPU 00", "->", "[RESULT]", "Action name :a", "Server:", "(GB/s)"],
    *[" Server Version: 1", "version = 2", "[plugins]", "kind: a/b", "devices:", "- name: x"],
    *["Copy: 1 1 1 1", "nvbandwidth Version: v0.6", "Running a.", "Device ID", "Status: Ok"],
)


@settings(max_examples=80, deadline=None)
@given(words=st.lists(st.sampled_from(WORDS), max_size=40), tool=st.sampled_from(TOOLS))
def test_scrambled_vocabulary(tool, words):
    attempt(tool, " ".join(words))
    attempt(tool, "\n".join(words))
