"""Whatever a node answers, a host parser gives facts or refuses; it never fails otherwise."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import MAX_TEXT
from hfprov.evidence.tools import find_tool

ROOT = Path(__file__).parents[3]
CAPTURES = ROOT.parent / "shared" / "captures"
HOST_TOOLS = [
    "dmidecode",
    "ipmi",
    "limits",
    "lscpu",
    "lspci",
    "network-config",
    "numactl",
    "nvme-cli",
    "os-release",
    "packages",
    "proc",
    "proc-interrupts",
    "redfish",
    "slurm",
    "smartctl",
    "sysctl",
    "sysfs",
]

BEGINNINGS = {
    "dmidecode": "# dmidecode 3.3\nHandle 0x0001, DMI type 17, 40 bytes\nMemory Device\n\tSize: ",
    "ipmi": " 1 | 12/24/2022 | 13:58:36 | ",
    "limits": "Limit                     Soft Limit           Hard Limit           Units\n",
    "lscpu": "Architecture: x86_64\nCPU(s): ",
    "lspci": "00:00.0 Host bridge [0600]: Intel [8086:1237]\n\tLnkSta: ",
    "network-config": "network:\n  ethernets:\n    eth0: ",
    "numactl": "available: 2 nodes (0-1)\nnode 0 cpus: ",
    "nvme-cli": '{"critical_warning": 0, "temperature": ',
    "os-release": "ID=ubuntu\n",
    "packages": "Desired=Unknown\n||/ Name\n+++-====-====-====-====\nii  ",
    "proc": "MemTotal: 1 kB\nMemFree: ",
    "proc-interrupts": "  CPU0  CPU1\n  0:  ",
    "redfish": '{"@odata.type": "#Memory.v1_0_0.Memory", "Id": ',
    "slurm": "NodeName=a State=",
    "smartctl": '{"smartctl": {"exit_status": 0}, "smart_status": ',
    "sysctl": "vm.swappiness = ",
    "sysfs": '{"/sys/a": ',
}
"""Texts that get a parser past its first look."""


def attempt(tool: str, text: str) -> bool:
    """Whether the text was understood; anything but a refusal is a failure of the test."""
    refusal = None
    try:
        find_tool(tool).parse(text)
    except NotUnderstoodError as error:
        refusal = error
    if refusal is None:
        return True
    assert refusal.message.endswith((".", "?", "!"))
    assert "\x1b" not in refusal.message
    assert len(refusal.message) < 1000
    return False


def samples(tool: str, most: int = 6) -> list[str]:
    """The smallest real outputs of a tool."""
    files = [path for path in (CAPTURES / tool).rglob("*") if path.is_file()]
    files = sorted(
        (path for path in files if path.stat().st_size > 40), key=lambda p: p.stat().st_size
    )
    return [path.read_bytes().decode("utf-8", "backslashreplace") for path in files[:most]]


@pytest.mark.parametrize("tool", HOST_TOOLS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n",
        " ",
        "\x00" * 1000,
        "\ufeff",
        "\x1b[31mred\x1b[0m",
        "<html><body>502 Bad Gateway</body></html>",
        "{}",
        "[]",
        "null",
        "[" * 100_000,
        '{"a":' * 50_000,
        "9" * 10_000,
        '{"lscpu": ' + "9" * 5000 + "}",
        "bash: lspci: command not found",
        "sudo: a password is required",
        "Permission denied",
        "/dev/mem: Permission denied",
        "Could not open device at /dev/ipmi0 or /dev/ipmi/0: No such file or directory",
        "Segmentation fault (core dumped)",
    ],
    ids=range(20),
)
def test_what_is_no_output_at_all_is_refused(tool: str, text: str) -> None:
    if tool == "sysfs" and text not in ("", "\n\n\n", " ", "{}") and not text.startswith("{"):
        assert attempt(tool, text) in (True, False)  # any short text may be the content of a file
        return
    assert not attempt(tool, text)


@pytest.mark.parametrize("tool", HOST_TOOLS)
def test_a_refusal_quotes_why_the_tool_did_not_answer(tool: str) -> None:
    if tool == "sysfs":
        text, words = "cat: /sys/x: Permission denied", "Permission denied"
    else:
        text, words = "tool: /dev/mem: Permission denied", "Permission denied"
    with pytest.raises(NotUnderstoodError) as refusal:
        find_tool(tool).parse(text)
    assert words in refusal.value.message


@pytest.mark.parametrize("tool", HOST_TOOLS)
def test_too_much_text_is_refused(tool: str) -> None:
    with pytest.raises(NotUnderstoodError, match="characters long"):
        find_tool(tool).parse(BEGINNINGS[tool] + "x" * (MAX_TEXT + 1))


HOSTILE = st.text(
    alphabet=st.one_of(
        st.sampled_from(list("0123456789abcdef:.|,=-+[](){}\"'% \t\n\r#/")),
        st.characters(min_codepoint=0, max_codepoint=0x2FFF),
    ),
    max_size=300,
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("tool", HOST_TOOLS)
@given(tail=HOSTILE)
def test_random_text_never_crashes(tool: str, tail: str) -> None:
    attempt(tool, tail)
    attempt(tool, BEGINNINGS[tool] + tail)


@pytest.mark.parametrize("tool", HOST_TOOLS)
def test_mutilated_real_output_never_crashes(tool: str) -> None:
    chance = random.Random(7)
    for text in samples(tool):
        short = text[:12_000]
        lines = short.split("\n")
        for _ in range(25):
            place = chance.randrange(len(short) + 1)
            cut = chance.randrange(1, 40)
            noise = "".join(chance.choices("0 9aZ:|-\n\t\x00\x1b[\u0665é", k=8))
            attempt(tool, short[:place] + noise + short[place + cut :])
            attempt(tool, short[:place])
            shuffled = list(lines)
            chance.shuffle(shuffled)
            attempt(tool, "\n".join(shuffled))
            attempt(tool, "\n".join(lines[: chance.randrange(len(lines) + 1)]))


@pytest.mark.parametrize("tool", HOST_TOOLS)
def test_line_ends_and_escape_sequences_do_not_matter(tool: str) -> None:
    for text in samples(tool):
        try:
            facts = find_tool(tool).parse(text)
        except NotUnderstoodError:
            continue
        assert find_tool(tool).parse(text.replace("\r", "").replace("\n", "\r\n")) == facts
        if tool != "sysfs":  # a colour inside a dump would be part of a file's path
            assert find_tool(tool).parse("\x1b[0m" + text.replace("\n", "\x1b[K\n")) == facts


SLOW = {
    "blank lines": "\n" * 400_000,
    "blanks": " " * 400_000,
    "a long word": "a" * 400_000,
    "colons": ":" * 400_000,
    "dashes": "a-" * 200_000,
    "brackets": " (prog-if " + "a" * 300_000,
    "quotes": '"' * 400_000,
    "pipes": "a | " * 100_000,
    "digits": "1 " * 200_000,
    "short lines": "a\n" * 200_000,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("tool", HOST_TOOLS)
@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW)
def test_no_text_takes_a_parser_long(tool: str, text: str) -> None:
    """Quadratic time would be minutes here; the deadline of the test ends it."""
    attempt(tool, text)
    attempt(tool, BEGINNINGS[tool] + text)
    attempt(tool, BEGINNINGS[tool] + "x" + text + "y\n")
