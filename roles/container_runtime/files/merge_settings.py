"""Merge the role's settings into what is there: Docker's JSON, containerd's TOML, podman's drop-in.

Pure functions on text. What cannot be merged without a loss raises RefusedError with a full
sentence; nothing has been changed then. Standard library, Python 3.6 and later.
"""

import fnmatch
import json
import re

try:
    import tomllib as toml
except ImportError:
    try:
        import tomli as toml
    except ImportError:
        toml = None

DAEMON_JSON = "/etc/docker/daemon.json"
CONFIG_TOML = "/etc/containerd/config.toml"
# The last of all drop-ins: containerd before 2.0 takes a plugin's section from one file only.
TOML_DROP_IN = "/etc/containerd/conf.d/99-zz-hfprov.toml"
PODMAN_DROP_IN = "/etc/containers/containers.conf.d/90-hfprov.conf"
CGROUP_DRIVER = "native.cgroupdriver="
OWN_KEYS = {
    "exec-opts": "container_runtime_cgroup_driver",
    "live-restore": "container_runtime_live_restore",
    "default-shm-size": "container_runtime_shm_mib",
    "default-ulimits": "container_runtime_memlock_kib and the like",
}
WRITTEN_BY = "Written by the role 'container_runtime'; see its README."


class RefusedError(Exception):
    """A sentence that says what a person has to put right first."""


def merge(old, new):
    """Tables key by key; of anything else the new value holds. Leaves both as they are."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    both = dict(old)
    for key, value in new.items():
        both[key] = merge(old[key], value) if key in old else value
    return both


def _no_duplicates(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError("the key '%s' is there twice" % twice)
    return found


def _no_constant(name):
    raise ValueError("'%s' is no JSON" % name)


def read_json(text):
    """The object in daemon.json; of an empty file an empty one, as dockerd takes it."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except ValueError as error:
        raise RefusedError(
            "'%s' is not valid JSON (%s), so nothing was changed: correct it, or move it away."
            % (DAEMON_JSON, error)
        ) from None
    if not isinstance(found, dict):
        raise RefusedError(
            "'%s' is valid JSON but no object, so nothing was changed: correct it, or move it away."
            % DAEMON_JSON
        )
    return found


def docker_settings(asked, version):
    """What the role wants in daemon.json, without the options of exec-opts."""
    for name, variable in OWN_KEYS.items():
        if name in asked["docker_settings"]:
            raise RefusedError(
                "'container_runtime_docker_settings' has '%s', which is set by '%s': "
                "declare it there." % (name, variable)
            )
    wanted = {
        "live-restore": asked["live_restore"],
        "default-shm-size": "%dm" % asked["shm_mib"],
        "default-ulimits": {
            name: {"Name": name, "Soft": soft, "Hard": hard}
            for name, (soft, hard) in asked["ulimits"].items()
        },
    }
    if knows_cdi("docker", version):
        wanted["features"] = {"cdi": True}
    runtime = asked["runtime"]
    if runtime:
        wanted["runtimes"] = {runtime["name"]: {"path": runtime["path"]}}
    return merge(asked["docker_settings"], wanted)


def merged_daemon_json(text, asked, version):
    """The text that daemon.json must have: every key that was there, and the role's."""
    old = read_json(text)
    both = merge(old, docker_settings(asked, version))
    options = old.get("exec-opts", [])
    if not isinstance(options, list):
        raise RefusedError("'exec-opts' of '%s' is no list: correct it first." % DAEMON_JSON)
    kept = [one for one in options if not str(one).startswith(CGROUP_DRIVER)]
    both["exec-opts"] = kept + [CGROUP_DRIVER + asked["cgroup_driver"]]
    if both == old:
        return text
    return json.dumps(both, indent=2, ensure_ascii=False) + "\n"


def knows_cdi(engine, version):
    """Whether an engine of this version (a tuple) can inject CDI devices when it is told to."""
    return version >= {"docker": (25, 0), "containerd": (1, 7), "podman": (4, 1)}[engine]


def read_toml(text, path):
    if toml is None:
        raise RefusedError(
            "'%s' cannot be read: this node's Python has no TOML reader. Install the package "
            "'python3-tomli'; nothing was changed." % path
        )
    try:
        return toml.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError(
            "'%s' is not valid TOML (%s), so nothing was changed: correct it, or move it away."
            % (path, error)
        ) from None


_TABLE = re.compile(r"^\s*\[", re.MULTILINE)
_IMPORTS = re.compile(r"^\s*imports\s*=\s*\[", re.MULTILINE)


def with_import(text, pattern):
    """The text of config.toml with the pattern among its imports, and nothing else changed."""
    old = read_toml(text, CONFIG_TOML)
    imports = old.get("imports", [])
    if any(fnmatch.fnmatchcase(TOML_DROP_IN, str(one)) for one in imports):
        return text
    quoted = json.dumps(pattern)
    top = _TABLE.search(text)
    end = top.start() if top else len(text)
    found = _IMPORTS.search(text, 0, end)
    if found:
        comma = ", " if imports else ""
        new = text[: found.end()] + quoted + comma + text[found.end() :]
    else:
        head = text[:end]
        if head and not head.endswith("\n"):
            head += "\n"
        new = head + "# %s\nimports = [%s]\n" % (WRITTEN_BY, quoted) + text[end:]
    if read_toml(new, CONFIG_TOML) != merge(old, {"imports": _added(imports, pattern, found)}):
        raise RefusedError(
            "'imports' of '%s' is written in a way that cannot be added to: add '%s' to it by "
            "hand; nothing was changed." % (CONFIG_TOML, pattern)
        )
    return new


def _added(imports, pattern, in_front):
    return [pattern, *imports] if in_front else [pattern]


def new_config_toml(version):
    return "version = %d\n" % (3 if version >= (2, 0) else 2)


def cri_of(document, path):
    """Name and table of the plugin that starts containers for Kubernetes."""
    version = document.get("version", 1)
    names = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
    if version not in names:
        raise RefusedError(
            "'%s' is in version %s of containerd's format; known are 2 and 3. Write it anew with "
            "'containerd config migrate'; nothing was changed." % (path, version)
        )
    disabled = set(document.get("disabled_plugins", [])) & {"cri", names[version]}
    if disabled:
        raise RefusedError(
            "'%s' disables the plugin '%s', as Docker's package does: take it off "
            "'disabled_plugins', or declare another 'container_runtime_engine'."
            % (path, disabled.pop())
        )
    return names[version], document.get("plugins", {}).get(names[version])


def toml_drop_in(files, asked, version):
    """The text of the role's drop-in. ``files``: (path, text) as containerd reads them, main first.

    containerd 2.0 and later merge tables. Before, the last file that has a plugin's section gives
    the whole section, so the drop-in repeats what the files before it say.
    """
    main = read_toml(files[0][1], files[0][0])
    name, section = cri_of(main, files[0][0])
    if version >= (2, 0):
        section = None
    else:
        for path, text in files[1:]:
            other = read_toml(text, path).get("plugins", {}).get(name)
            section = section if other is None else other
    options = {"SystemdCgroup": asked["cgroup_driver"] == "systemd"}
    kind = "io.containerd.runc.v2"
    runtimes = {"runc": {"runtime_type": kind, "options": options}}
    runtime = asked["runtime"]
    if runtime:
        own = dict(options, BinaryName=runtime["path"])
        runtimes[runtime["name"]] = {"runtime_type": kind, "options": own}
    wanted = {"containerd": {"runtimes": runtimes}}
    if knows_cdi("containerd", version):
        wanted["enable_cdi"] = True
    merged = {"version": main["version"], "plugins": {name: merge(section or {}, wanted)}}
    return "# %s\n%s" % (WRITTEN_BY, to_toml(merged))


_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def _key(name):
    return name if _BARE.match(name) else json.dumps(name)


def _value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s = %s" % (_key(k), _value(v)) for k, v in value.items())
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(_value, value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def to_toml(table, prefix=()):
    """A table as TOML: plain values first, then a section for each table below it."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = ["%s = %s" % (_key(key), _value(value)) for key, value in plain.items()]
    if prefix and (lines or len(table) == 0):
        lines.insert(0, "\n[%s]" % ".".join(map(_key, prefix)))
    text = "".join(line + "\n" for line in lines)
    return text + "".join(
        to_toml(value, (*prefix, key)) for key, value in table.items() if key not in plain
    )


def podman_drop_in(asked):
    """The text of the role's drop-in for containers.conf(5)."""
    limits = ["%s=%d:%d" % (name, *pair) for name, pair in asked["ulimits"].items()]
    document = {
        "containers": {
            "default_ulimits": limits,
            # In bytes: podman takes 1m for 1000 kB here, and for 1024 KiB on its command line.
            "shm_size": str(asked["shm_mib"] << 20),
            "pids_limit": asked["pids_limit"],
        },
        "engine": {"cgroup_manager": asked["cgroup_driver"]},
    }
    return "# %s\n%s" % (WRITTEN_BY, to_toml(document))
