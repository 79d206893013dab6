"""Ansible's own inventory, variables and validation, in this process.

Importing ansible-core takes about half a second and reads ansible.cfg. So the modules of this
folder that do so are imported when the first inventory is read, and no other module imports it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.inventory.data import InventoryData
from ansible.inventory.host import Host
from ansible.inventory.manager import IGNORED, InventoryManager, split_host_pattern
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import (
    AnsibleVaultError,
    VaultSecret,
    VaultSecretsContext,
    get_file_vault_secret,
)
from ansible.plugins.loader import init_plugin_loader, vars_loader
from ansible.utils.display import Display
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from hfprov.declare.files import YAML_ENDINGS
from hfprov.declare.values import UNDECRYPTABLE, Renderer, native, reason, where
from hfprov.errors import InventoryError

_NOT_FOR_YAML = frozenset({"ini", "toml", "host_list", "advanced_host_list"})


class _Data(InventoryData):  # type: ignore[misc] # ansible-core carries no type information
    """Inventory data that remembers where values were set that cannot carry a tag."""

    def __init__(self) -> None:
        super().__init__()
        self.untagged: dict[tuple[str, str], str] = {}

    def set_variable(self, entity: str, varname: str, value: Any) -> None:
        if value is None or isinstance(value, bool):
            self.untagged[entity, varname] = where(varname)
        super().set_variable(entity, varname, value)


class _Manager(InventoryManager):  # type: ignore[misc] # ansible-core carries no type information
    """Never reads a broken YAML file as a list of hosts in INI form."""

    def __init__(self, loader: Any, sources: list[str]) -> None:
        super().__init__(loader=loader, sources=sources, parse=False)
        self._inventory = self.data = _Data()

    def _fetch_inventory_plugins(self) -> list[Any]:
        plugins: list[Any] = super()._fetch_inventory_plugins()
        if Path(str(self.data.current_source)).suffix not in YAML_ENDINGS:
            return plugins
        return [
            plugin
            for plugin in plugins
            if str(getattr(plugin, "_load_name", "")).rpartition(".")[2] not in _NOT_FOR_YAML
        ]


class Engine:
    """One inventory as Ansible sees it. Raises InventoryError with what Ansible said."""

    def __init__(
        self,
        sources: Sequence[Path],
        playbook_dir: Path,
        *,
        vault_password_files: Sequence[Path] = (),
        vault_password: str | None = None,
    ) -> None:
        _forget_found_files()
        self.sources = tuple(path.absolute() for path in sources)
        self.playbook_dir = playbook_dir.absolute()
        self.loader = DataLoader()
        self.loader.set_basedir(str(self.playbook_dir))
        self._secrets = self._load_secrets(vault_password_files, vault_password)
        self.activate()
        self.manager = _Manager(self.loader, [str(path) for path in self.sources])
        self.renderer = Renderer(self.loader)
        self._entries: dict[Path, set[str]] = {}
        self._variables = VariableManager(loader=self.loader, inventory=self.manager)
        HostVars(self.manager, self._variables, self.loader)  # registers itself

    def _load_secrets(
        self, files: Sequence[Path], password: str | None
    ) -> list[tuple[str, VaultSecret]]:
        """Passwords of the caller and of Ansible's configuration, in Ansible's order."""
        default = str(constants.DEFAULT_VAULT_IDENTITY)
        named: list[tuple[str, str]] = []
        for identity in constants.DEFAULT_VAULT_IDENTITY_LIST:
            name, _, source = str(identity).rpartition("@")
            named.append((name or default, source))
        named += [(default, str(path)) for path in files]
        if constants.DEFAULT_VAULT_PASSWORD_FILE:
            named.append((default, str(constants.DEFAULT_VAULT_PASSWORD_FILE)))
        secrets: list[tuple[str, VaultSecret]] = []
        if password is not None:
            secrets.append((default, VaultSecret(password.encode())))
        for name, source in named:
            try:
                secret = get_file_vault_secret(source, vault_id=name, loader=self.loader)
                secret.load()
            except (AnsibleError, OSError) as error:
                raise InventoryError(
                    f"The vault password file '{source}' cannot be used: {reason(error)}."
                ) from error
            secrets.append((name, secret))
            self.loader.set_vault_secrets(secrets)
        self.loader.set_vault_secrets(secrets)
        return secrets

    @property
    def has_passwords(self) -> bool:
        """Whether anything encrypted could be read at all."""
        return bool(self._secrets)

    def activate(self) -> None:
        """Make this inventory's passwords the ones that encrypted values are decrypted with.

        Ansible keeps one set of them per process; values are decrypted when they are used.
        """
        current = VaultSecretsContext.current(optional=True)
        if current is None:
            VaultSecretsContext.initialize(VaultSecretsContext(self._secrets))
        else:
            current.secrets = self._secrets

    def read(self, path: Path) -> str:
        """The text of a file, decrypted. Raises ValueError with a reason."""
        try:
            text = str.__str__(self.loader.get_text_file_contents(str(path)))
            text.encode()  # Ansible keeps bytes that are not UTF-8 as surrogates
        except AnsibleVaultError as error:
            raise ValueError(UNDECRYPTABLE) from error
        except UnicodeEncodeError as error:
            raise ValueError("The file is not text in UTF-8.") from error
        except (AnsibleError, OSError) as error:
            raise ValueError(f"The file cannot be read: {reason(error)}.") from error
        return text

    def load_yaml(self, path: Path) -> Any:
        """The tagged content of a YAML file. Raises ValueError with a reason."""
        try:
            return self.loader.load_from_file(
                str(path.absolute()), cache="all", unsafe=True, trusted_as_template=True
            )
        except AnsibleVaultError as error:
            raise ValueError(UNDECRYPTABLE) from error
        except AnsibleError as error:
            raise ValueError(f"{reason(error)}.") from error

    def inventory_files(self) -> Iterator[tuple[Path, bool]]:
        """Every file of the inventory, and whether Ansible passes over it."""
        stack = list(reversed(self.sources))
        while stack:
            path = stack.pop()
            if not path.is_dir():
                yield path, False
                continue
            for entry in sorted(path.iterdir(), reverse=True):
                if not IGNORED.search(os.fsencode(entry.name)):
                    stack.append(entry)
                elif entry.is_file():
                    yield entry, True

    @property
    def inventory_dirs(self) -> list[Path]:
        """Folders whose group_vars and host_vars belong to the inventory, in rising precedence."""
        places = (path if path.is_dir() else path.parent for path in self.sources)
        return list(dict.fromkeys(place.resolve() for place in places))

    def files_of(self, folder: Path, names: Iterable[str]) -> dict[str, list[Path]]:
        """The files that Ansible reads in a group_vars or host_vars folder, by name of the owner.

        Names without a file are missing.
        """
        if folder not in self._entries:
            entries = list(folder.iterdir()) if folder.is_dir() else []
            self._entries[folder] = {entry.name for entry in entries} | {e.stem for e in entries}
        return {
            name: [Path(found) for found in self.loader.find_vars_files(str(folder), name)]
            for name in names
            if name in self._entries[folder]
        }

    def parse(self) -> list[str]:
        """Let Ansible read the inventory. Returns what it warned about."""
        with _captured_warnings() as warnings:
            try:
                self.manager.parse_sources(cache=True)
            except AnsibleError as error:
                said = "".join(f"\n  {line}" for line in (reason(error), *warnings))
                raise InventoryError(
                    f"Ansible cannot read the inventory:{said}",
                    hint="'ansible-inventory --list' shows what Ansible makes of it.",
                ) from error
        return warnings

    def hosts(self, pattern: str = "all", *, limited: bool = False) -> list[Host]:
        """Hosts that match a pattern, in inventory order. Raises InventoryError.

        Ansible's warning that nothing matches is not shown: who asks says so.
        """
        try:
            with _captured_warnings():
                found: list[Host] = self.manager.get_hosts(
                    pattern=pattern, ignore_limits=not limited
                )
        except AnsibleError as error:
            raise InventoryError(f"The host pattern '{pattern}': {reason(error)}.") from error
        return found

    def limit(self, limit: str) -> list[str]:
        """Restrict :meth:`hosts` with ``limited=True`` as ``ansible-playbook --limit`` does.

        Returns the single patterns of the limit, those of an ``@file`` included.
        """
        patterns: list[str] = []
        try:
            self.manager.subset(limit)
            for pattern in split_host_pattern(limit):
                if pattern.startswith("@"):
                    lines = Path(pattern[1:]).read_text(encoding="utf-8").splitlines()
                    patterns += [line.strip() for line in lines if line.strip()]
                else:
                    patterns.append(str(pattern))
        except (AnsibleError, OSError, UnicodeDecodeError) as error:
            raise InventoryError(f"The limit '{limit}': {reason(error)}.") from error
        return patterns

    def variables(self, host: Host) -> dict[str, Any]:
        """All variables of a host by Ansible's precedence, templates unresolved."""
        try:
            found: dict[str, Any] = self._variables.get_vars(host=host)
        except AnsibleError as error:
            raise InventoryError(f"The variables of '{host.name}': {reason(error)}.") from error
        return found

    def assigned(self) -> Iterator[Mapping[str, Any]]:
        """Every mapping of variables there is: of groups, of hosts, of files."""
        yield from (group.vars for group in self.manager.groups.values())
        yield from (host.vars for host in self.manager.hosts.values())
        for kind, known in (("group_vars", self.manager.groups), ("host_vars", self.manager.hosts)):
            for place in (*self.inventory_dirs, self.playbook_dir):
                for files in self.files_of(place / kind, known).values():
                    for path in files:
                        content = self.load_yaml(path)
                        if isinstance(content, Mapping):
                            yield content

    @property
    def only_files_set_variables(self) -> bool:
        """Whether variables come from inventories, group_vars and host_vars only."""
        return list(constants.VARIABLE_PLUGINS_ENABLED) == ["host_group_vars"]

    @staticmethod
    def validate(name: str, spec: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[Any, str]:
        """One variable against its spec by the code that the play uses: (value, problem or '')."""
        if type(values.get(name)) is str and spec.get("type") == "str" and "choices" not in spec:
            return values[name], ""  # any string is; this saves seconds where each host's differs
        try:
            result = ArgumentSpecValidator({name: dict(spec)}).validate(dict(values))
        except (TypeError, ValueError, AttributeError, AnsibleError) as error:
            return None, f"The specification of the variable is itself wrong: {reason(error)}"
        return native(result.validated_parameters.get(name)), "; ".join(result.error_messages)


@cache
def _start_ansible() -> None:
    init_plugin_loader()  # a second call would warn


def _forget_found_files() -> None:
    """Ansible remembers per process which variable files exist; a second look must see new ones."""
    _start_ansible()
    module = sys.modules.get(type(vars_loader.get("host_group_vars")).__module__)
    for name in ("FOUND", "NAK", "CANONICAL_PATHS"):
        cache = getattr(module, name, None)
        if cache is not None:
            cache.clear()


@contextlib.contextmanager
def _captured_warnings() -> Iterator[list[str]]:
    """What Ansible warns about, instead of on stderr."""
    display = Display()
    warnings: list[str] = []

    def warning(msg: str, *_: Any, **__: Any) -> None:
        warnings.append(re.sub(r"\s+", " ", str(msg)).strip())

    def error_as_warning(msg: str | None, exception: BaseException, **_: Any) -> None:
        warnings.append(f"{msg or ''} {reason(exception)}.".strip())

    display.warning, display.error_as_warning = warning, error_as_warning
    try:
        yield warnings
    finally:
        del display.warning, display.error_as_warning
