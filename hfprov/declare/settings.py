"""Ansible's connection settings of a host, by the precedence of Ansible's own configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.loader import become_loader, connection_loader

from hfprov.declare.connection import Setting
from hfprov.declare.files import shown
from hfprov.declare.values import native, reason

_PLUGINS = (("connection", "ssh"), ("become", "sudo"))
_BASE_SETTINGS: Mapping[str, tuple[str, str]] = {
    "connection": ("ansible_connection", "DEFAULT_TRANSPORT"),
    "become": ("ansible_become", ""),  # of the rest, the playbook's 'become: true' wins
    "become_method": ("ansible_become_method", "DEFAULT_BECOME_METHOD"),
    "shell_type": ("ansible_shell_type", ""),
    "shell_executable": ("ansible_shell_executable", ""),
    "interpreter": ("ansible_python_interpreter", "INTERPRETER_PYTHON"),
}
"""Settings that no plugin owns: our name -> variable, key of ansible.cfg (constants.py)."""


def settings(variables: Mapping[str, Any]) -> dict[str, Setting]:
    """All connection settings for rendered variables. Raises ValueError with a reason."""
    found = {}
    try:
        for plugin_type, plugin in _PLUGINS:
            for name in _definitions(plugin_type, plugin):
                found[name] = _plugin_setting(plugin_type, plugin, name, variables)
        for name, (variable, key) in _BASE_SETTINGS.items():
            found[name] = _base_setting(variable, key, variables)
        become = found["become"]
        if become.given:
            found["become"] = Setting(boolean(become.value, strict=True), become.source)
    except (AnsibleError, TypeError) as error:
        raise ValueError(reason(error)) from error
    return found


def address(variables: Mapping[str, Any]) -> Setting:
    """The address alone: usually all that differs between the hosts of a rack."""
    return _plugin_setting("connection", "ssh", "host", variables)


@cache
def address_variables() -> frozenset[str]:
    """Names of the variables that set the address."""
    return frozenset(entry["name"] for entry in _definitions("connection", "ssh")["host"]["vars"])


@cache
def variables() -> frozenset[str]:
    """Names of all variables that hold a connection setting."""
    names: set[str] = {variable for variable, _ in _BASE_SETTINGS.values()}
    for plugin_type, plugin in _PLUGINS:
        for definition in _definitions(plugin_type, plugin).values():
            names |= {entry["name"] for entry in definition.get("vars", ())}
    return frozenset(names)


@cache
def known_names() -> frozenset[str]:
    """Names to which Ansible gives a meaning, for telling a misspelt setting from another one."""
    magic = {name for names in constants.MAGIC_VARIABLE_MAPPING.values() for name in names}
    return frozenset(magic) | set(constants.COMMON_CONNECTION_VARS) | variables()


@cache
def _definitions(plugin_type: str, plugin: str) -> Mapping[str, Any]:
    loader = connection_loader if plugin_type == "connection" else become_loader
    loader.get(plugin, class_only=True)  # reads the plugin's documentation, which is its schema
    found: Mapping[str, Any] = constants.config.get_configuration_definitions(plugin_type, plugin)
    return found


def _plugin_setting(
    plugin_type: str, plugin: str, name: str, variables: Mapping[str, Any]
) -> Setting:
    value, origin = constants.config.get_config_value_and_origin(
        name, plugin_type=plugin_type, plugin_name=plugin, variables=variables
    )
    return Setting(native(value), _source(origin))


def _base_setting(variable: str, key: str, variables: Mapping[str, Any]) -> Setting:
    if variables.get(variable) is not None:
        return Setting(native(variables[variable]), variable)
    if not key:
        return Setting(None, "default")
    value, origin = constants.config.get_config_value_and_origin(key)
    return Setting(native(value), _source(origin))


def _source(origin: Any) -> str:
    """``var: ansible_port`` -> ``ansible_port``; a file of configuration as it is shown."""
    text = re.sub(r"^(?:var|env): ", "", str(origin))
    return shown(text) if text.startswith("/") else text
