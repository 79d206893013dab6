"""Everything that the inventory keeps encrypted, whether a role declares it or not.

A node may print it: a password of the site in a file, an environment, an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleError

from hfprov.declare.engine import Engine
from hfprov.declare.values import native


def encrypted_texts(engine: Engine) -> frozenset[str]:
    """Every encrypted text of the inventory, decrypted; also those inside of lists and mappings.

    What no password decrypts is left out: then hfprov cannot have shown it to anybody.
    """
    if not engine.has_passwords:
        return frozenset()
    found: set[str] = set()
    for mapping in engine.assigned():
        for value in mapping.values():
            if engine.renderer.is_encrypted(value):
                try:
                    found.update(_texts(native(value)))
                except AnsibleError:
                    continue
    return frozenset(found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
