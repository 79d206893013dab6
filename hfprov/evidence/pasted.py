"""What comes with a tool's output that people paste: prompts and commands, fences, quote marks.

Only a recorded text may have them; what a node answers to a command of ours has none, so parsers
know nothing of them.
"""

from __future__ import annotations

import re

from hfprov.errors import NotUnderstoodError
from hfprov.regex import regex

_USER_AT_HOST = r"[\w.-]{1,64}@[\w.%-]{1,255}(?:[: ][^$#%>\n]{0,200})?"
_PROMPT = rf"(?:\(\w[^()\n]{{0,60}}\) ?)?(?:\[{_USER_AT_HOST}\]|{_USER_AT_HOST})? ?"
_ENDED = (
    rf"(?:{_PROMPT}\$>?|(?:\[{_USER_AT_HOST}\]|{_USER_AT_HOST}) ?[#%>]"
    r"|(?:[\w.-]{1,64}:)?[~/][\w./~-]{0,100} ?[#$]|(?:ba|z)?sh-\d\.\d{1,2}[#$]"
    r"|(?:PS )?[A-Z]:\\[^>\n]{0,100}>)"
)
_COMMAND = regex(rf"[ \t]*(?:{_ENDED} +|(?:kubectl|oc|docker|podman) exec )(\S.*)")
_BARE = regex(rf"[ \t]*{_ENDED}[ \t]*")
_PROGRAM = r"(?:sudo )?(?:/\S*/)?(?:{names})"
_OWN = (
    rf"[ \t]*(?:(?:[\w.-]{{{{1,64}}}})?[#>] ?{_PROGRAM}(?:[ \t]+(?!version\b)[-a-z/][^\n]*)?"
    rf"|{_PROGRAM}(?:[ \t]+(?!version\b)(?:-|[a-z][a-z0-9-]*(?=[ \t]+-|[ \t]*$))[^\n]*)?)[ \t]*"
)
"""The tool's own command: with a prompt any words behind it, with none options and no sentence;
never its version."""
_NAMES = {
    "cdi": "nvidia-ctk",
    "flint": "flint|mstflint",
    "ibstat": "ibstat|ibstatus|ibnetdiscover",
    "ibv_devinfo": "ibv_devinfo|ibv_devices",
    "ip-link": "ip",
    "iperf": "iperf3?",
    "ipmi": "ipmitool|ipmi-sel|ipmi-sensors|ipmicfg",
    "kernel-log": "dmesg|journalctl",
    "lldp": "lldpctl|lldpcli|lldptool",
    "mlxconfig": "mlxconfig|mstconfig",
    "mlxfwmanager": "mlxfwmanager|mlxup|mlxfwreset",
    "mst": "mst status",
    "nccl-tests": r"\w{1,40}_perf",
    "network-config": "nmcli",
    "nvme-cli": "nvme",
    "packages": "dpkg|dpkg-query|rpm",
    "perftest": r"ib_\w{1,20}",
    "slurm": "sinfo|squeue|scontrol",
    "xpu-smi": "xpu-smi|xpumcli",
}
"""Programs of a tool that is not called like its program."""
_TRANSCRIPTS = frozenset({"mlxfwmanager"})
"""Their parsers read several commands of one terminal, as a reset and a query after it."""
_MOST_LINES, _LONGEST = 10, 1000
_NO_BREAK = regex(r"(?<![0-9])\u00a0|\u00a0(?![0-9]{3}(?![0-9]))")
"""A no-break space, but not the one that groups the digits of ``6 789``."""
_FENCE = regex(r"(?:```|~~~)[\w.+-]{0,20}")
_QUOTE = regex(r"> ?")


def as_printed(text: str) -> str:
    """``text`` without what copying it added; lines keep their numbers.

    That is: spaces at the ends of lines, no-break spaces, marks of a quotation and an indentation
    that all lines have, and the two lines that fence a block in Markdown.
    """
    text = _NO_BREAK.sub(" ", text.removeprefix("\ufeff"))
    lines = [line.rstrip() for line in text.split("\n")]
    filled = [at for at, line in enumerate(lines) if line]
    if not filled:
        return text
    if all(lines[at].startswith(">") for at in filled) and len(filled) > 1:
        lines = [_QUOTE.sub("", line, count=1) for line in lines]
    lines = _dedented(lines)
    first, last = filled[0], filled[-1]
    if _FENCE.fullmatch(lines[first]) and first != last:
        lines[first] = ""
        if lines[last] in ("```", "~~~"):
            lines[last:] = [""]
    return "\n".join(lines)


def without_prompts(text: str, tool: str) -> str:
    """What ``tool`` printed in ``text``: without prompts, commands and what others printed.

    Lines keep their numbers. ``# command`` and a command without a prompt are taken for such only
    in front and with the tool's own name: many outputs and files begin with a comment or a
    sentence. Raises NotUnderstoodError where it is open which of several outputs is meant.
    """
    names = _NAMES.get(tool, re.escape(tool))
    lines = text.split("\n")
    commands = _commands(
        lines, re.compile(_OWN.format(names=names)), in_front_only=tool in _TRANSCRIPTS
    )
    last = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].strip()), 0)
    ends = last > 0 and len(lines[last]) <= _LONGEST and _BARE.fullmatch(lines[last].rstrip("\r"))
    if ends:
        lines[last:] = [""]
    if not commands:
        return "\n".join(lines) if ends else text
    start, end = _meant(lines, commands, names)
    return "\n".join(_dedented(["" if not start <= at < end else lines[at] for at in range(end)]))


def _commands(lines: list[str], own: re.Pattern[str], *, in_front_only: bool) -> dict[int, str]:
    """The command of every line that is one."""
    commands: dict[int, str] = {}
    in_front = True
    for at, line in enumerate(lines):
        plain = line.rstrip("\r")
        if not plain.strip() or len(plain) > _LONGEST:
            continue
        found = _COMMAND.fullmatch(plain)
        if found or (in_front and at < _MOST_LINES and own.fullmatch(plain)):
            commands[at] = found.group(1) if found else plain
        elif in_front_only:
            break
        else:
            in_front = False
    return commands


def _meant(lines: list[str], commands: dict[int, str], names: str) -> tuple[int, int]:
    """First and last line (not included) of the only output that can be the tool's.

    Where no command names the tool (``kubectl logs``), its parser has to find its way.
    """
    starts = [-1, *commands]
    spans = [
        (start + 1, end)
        for start, end in zip(starts, [*commands, len(lines)], strict=True)
        if any(line.strip() for line in lines[start + 1 : end])
    ]
    if len(spans) < 2:
        return spans[0] if spans else (len(lines), len(lines))
    called = re.compile(rf"(?:^|[\s/|;&(])(?:{names})(?=[\s|;]|$)")
    own = [span for span in spans if span[0] == 0 or called.search(commands[span[0] - 1])]
    if len(own) == 1:
        return own[0]
    if not own:
        return spans[0][0], spans[-1][1]
    where = ", ".join(f"{start + 1}" for start, _ in own[:_MOST_LINES])
    raise NotUnderstoodError(
        f"The text has the outputs of {len(own)} commands, which begin in lines {where}.",
        hint="Keep the output of one command in a file, and read each file by itself.",
    )


def _dedented(lines: list[str]) -> list[str]:
    depth = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
    return [line[depth:] for line in lines]
