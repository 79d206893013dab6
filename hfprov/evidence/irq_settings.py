"""Queues of network adapters as ethtool shows them, and which CPUs steer packets (RPS, XPS).

Sources: ethtool(8), -l, -g, -c; Linux Documentation/networking/scaling.rst.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.cpulist import parse_cpumask
from hfprov.evidence.ethtool import dispatch
from hfprov.evidence.ethtool.failure import EthtoolFailure
from hfprov.evidence.ethtool.settings import Channels, Coalescing, Rings
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, Source, command, complete_text, glob

_FORMS: dict[str, type[Channels | Rings | Coalescing]] = {
    "-l": Channels,
    "-g": Rings,
    "-c": Coalescing,
}
_MARK = "hfprov-asks"
# One process for all adapters; interfaces without a device (veth) are not asked.
_ASK = f"""\
command -v ethtool >/dev/null || {{ echo 'ethtool: not found' >&2; exit 127; }}
for path in /sys/class/net/*/device; do
  [ -e "$path" ] || continue
  net=${{path%/device}}
  for form in -l -g -c; do
    printf '\\n{_MARK} %s %s\\n' "$form" "${{net##*/}}"
    ethtool "$form" "${{net##*/}}" 2>&1
  done
done
exit 0"""
_SIZES = command("sh", "-c", _ASK, timeout=25, limit=1 << 20, needs="/sys/class/net/*/device")
_RPS = glob("/sys/class/net/*/queues/rx-*/rps_cpus", limit=4096, most=8192)
_XPS = glob("/sys/class/net/*/queues/tx-*/xps_cpus", limit=4096, most=8192)

Sizes = Channels | Rings | Coalescing | EthtoolFailure


class QueueSettings(Struct, frozen=True):
    """Answers of ethtool by form and interface, or why there is none."""

    answers: Mapping[tuple[str, str], Sizes]
    reasons: Mapping[tuple[str, str], str]

    def of(self, form: str, interface: str) -> Sizes:
        """Raises NoEvidenceError when ethtool did not answer, or not understandably."""
        key = (form, interface)
        if key not in self.answers:
            reason = self.reasons.get(key, "it was not asked")
            raise NoEvidenceError(f"'ethtool {form} {interface}': {reason}")
        return self.answers[key]


def parse_answers(text: str) -> QueueSettings:
    """Answers of several runs, each below a line that says what was asked."""
    answers: dict[tuple[str, str], Sizes] = {}
    reasons: dict[tuple[str, str], str] = {}
    for block in f"\n{clean(text)}".split(f"\n{_MARK} ")[1:]:
        heading, _, body = block.partition("\n")
        form, _, interface = heading.partition(" ")
        try:
            answers[form, interface] = _answer(form, body)
        except NotUnderstoodError as error:
            reasons[form, interface] = error.message
    return QueueSettings(answers, reasons)


def _answer(form: str, text: str) -> Sizes:
    found = dispatch.parse(text)
    if isinstance(found, EthtoolFailure):
        return found
    if isinstance(found, Channels | Rings | Coalescing) and type(found) is _FORMS.get(form):
        return found
    raise NotUnderstoodError("ethtool answered another question.")


def _parse_settings(seen: Observation, _: Baseline) -> QueueSettings:
    # Without an adapter nothing was asked, and nothing is told of any.
    return parse_answers("" if seen.one(_SIZES).status == "absent" else seen.text(_SIZES))


QUEUE_SETTINGS: Source[QueueSettings] = Source(
    "queues of adapters", lambda _: (_SIZES,), _parse_settings
)


class Steering(Struct, frozen=True):
    """CPUs that handle (RPS) or use (XPS) a queue, by interface and number of the queue."""

    rps: Mapping[tuple[str, int], frozenset[int]]
    xps: Mapping[tuple[str, int], frozenset[int]]
    """Without the queue of an adapter that has only one: the kernel refuses to say."""


def _masks(seen: Observation, read: Read) -> dict[tuple[str, int], frozenset[int]]:
    found = {}
    for result in seen.each(read):
        _, _, _, _, interface, _, queue, _ = result.name.split("/")
        if result.status in ("absent", "error"):
            continue
        number = queue.partition("-")[2]
        if not number.isdecimal():
            raise NotUnderstoodError(f"'{clean(queue)[:40]}' is no queue.")
        mask = parse_cpumask(complete_text(read, result))
        found[clean(interface), int(number)] = frozenset(mask)
    return found


def _parse_steering(seen: Observation, _: Baseline) -> Steering:
    return Steering(_masks(seen, _RPS), _masks(seen, _XPS))


STEERING: Source[Steering] = Source("steering of packets", lambda _: (_RPS, _XPS), _parse_steering)
