"""The options of an ``ssh`` command line that an inventory may carry: understood, or refused."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A setting that cannot be honoured."""

    setting: str
    reason: str


# ssh_config(5) keywords that change speed, patience, convenience or the order of what is tried, but
# not which machine is reached, as whom, or how its key is checked. KexAlgorithms is among them as
# the shipped ansible.cfg sets it for speed; Fabric negotiates its own.
_HARMLESS = (
    "addkeystoagent batchmode checkhostip clearallforwardings compression "
    "connectionattempts controlmaster controlpath controlpersist enableescapecommandline "
    "escapechar exitonforwardfailure fingerprinthash forwardagent forwardx11 "
    "gssapiauthentication gssapidelegatecredentials hashknownhosts ipqos "
    "kbdinteractiveauthentication kexalgorithms loglevel "
    "numberofpasswordprompts passwordauthentication preferredauthentications "
    "pubkeyauthentication rekeylimit requesttty serveralivecountmax serveraliveinterval "
    "tcpkeepalive updatehostkeys visualhostkey"
)
_FLAG_KEYWORDS = {
    "i": "identityfile", "J": "proxyjump", "l": "user", "o": "", "p": "port",
    "F": "configfile", "b": "bindaddress", "B": "bindinterface", "c": "ciphers", "D": "forward",
    "E": "logfile", "e": "escapechar", "I": "pkcs11provider", "L": "forward", "m": "macs",
    "O": "control", "Q": "query", "R": "forward", "S": "controlpath", "W": "forward", "w": "tunnel",
}  # fmt: skip
_HARMLESS_FLAGS = frozenset("ACTakqtvxXY")
_LOWEST_PORT, _HIGHEST_PORT = 1, 65535


class SshOptions:
    """Options of OpenSSH in the order of its command line: the first value of a keyword counts."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.key_files: list[str] = []
        self.refusals: list[Refusal] = []

    def add(self, keyword: str, value: str, source: str) -> None:
        """Take one ``keyword value``; identity files add up, of all others the first counts."""
        name = keyword.lower()
        if name == "identityfile":
            if "%" in value or "${" in value:
                reason = "Tokens are not understood in the name of a key file."
                self.refusals.append(Refusal(f"{source}: {keyword}={value}", reason))
            elif value.lower() != "none":
                self.key_files.append(value)
        elif name in _OPTION_CHECKS:
            if name not in self.values:
                self.values[name] = value
                reason = _OPTION_CHECKS[name](value)
                if reason:
                    self.refusals.append(Refusal(f"{source}: {keyword}={value}", reason))
        elif name not in _HARMLESS.split():
            reason = "Observation does not connect through OpenSSH and cannot honour this option."
            self.refusals.append(Refusal(f"{source}: {keyword}={value}", reason))

    def add_line(self, line: str, source: str) -> None:
        """Take the words of ``ansible_ssh_common_args`` and its like."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            self.refusals.append(Refusal(f"{source}: {line}", f"It cannot be split: {error}."))
            return
        position = 0
        while position < len(words):
            position = self._add_word(words, position, source)

    def _add_word(self, words: Sequence[str], position: int, source: str) -> int:
        """Take the word at a position and its argument. Returns the position after them."""
        word = words[position]
        flag, attached = word[1:2], word[2:]
        if (
            not word.startswith("-")
            or not flag
            or flag not in _HARMLESS_FLAGS | set(_FLAG_KEYWORDS)
        ):
            self.refusals.append(Refusal(f"{source}: {word}", "This is not an option of ssh."))
            return position + 1
        if flag in _HARMLESS_FLAGS:
            if set(attached) <= _HARMLESS_FLAGS:
                return position + 1
            self.refusals.append(Refusal(f"{source}: {word}", "Write each option by itself."))
            return position + 1
        if not attached:
            position += 1
            if position == len(words):
                self.refusals.append(Refusal(f"{source}: {word}", "The option has no argument."))
                return position
            attached = words[position]
        if flag == "o":
            keyword, _, value = re.sub(r"\s*=\s*|\s+", "=", attached.strip(), count=1).partition(
                "="
            )
            self.add(keyword, value.strip().strip('"'), source)
        else:
            self.add(_FLAG_KEYWORDS[flag], attached, source)
        return position + 1


def _check_strict(value: str) -> str:
    if value.lower() in ("yes", "ask", "true"):
        return ""
    return "Host keys are always checked: a node with an unknown key is not our node."


def _check_port(value: str) -> str:
    if value.isdecimal() and _LOWEST_PORT <= int(value) <= _HIGHEST_PORT:
        return ""
    return "A port is a number from 1 to 65535."


def _check_timeout(value: str) -> str:
    if value.lower() == "none" or (value.isdecimal() and int(value) > 0):
        return ""
    return "A connect timeout is a number of seconds, greater than 0."


def _check_known_hosts(value: str) -> str:
    for name in value.split():
        if name == "/dev/null":
            return "Without known host keys no node can be told from another machine."
        left = re.sub(r"%[du%]", "", name)
        if "%" in left or "${" in left:
            return "Of OpenSSH's tokens only %d, %u and %% are understood in a file of host keys."
    return ""


def _check_jump(value: str) -> str:
    if value.lower() == "none" or all(jump_parts(part) for part in value.split(",")):
        return ""
    return "A jump is written '[user@]host[:port]', several with commas between them."


def _check_yes_no(value: str) -> str:
    return "" if value.lower() in ("yes", "no", "true", "false") else "It is 'yes' or 'no'."


_OPTION_CHECKS: Mapping[str, Callable[[str], str]] = {
    "stricthostkeychecking": _check_strict,
    "port": _check_port,
    "connecttimeout": _check_timeout,
    "userknownhostsfile": _check_known_hosts,
    "globalknownhostsfile": _check_known_hosts,
    "proxyjump": _check_jump,
    "proxycommand": lambda value: "" if value else "The command is empty.",
    "identitiesonly": _check_yes_no,
    "user": lambda value: "" if value else "The user is empty.",
}


def jump_parts(text: str) -> re.Match[str] | None:
    pattern = (
        r"(?:ssh://)?(?:(?P<user>[^@\s/]+)@)?(?:\[(?P<six>[0-9a-fA-F:%\w]+)\]|(?P<host>[\w.][\w.-]*))"
        r"(?::(?P<port>\d{1,5}))?/?"
    )
    return re.fullmatch(pattern, text.strip())
