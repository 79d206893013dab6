"""What happens at the next boot beside the roles: the target, sshd, and scripts that set things.

A role's unit sets what is declared once; a line in ``/etc/rc.local``, a crontab's ``@reboot``,
tmpfiles.d(5) or a script of the network may set something else after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.grep import grep, lines
from hfprov.evidence.sysctl_files import dotted
from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Source, file, once
from hfprov.regex import regex

_TARGETS = tuple(file(f"/{place}/systemd/system/default.target") for place in ("etc", "usr/lib"))


def _parse_target(seen: Observation, _: Baseline) -> str:
    for read in _TARGETS:
        result = seen.one(read)
        if result.link or result.status != "absent":
            return excerpt((result.link or result.name).rpartition("/")[2])
    raise NoEvidenceError("The node has no 'default.target'.")


TARGET: Source[str] = Source("target of the next boot", lambda _: _TARGETS, _parse_target)
"""Name of the target that ``default.target`` leads to."""

_LOGIN = units(
    "ssh.service", "sshd.service", "ssh.socket", "sshd.socket", properties=("UnitFileState",)
)
LOGIN_UNITS: Source[Mapping[str, Properties]] = Source(
    "units of sshd", lambda _: (_LOGIN,), lambda seen, _: shown_units(seen, _LOGIN)[1]
)

_PLACES = (
    *("/etc/rc.local", "/etc/rc.d/rc.local", "/etc/sysfs.conf", "/etc/sysfs.d"),
    *("/etc/crontab", "/etc/cron.d", "/var/spool/cron"),
    *("/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly"),
    *("/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d"),
    *("/etc/udev/rules.d", "/etc/systemd/system", "/usr/local/lib/systemd/system"),
    *("/etc/network/if-pre-up.d", "/etc/network/if-up.d", "/etc/networkd-dispatcher"),
    "/etc/NetworkManager/dispatcher.d",
)
_PATTERN = r"sysctl|/proc/sys/|\bmtu\b|scaling_governor|cpupower|transparent_hugepage/enabled"
_SCRIPTS = (
    *("/usr/local/sbin/*", "/usr/local/bin/*.sh", "/root/*.sh", "/root/bin/*", "/srv/*.sh"),
    *("/opt/*.sh", "/opt/*/*.sh", "/opt/*/bin/*.sh"),
)
"""Where sites keep scripts; what nobody starts by itself sets nothing."""
# A schedule in numbers or 'ExecStart=', a shell, the path of a script, where its output goes, and
# nothing else: arguments may be secrets. What is told apart more finely costs each node 20 ms.
_CALL = (
    r"^(Exec[A-Za-z]+=-?|[0-9*/,@[:space:]-]*(reboot )?(root )?)((ba)?sh )?"
    r"/(usr/local/s?bin|root|srv|opt)/[A-Za-z0-9_./-]+( *[0-9&]?>[>&0-9/A-Za-z_. -]*)?$"
)
_CALLED = regex(r"(/(?:usr/local/s?bin|root|srv|opt)/[\w./-]+) *(?:[0-9&]?>.*)?$")
_READ = grep(_PATTERN, *_PLACES)
_OF_SCRIPTS = grep(_PATTERN, *_SCRIPTS)
_CALLS = grep(_CALL, *_PLACES, *_SCRIPTS)


class BootSetting(Struct, frozen=True):
    """One value that a line sets."""

    name: str
    """Of a kernel setting, with dots; or ``mtu``, ``governor``, ``hugepages``."""
    value: str
    where: str
    line: str


_SYSCTL = regex(r"([\"']?)\b([a-z]\w*(?:[./][\w*-]+)+)\s*=\s*([\"']?)([^\"';&|#]+)\3\1")
_ECHO = regex(
    r"echo\s+(?:-n\s+)?[\"']?([^\"'>|;]+?)[\"']?\s*(?:>|\|\s*(?:sudo\s+)?tee\s)\s*/proc/sys/([\w./-]+)"
)
_TMPFILE = regex(r"[wf]\S*\s+/proc/sys/(\S+)\s+\S+\s+\S+\s+\S+\s+\S+\s+(.+)")
_MTU = regex(r"\bmtu\s+([0-9]{2,6})\b")
_GOVERNOR = regex(
    r"(?:scaling_governor|cpupower\s).*?\b"
    r"(performance|powersave|ondemand|conservative|schedutil|userspace)\b"
    r"|echo\s+[\"']?([a-z]+)[\"']?\s*(?:>|\|).*scaling_governor"
)
_HUGE_PAGES = regex(
    r"transparent_hugepage/enabled\W.*?\b(always|madvise|never)\b"
    r"|echo\s+[\"']?(always|madvise|never)[\"']?\s*(?:>|\|).*transparent_hugepage/enabled"
)


def settings(line: str) -> Iterator[tuple[str, str]]:
    """Names and values that one line sets, in any of the languages of these files.

    >>> list(settings("@reboot root sysctl -w vm.swappiness=60"))
    [('vm.swappiness', '60')]
    """
    text = line.strip()
    if text.startswith(("#", ";")):
        return
    if "sysctl" in text:
        for found in _SYSCTL.finditer(text):
            words = found[4].split()
            yield dotted(found[2]), " ".join(words if found[1] or found[3] else words[:1])
    for echo in _ECHO.finditer(text):
        yield echo[2].replace("/", "."), " ".join(echo[1].split())
    if entry := _TMPFILE.match(text):
        yield entry[1].replace("/", "."), " ".join(entry[2].split())
    for name, form in (("mtu", _MTU), ("governor", _GOVERNOR), ("hugepages", _HUGE_PAGES)):
        for found in form.finditer(text):
            yield name, next(group for group in found.groups() if group)


def _started(seen: Observation) -> frozenset[str]:
    """Paths of the site's scripts that crontabs and units start, or one that they start."""
    calls = [
        (line.path, found[1])
        for line in lines(seen, _CALLS)
        if (found := _CALLED.search(line.text))
    ]
    is_script = {line.path for line in lines(seen, _OF_SCRIPTS)}
    started: set[str] = set()
    waiting = [called for path, called in calls if path not in is_script]
    while waiting:
        path = waiting.pop()
        if path not in started:
            started.add(path)
            waiting += [called for caller, called in calls if caller == path]
    return frozenset(started)


def _parse_scripts(seen: Observation, _: Baseline) -> tuple[BootSetting, ...]:
    started = _started(seen)
    found = (
        *lines(seen, _READ),
        *(line for line in lines(seen, _OF_SCRIPTS) if line.path in started),
    )
    return tuple(
        BootSetting(name, excerpt(value), line.where, line.text)
        for line in found
        for name, value in settings(line.text)
    )


BOOT_SETTINGS: Source[tuple[BootSetting, ...]] = Source(
    "scripts of the next boot",
    lambda _: once((_READ, _OF_SCRIPTS, _CALLS)),
    _parse_scripts,
)
