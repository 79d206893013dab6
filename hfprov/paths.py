"""Where roles, playbooks and the tuned ansible.cfg are: in the checkout, or inside the wheel."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hfprov.errors import HfprovError

_PACKAGE = Path(__file__).resolve().parent


def _base() -> Path:
    """The folder that holds ``roles/``, ``playbooks/`` and ``ansible.cfg``."""
    shipped = _PACKAGE / "_shipped"
    base = shipped if shipped.is_dir() else _PACKAGE.parent
    if not (base / "playbooks").is_dir():
        raise HfprovError(
            f"There is no folder 'playbooks' in '{base}': hfprov is not completely installed.",
            hint="Install the wheel again, or run hfprov from a complete checkout.",
        )
    return base


def roles_dir() -> Path:
    """The folder of the roles."""
    return _base() / "roles"


def playbook(name: str = "provision") -> Path:
    """The playbook of this name, e.g. ``provision`` or ``reboot``."""
    return _base() / "playbooks" / f"{name}.yml"


def ansible_config() -> Path:
    """The ansible.cfg in force: the one that Ansible finds by itself, else the one shipped here.

    Ansible's order (ansible.config.manager.find_ini_config_file): the variable ANSIBLE_CONFIG, the
    current folder unless anybody may write to it, the home folder, /etc/ansible.
    """
    named = os.environ.get("ANSIBLE_CONFIG")
    if named:
        path = Path(named).expanduser()
        return path / "ansible.cfg" if path.is_dir() else path
    candidates = [Path.home() / ".ansible.cfg", Path("/etc/ansible/ansible.cfg")]
    here = Path.cwd()
    if not here.stat().st_mode & stat.S_IWOTH:
        candidates.insert(0, here / "ansible.cfg")
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.R_OK):
            return candidate
    return _base() / "ansible.cfg"
