"""The programs that measurements need: whether each starts, and in what version.

A tool is asked for its version, or for its help where it has no such option; either shows that the
program, and the libraries that it is linked with, are there. Exit codes are as observed on Debian
12 and 13: perftest ends with 1 and libibverbs' tools with 255 although all is well. The questions
to the vendors' tools follow their documentation and were not asked on real machines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence import systemd
from hfprov.evidence.dpkg_query import one_query
from hfprov.evidence.systemd import Properties, property_of
from hfprov.evidence.systemd_units import together
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, command, file


class Question(Struct, frozen=True):
    """How a tool is asked whether it runs."""

    argv: tuple[str, ...]
    says: str
    """Regular expression of its answer; its group, if it has one, is the version."""
    codes: tuple[int, ...] = (0,)

    @property
    def read(self) -> Read:
        return command(*self.argv, limit=16 * 1024)


QUESTIONS: Mapping[str, Question] = {
    "all_reduce_perf": Question(
        ("all_reduce_perf", "--help"), "USAGE: all_reduce_perf", codes=(0, 1)
    ),
    "dcgmi": Question(("dcgmi", "--version"), r"version: *(\S+)"),
    "dmidecode": Question(("dmidecode", "--version"), r"^(\d[\d.]*)"),
    "ethtool": Question(("ethtool", "--version"), r"^ethtool version (\S+)"),
    "fio": Question(("fio", "--version"), r"^fio-(\S+)"),
    "ib_write_bw": Question(("ib_write_bw", "--version"), r"^Version: (\S+)", codes=(0, 1)),
    "ibstat": Question(("ibstat", "--version"), r"BUILD VERSION: (\S+)"),
    "ibv_devinfo": Question(("ibv_devinfo", "--help"), r"^Usage: ibv_devinfo", codes=(0, 1, 255)),
    "iperf3": Question(("iperf3", "--version"), r"^iperf (\S+)"),
    "ipmitool": Question(("ipmitool", "-V"), r"^ipmitool version (\S+)"),
    "lldpcli": Question(("lldpcli", "-v"), r"^(\d[\d.]*)"),
    "lshw": Question(("lshw", "-help"), r"\(lshw\) - *(\S*)", codes=(0, 1)),
    "lspci": Question(("lspci", "--version"), r"^lspci version (\S+)"),
    "mstflint": Question(("mstflint", "--version"), r"^mstflint, mstflint (\S+?),"),
    "numactl": Question(("numactl", "--show"), r"^policy: "),
    "nvbandwidth": Question(("nvbandwidth", "--help"), r"nvbandwidth Version: (\S+)"),
    "nvme": Question(("nvme", "version"), r"^nvme version (\S+)"),
    "rdma-ndd": Question(("rdma-ndd", "--help"), r"^rdma-ndd "),
    "rvs": Question(("rvs", "--version"), r"(\d+\.\S+)"),
    "smartctl": Question(("smartctl", "--version"), r"^smartctl (\S+)"),
    "sockperf": Question(("sockperf", "--version"), r"^sockperf, version (\S+)"),
    "stress-ng": Question(("stress-ng", "--version"), r"^stress-ng, version (\S+)"),
    "TransferBench": Question(("TransferBench",), r"TransferBench v?(\S+)", codes=(0, 1)),
}


class Answer(Struct, frozen=True):
    """What one tool said."""

    version: str
    """Empty where the tool tells none, or does not run."""
    problem: str
    """Why it does not run; empty when it does."""


def parse_answer(question: Question, result: Result) -> Answer:
    """Whether a tool runs, from what it said. A tool that is not there is a fact, not a gap."""
    if result.status == "absent":
        return Answer("", "not there")
    if result.status == "timeout":
        return Answer("", f"it did not end within its deadline ({result.ms} ms)")
    if not result.ok:
        return Answer("", excerpt(result.stderr or result.status, 120))
    text = clean(f"{result.text}\n{result.stderr}")
    match = re.search(question.says, text, re.MULTILINE)
    if result.code not in question.codes or match is None:
        said = excerpt(text.strip().rpartition("\n")[2], 120) or "nothing"
        return Answer("", f"it ended with {result.code} and said: {said}")
    return Answer(match[1] if match.re.groups else "", "")


def wanted_tools(baseline: Baseline) -> tuple[str, ...]:
    """The declared tools, each once, in the order in which they are declared."""
    names = (
        *baseline.get("diagnostics_tools_wanted", ()),
        *baseline.get("diagnostics_tools_site_tools", ()),
    )
    return tuple(name for name in dict.fromkeys(map(str, names)) if name in QUESTIONS)


def _tool_reads(baseline: Baseline) -> tuple[Read, ...]:
    return tuple(QUESTIONS[name].read for name in wanted_tools(baseline))


def _parse_tools(seen: Observation, baseline: Baseline) -> Mapping[str, Answer]:
    return {
        name: parse_answer(QUESTIONS[name], seen.one(QUESTIONS[name].read))
        for name in wanted_tools(baseline)
    }


TOOLS: Source[Mapping[str, Answer]] = Source("diagnostic tools", _tool_reads, _parse_tools)


def _service_reads(baseline: Baseline) -> tuple[Read, ...]:
    names = (*baseline.get("diagnostics_tools_services_off", ()), "lldpd")
    wanted = "--property=Id,LoadState,ActiveState,UnitFileState"
    units = (f"{name}.service" for name in names)
    return (together(command("systemctl", "show", wanted, "--", *units)),)


def _parse_services(seen: Observation, baseline: Baseline) -> Mapping[str, Properties]:
    units = systemd.parse(seen.text(_service_reads(baseline)[0]))
    return {property_of(unit, "Id"): unit for unit in units}


SERVICES: Source[Mapping[str, Properties]] = Source(
    "services of diagnostic tools", _service_reads, _parse_services
)

REPOSITORY_FILES = (
    file("/etc/apt/sources.list.d/hfprov-site.sources"),
    file("/etc/yum.repos.d/hfprov-site.repo"),
)
KEY_FILE = file("/etc/pki/rpm-gpg/RPM-GPG-KEY-hfprov-site")


def _parse_repository(seen: Observation, _: Baseline) -> Mapping[str, Result]:
    """The files of the site's repository that are there, by path."""
    found = [seen.one(read) for read in (*REPOSITORY_FILES, KEY_FILE)]
    return {result.name: result for result in found if result.status != "absent"}


REPOSITORY: Source[Mapping[str, Result]] = Source(
    "repository of the site", lambda _: (*REPOSITORY_FILES, KEY_FILE), _parse_repository
)


def _package_reads(baseline: Baseline) -> tuple[Read, ...]:
    names = tuple(map(str, baseline.get("diagnostics_tools_site_packages", ())))
    if not names:
        return ()
    form = "${Package} ${db:Status-Status}\\n"
    return (
        one_query(command("dpkg-query", "--show", f"--showformat={form}", "--", *names)),
        command("rpm", "--query", "--queryformat=%{NAME} installed\\n", "--", *names),
    )


def parse_package_states(text: str) -> Mapping[str, str]:
    """State by package, from lines ``name state``."""
    found = {}
    for line in clean(text).splitlines():
        name, _, state = line.strip().partition(" ")
        if state == "" or not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name):
            raise NotUnderstoodError(f"'{excerpt(line)}' is not the state of a package.")
        found[name] = state
    return found


def _parse_packages(seen: Observation, baseline: Baseline) -> Mapping[str, str]:
    reads = _package_reads(baseline)
    if not reads:
        return {}
    dpkg, rpm = reads
    if seen.one(dpkg).status != "absent":
        # It ends with 1 when one of them is not known, and prints the others.
        return parse_package_states(seen.text(dpkg, codes=(0, 1)))
    lines = [
        line
        for line in seen.text(rpm, codes=range(256)).splitlines()
        if not line.endswith("is not installed")
    ]
    return parse_package_states("\n".join(lines))


SITE_PACKAGES: Source[Mapping[str, str]] = Source(
    "packages of the site", _package_reads, _parse_packages
)

STREAM_SOURCE = "/usr/local/src/hfprov/stream.c"
STREAM_PROGRAM = "/usr/local/bin/stream"
STREAM_STAMP = file("/usr/local/src/hfprov/stream.stamp", limit=1024)
_DIGESTS = command("sha256sum", STREAM_SOURCE, STREAM_PROGRAM)
_FILES = (file(STREAM_SOURCE, limit=0), file(STREAM_PROGRAM, limit=0))


class Stream(Struct, frozen=True):
    """STREAM as it was built on the node."""

    stamp: tuple[str, ...]
    """Elements, digest of the source, digest of the program, when it was built; () for none."""
    digests: Mapping[str, str]
    """SHA-256 of source and program now, by path; a missing file is left out."""
    rights: Mapping[str, str]
    """``MODE UID:GID`` by path."""


def _parse_stream(seen: Observation, _: Baseline) -> Stream:
    stamp = seen.one(STREAM_STAMP)
    digests = {}
    # sha256sum ends with 1 when a file is missing, and prints the others.
    for line in clean(seen.text(_DIGESTS, codes=(0, 1))).splitlines():
        match = re.fullmatch("([0-9a-f]{64})  (/.+)", line)
        if match is None:
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of 'sha256sum'.")
        digests[match[2]] = match[1]
    return Stream(
        tuple(clean(seen.text(STREAM_STAMP)).split()) if stamp.status != "absent" else (),
        digests,
        {
            one.name: f"{one.mode or 0:04o} {one.uid}:{one.gid}"
            for one in map(seen.one, _FILES)
            if one.status != "absent"
        },
    )


def _stream_reads(baseline: Baseline) -> tuple[Read, ...]:
    """Nothing where it is not declared: to sum up what is not there costs a process."""
    declared = baseline.get("diagnostics_tools_stream_source", "")
    return (STREAM_STAMP, _DIGESTS, *_FILES) if declared else ()


STREAM: Source[Stream] = Source("STREAM", _stream_reads, _parse_stream)
