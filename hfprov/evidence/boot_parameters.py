"""What the role 'kernel' remembers of the boot parameters that it set, on Enterprise Linux."""

from __future__ import annotations

from hfprov.reading import Result, Source, file

FILE = file("/etc/hfprov/kernel-parameters")
RECORDED: Source[Result] = Source(
    "remembered boot parameters", lambda _: (FILE,), lambda seen, _: seen.one(FILE)
)
