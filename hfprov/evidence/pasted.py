"""What comes with a tool's output that people paste: prompts and commands, fences, quote marks.

Only a recorded text may have them; what a node answers to a command of ours has none, so parsers
know nothing of them.
"""

from __future__ import annotations

import re

from hfprov.regex import regex

_USER_AT_HOST = r"[\w.-]{1,64}@[\w.%-]{1,255}(?:[: ][^$#%>\n]{0,200})?"
_PROMPT = rf"(?:\(\w[^()\n]{{0,60}}\) ?)?(?:\[{_USER_AT_HOST}\]|{_USER_AT_HOST})? ?"
_ENDED = rf"(?:{_PROMPT}\$>?|(?:\[{_USER_AT_HOST}\]|{_USER_AT_HOST}) ?[#%>])"
_COMMAND = regex(rf"[ \t]*{_ENDED} +\S.*")
_BARE = regex(rf"[ \t]*{_ENDED}[ \t]*")
_PROGRAM = r"(?:sudo )?(?:/\S*/)?(?:{names})"
_OWN = (
    rf"[ \t]*(?:(?:[\w.-]{{{{1,64}}}})?[#>] ?{_PROGRAM}(?:[ \t]+(?!version\b)[-a-z/][^\n]*)?"
    rf"|{_PROGRAM}(?:[ \t]+(?!version\b)(?:-|[a-z][a-z0-9-]*(?=[ \t]+-|[ \t]*$))[^\n]*)?)[ \t]*"
)
"""The tool's own command: with a prompt any words behind it, with none options and no sentence;
never its version."""
_NAMES = {
    "flint": "flint|mstflint",
    "ibstat": "ibstat|ibstatus",
    "ip-link": "ip",
    "ipmi": "ipmitool",
    "kernel-log": "dmesg|journalctl",
    "lldp": "lldpctl|lldpcli",
    "mlxconfig": "mlxconfig|mstconfig",
    "mlxfwmanager": "mlxfwmanager|mlxup",
    "network-config": "nmcli",
    "nvme-cli": "nvme",
    "packages": "dpkg|dpkg-query|rpm",
    "perftest": r"ib_\w{1,20}",
    "slurm": "sinfo|squeue|scontrol",
}
"""Programs of a tool that is not called like its program."""
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
    depth = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
    lines = [line[depth:] for line in lines]
    first, last = filled[0], filled[-1]
    if _FENCE.fullmatch(lines[first]) and first != last:
        lines[first] = ""
        if lines[last] in ("```", "~~~"):
            lines[last:] = [""]
    return "\n".join(lines)


def without_prompts(text: str, tool: str) -> str:
    """``text`` with lines in front that are a prompt with a command emptied, and no last prompt.

    Lines keep their numbers. ``# command`` and a command without a prompt are taken for such only
    with the tool's own name: many outputs and files begin with a comment or a sentence.
    """
    own = re.compile(_OWN.format(names=_NAMES.get(tool, re.escape(tool))))
    lines = text.split("\n")
    commands = 0
    for at, line in enumerate(lines[:_MOST_LINES]):
        plain = line.rstrip("\r")
        if not plain.strip():
            continue
        if len(plain) > _LONGEST or not (_COMMAND.fullmatch(plain) or own.fullmatch(plain)):
            break
        lines[at] = ""
        commands += 1
    last = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].strip()), 0)
    ends = last > 0 and len(lines[last]) <= _LONGEST and _BARE.fullmatch(lines[last].rstrip("\r"))
    if ends:
        lines[last:] = [""]
    return "\n".join(lines) if commands or ends else text
