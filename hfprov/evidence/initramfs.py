"""The initial file systems below ``/boot``, and what they are made of, with their times."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.find import one_find
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Source
from hfprov.regex import regex

IMAGES = one_find(
    "/boot", names=("initrd.img-*", "initramfs-*.img", "vmlinuz-*"), with_size=True, shallow=True
)
# modprobe.d is copied into the image; the others say how it is made.
PLACES = ("/etc/modprobe.d", "/etc/initramfs-tools", "/etc/dracut.conf", "/etc/dracut.conf.d")
INPUTS = one_find(*PLACES, with_size=True)
_LINE = regex(r"(\d+(?:\.\d+)?) (\d+) (/.+)")
_NAME = regex(r"/boot/(?:initrd\.img-(?P<debian>.+)|initramfs-(?P<el>.+)\.img)")
SMALLEST = 1024
"""Bytes; what is smaller is no file system. The smallest real ones have some hundred KiB."""


class File(Struct, frozen=True):
    """One file with its time of change (seconds since 1970) and size in bytes."""

    path: str
    changed: float
    size: int


class Initramfs(Struct, frozen=True):
    """All images by release of the kernel, and the files that go into them."""

    images: Mapping[str, File]
    kernels: Mapping[str, File]
    inputs: tuple[File, ...]

    def newer_inputs(self, release: str) -> tuple[File, ...]:
        """Files that were changed after the image of a kernel was made."""
        image = self.images[release]
        return tuple(one for one in self.inputs if one.changed > image.changed)


def parse_files(text: str) -> tuple[File, ...]:
    """Lines ``TIME SIZE PATH`` of find(1)."""
    found = []
    for line in clean(text).splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of 'find'.")
        found.append(File(match[3], float(match[1]), int(match[2])))
    return tuple(found)


def _parse_initramfs(seen: Observation, _: Baseline) -> Initramfs:
    images, kernels = {}, {}
    for one in parse_files(seen.text(IMAGES)):
        match = _NAME.fullmatch(one.path)
        if match:
            images[match["debian"] or match["el"]] = one
        elif one.path.startswith("/boot/vmlinuz-"):
            kernels[one.path.removeprefix("/boot/vmlinuz-")] = one
    # find ends with 1 where one of the places is not there; each distribution has its own.
    return Initramfs(images, kernels, parse_files(seen.text(INPUTS, codes=(0, 1))))


INITRAMFS: Source[Initramfs] = Source("initramfs", lambda _: (IMAGES, INPUTS), _parse_initramfs)
