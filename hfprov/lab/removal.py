"""Deleting a rack's files, and only those."""

from __future__ import annotations

import shutil

from hfprov.errors import LabError
from hfprov.lab.host import mountpoints_below
from hfprov.lab.state import RackPaths


def remove_rack_files(paths: RackPaths) -> None:
    """Delete what :class:`RackPaths` names; the directory itself only when nothing else is in it.

    Raises :class:`LabError` and deletes nothing when something is still mounted below it.
    """
    mounted = mountpoints_below(paths.directory)
    if mounted:
        raise LabError(
            f"'{mounted[0]}' is still mounted; no file of the rack was deleted.",
            hint=f"umount {mounted[0]}, then hfprov lab down again.",
        )
    for tree in (paths.nodes, paths.inventory, paths.ssh):
        if tree.is_symlink():
            raise LabError(f"'{tree}' is a link and was not made by a practice rack.")
        if tree.exists():
            shutil.rmtree(tree)
    # Last: as long as it exists, another 'down' can finish the work.
    paths.state.unlink(missing_ok=True)
    (paths.directory / ".lock").unlink(missing_ok=True)
    if not any(paths.directory.iterdir()):
        paths.directory.rmdir()
