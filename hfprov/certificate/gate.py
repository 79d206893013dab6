"""``hfprov gate``: may these nodes be used? Answered from the signed index, in one short process.

Standard library only, and as little of it as will do: this runs before every job. The record is
not opened and no node is contacted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from hfprov.certificate import places
from hfprov.certificate.signing import INDEX_NAMESPACE, SignatureRefusedError, verify
from hfprov.errors import ExitCode, HfprovError, UsageError

CLOCK_TOLERANCE = 60.0
"""Seconds that two controllers' clocks may differ."""
SCHEMA = "hfprov.gate/1"
_MACHINE_ID = Path("/etc/machine-id")


class Answer(NamedTuple):
    """Whether one node may be used, and why not."""

    node: str
    allowed: bool
    reason: str = ""
    certificate: str = ""


class Index(NamedTuple):
    """A signed index whose signature was found to be good."""

    made_at: float
    latest: float
    entries: Mapping[str, Sequence[Mapping[str, Any]]]
    """By host."""
    groups: Sequence[Mapping[str, Any]]
    revoked: Mapping[str, str]


def load_index(path: Path, signers: Path) -> Index:
    """Read and verify. Raises SignatureRefusedError, or UsageError when there is no index."""
    try:
        envelope = json.loads(path.read_text("utf-8"))
        text, signature = str(envelope["body"]), str(envelope["signature"])
        signer, revoked = str(envelope["signer"]), dict(envelope["revoked"])
        latest = float(envelope["latest"])
    except OSError as error:
        raise UsageError(
            f"There is no index of certificates at '{path}': {error.strerror}.",
            hint="'hfprov certify' writes it.",
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SignatureRefusedError(f"The index '{path}' is damaged: {error!r}.") from error
    try:
        verify(text, signature, signers, principal=signer, namespace=INDEX_NAMESPACE)
    except SignatureRefusedError as error:
        raise SignatureRefusedError(
            f"The index '{path}' proves nothing. {error.message}", hint=error.hint
        ) from error
    body = json.loads(text)
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for one in body["certificates"]:
        entries.setdefault(one["host"], []).append(one)
    return Index(float(body["made_at"]), latest, entries, body["groups"], revoked)


def ask(index: Index, nodes: Iterable[str], profile: str, now: float) -> list[Answer]:
    """An answer for each node. Raises SignatureRefusedError when the clock went backwards."""
    last = max(index.made_at, index.latest)
    if now < last - CLOCK_TOLERANCE:
        raise SignatureRefusedError(
            f"This machine's clock says {_when(now)}, and the index was last written {_when(last)}:"
            " whether a certificate has expired cannot be told.",
            hint="Set the clock.",
        )
    return [_ask(index, node, profile, now) for node in nodes]


def _ask(index: Index, node: str, profile: str, now: float) -> Answer:
    found = [one for one in index.entries.get(node, ()) if profile in ("", one["profile"])]
    if not found:
        kind = f" of profile '{profile}'" if profile else ""
        return Answer(node, allowed=False, reason=f"it has no certificate{kind}")
    refusals = []
    for one in sorted(found, key=lambda one: float(one["issued"]), reverse=True):
        why = _refusal(index, one, now)
        if not why:
            return Answer(node, allowed=True, certificate=one["id"])
        refusals.append((why, one["id"]))
    return Answer(node, allowed=False, reason=refusals[0][0], certificate=refusals[0][1])


def _refusal(index: Index, one: Mapping[str, Any], now: float) -> str:
    reason = index.revoked.get(one["id"]) or one["revoked"]
    if reason:
        return f"its certificate was revoked: {reason}"
    if not one["signed"]:
        return "its certificate is not signed"
    if now < one["issued"] - CLOCK_TOLERANCE:
        return f"its certificate is valid only from {_when(one['issued'])}"
    if now >= one["expires"]:
        return f"its certificate expired {_when(one['expires'])}"
    return ""


def ask_group(index: Index, name: str, profile: str, now: float) -> list[Answer]:
    """One answer for each member of a certified group, and one for a group that is not."""
    found = [one for one in index.groups if one["name"] == name and profile in ("", one["profile"])]
    if not found:
        return [Answer(name, allowed=False, reason="no group of this name was certified")]
    one = max(found, key=lambda one: float(one["issued"]))
    if now >= one["expires"]:
        why = f"the certificate of the group expired {_when(one['expires'])}"
        return [Answer(name, allowed=False, reason=why)]
    for member, certificate in one["members"].items():
        # The member may hold a newer one; that it is still like the others is not known then.
        if certificate in index.revoked:
            why = f"the certificate of its member '{member}' was revoked"
            why = f"{why}: {index.revoked[certificate]}"
            return [Answer(name, allowed=False, reason=why, certificate=one["id"])]
    return ask(index, one["members"], one["profile"], now)


def here(index: Index, node: str, machine_id: str) -> str:
    """Why this machine is not the one that was certified as ``node``; empty when it is."""
    known = {one["machine_id"] for one in index.entries.get(node, ())}
    if machine_id and machine_id in known:
        return ""
    other = [
        host
        for host, entries in index.entries.items()
        if any(machine_id and one["machine_id"] == machine_id for one in entries)
    ]
    if other:
        return f"this machine was certified as '{other[0]}', not as '{node}'"
    return f"this is not the machine that was certified as '{node}'"


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"hfprov gate: {message}.", hint="See 'hfprov gate --help'.")


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="hfprov gate", allow_abbrev=False, description=DESCRIPTION)
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="inventory names")
    parser.add_argument("--group", help="every member of this certified group")
    parser.add_argument("--profile", default="", help="only certificates of this profile count")
    parser.add_argument("--here", action="store_true", help="the one NODE is this machine")
    parser.add_argument("--db", help="the record whose index is asked; $HFPROV_DB")
    parser.add_argument("--index", type=Path, help="the index itself, e.g. a copy on a node")
    parser.add_argument("--allowed-signers", type=Path, help="whom to trust; ssh-keygen(1)")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--quiet", "-q", action="store_true", help="say nothing, only exit")
    return parser.parse_args(argv)


DESCRIPTION = (
    "Succeed only if every node holds a valid certificate. Exit codes: 0 all do, 1 some do not, "
    "2 wrong usage, 3 it cannot be told."
)


def main(argv: Sequence[str]) -> int:
    """The command. Prints one line for each node that is refused; returns the exit code."""
    options = argparse.Namespace(quiet=False)
    try:
        options = _options(argv)
        answers = _answers(options, time.time())
    except HfprovError as error:
        if not options.quiet:
            sys.stderr.write(f"hfprov: {error.message}\n")
            if error.hint:
                sys.stderr.write(f"        {error.hint}\n")
        refused = isinstance(error, SignatureRefusedError)
        return int(ExitCode.UNKNOWN if refused else error.exit_code)
    code = _code(answers)
    if options.json:
        document = {
            "schema": SCHEMA,
            "exit_code": code,
            "nodes": [answer._asdict() for answer in answers],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    elif not options.quiet:
        for answer in answers:
            if not answer.allowed:
                sys.stderr.write(f"{_plain(answer.node)}: {_plain(answer.reason)}\n")
    return code


def _code(answers: Sequence[Answer]) -> int:
    if not answers:
        return int(ExitCode.NOTHING)
    good = all(answer.allowed for answer in answers)
    return int(ExitCode.GOOD if good else ExitCode.BAD)


def _answers(options: argparse.Namespace, now: float) -> list[Answer]:
    if bool(options.nodes) == bool(options.group):
        raise UsageError("Name the nodes, or a group with '--group'.")
    if options.here and len(options.nodes) != 1:
        raise UsageError("'--here' is about one node: name it.")
    home = places.home_of(options.db or os.environ.get("HFPROV_DB"))
    path = options.index or places.index_in(home)
    index = load_index(path, places.signers_for(path.parent, options.allowed_signers))
    if options.group:
        return ask_group(index, options.group, options.profile, now)
    answers = ask(index, dict.fromkeys(options.nodes), options.profile, now)
    if options.here and answers[0].allowed:
        try:
            machine_id = _MACHINE_ID.read_text("ascii", "replace").strip()
        except OSError:
            machine_id = ""
        why = here(index, answers[0].node, machine_id)
        if why:
            return [answers[0]._replace(allowed=False, reason=why)]
    return answers


def _plain(text: str) -> str:
    """Without control characters: reasons come from nodes."""
    return "".join(one if one.isprintable() else "?" for one in text)[:500]
