"""Say what of the container runtime is to be changed on this node. Changes nothing.

Standard library, Python 3.6 and later. Whatever is refused is a full sentence in ``problems``.
"""

import glob
import json
import os
import re

import merge_settings as settings
import prove_runtime
import runtime_facts as facts
from merge_settings import CONFIG_TOML, DAEMON_JSON, PODMAN_DROP_IN, TOML_DROP_IN, RefusedError

TOML_PATTERN = os.path.dirname(TOML_DROP_IN) + "/*.toml"


def imported(text):
    """(path, text) of the files that config.toml imports, in containerd's order, without ours."""
    patterns = settings.read_toml(text, CONFIG_TOML).get("imports", [])
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(os.path.dirname(CONFIG_TOML), pattern))):
            if path not in (TOML_DROP_IN, CONFIG_TOML):
                yield path, facts.text_of(path)


def wanted_files(asked, version):
    """(path, text that it must have, whether others write it too) of each file of the engine."""
    if asked["engine"] == "docker":
        old = facts.text_of(DAEMON_JSON) or ""
        yield DAEMON_JSON, settings.merged_daemon_json(old, asked, version), True
    elif asked["engine"] == "podman":
        yield PODMAN_DROP_IN, settings.podman_drop_in(asked), False
    elif asked["engine"] == "containerd":
        old = facts.text_of(CONFIG_TOML) or ""
        main = old if old.strip() else settings.new_config_toml(version)
        main = settings.with_import(main, TOML_PATTERN)
        others = list(imported(main))
        late = [path for path, _ in others if path > TOML_DROP_IN]
        if late and version < (2, 0):
            raise RefusedError(
                "'%s' is read after '%s', and containerd before 2.0 takes a plugin's settings from "
                "the last file alone: rename it so that it sorts first." % (late[0], TOML_DROP_IN)
            )
        text = settings.toml_drop_in([(CONFIG_TOML, main), *others], asked, version)
        yield CONFIG_TOML, main, True
        yield TOML_DROP_IN, text, False


def has_rights(path):
    """Whether a file is there, root's, no link, and no wider than it should be."""
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    status = os.stat(path)
    return (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o644, 0, 0)


def is_right(path, text):
    return has_rights(path) and facts.text_of(path) == text


def flags_of_dockerd(service):
    """Long names of the options that dockerd is started with, as keys of daemon.json."""
    words = re.findall(r"argv\[\]=([^;]*);", service.get("ExecStart", ""))
    for line in (facts.text_of("/etc/default/docker") or "").splitlines():
        if line.strip().startswith(("DOCKER_OPTS=", "OPTIONS=")):
            words.append(line.split("=", 1)[1].strip("\"' "))
    found = set()
    for flag in re.findall(r"(?:^|\s)--?([A-Za-z][\w-]*)", " ".join(words)):
        name = "hosts" if flag in ("H", "host") else flag
        found |= {name, name + "s"}
    return found


def twice_declared(asked, service):
    """Docker does not start with an option that is both in its file and on its command line."""
    flags = flags_of_dockerd(service)
    keys = settings.read_json(facts.text_of(DAEMON_JSON) or "")
    for key in sorted(set(settings.OWN_KEYS) | set(asked["docker_settings"]) | set(keys)):
        if key in flags:
            yield (
                "dockerd is started with the option for '%s' (unit docker.service or "
                "'/etc/default/docker') and would not start with it in '%s' too: take it off the "
                "command line." % (key, DAEMON_JSON)
            )


def at_work(asked):
    """What docker says of itself, and the names of its running containers."""
    info = json.loads(facts.output_of(["docker", "info", "--format", "{{json .}}"]))
    if info.get("ServerErrors"):
        raise RefusedError("Docker does not answer: %s" % info["ServerErrors"][0])
    if asked["live_restore"] and info.get("Swarm", {}).get("LocalNodeState") == "active":
        raise RefusedError(
            "This node is part of a Docker swarm, which does not go with live-restore: set "
            "'container_runtime_live_restore' to false for it."
        )
    names = facts.output_of(["docker", "ps", "--format", "{{.Names}}"]).split()
    return info, sorted(names)


def survives(info, asked, document):
    """Whether running containers outlive a restart of dockerd that takes up this document."""
    same = {
        "CgroupDriver": asked["cgroup_driver"],
        "DockerRootDir": document.get("data-root", info.get("DockerRootDir")),
        "Driver": document.get("storage-driver", info.get("Driver")),
    }
    return asked["live_restore"] and all(info.get(key) == value for key, value in same.items())


def removed_when_stopped(names):
    """Of running containers those with --rm: seen to go at a restart in spite of live-restore."""
    form = "{{.HostConfig.AutoRemove}} {{.Name}}"
    shown = [
        facts.output_of(["docker", "container", "inspect", "--format", form, one]) for one in names
    ]
    return [name for name, text in zip(names, shown) if text.startswith("true")]


def is_stale(asked):
    """Whether the daemon was started before its settings were last written."""
    started = facts.STARTED.get(asked["engine"])
    if started is None:
        return False
    if not os.path.exists(started):
        return True
    paths = [path for path in facts.SETTINGS[asked["engine"]] if os.path.exists(path)]
    return any(os.stat(path).st_mtime > os.stat(started).st_mtime for path in paths)


def services_of(asked):
    names = {"docker": ["docker"], "containerd": ["containerd"]}.get(asked["engine"], [])
    return {name: facts.properties(name + ".service") for name in names}


def is_below_off(docker):
    """Whether the containerd to which Docker hands its containers does not run.

    Docker's unit asks for it when it starts, and does not start it again; a dockerd that is not
    given its socket starts one of its own.
    """
    if "containerd.sock" not in docker.get("ExecStart", ""):
        return False
    return facts.properties("containerd.service").get("ActiveState") != "active"


def off(services):
    return sorted(
        name
        for name, one in services.items()
        if one.get("ActiveState") != "active" or one.get("UnitFileState") != "enabled"
    )


def missing(asked, row):
    """Packages of programs that are not there; the site's names where it declares some."""
    lacking = [one for one in asked["programs"][asked["engine"]] if not facts.is_there(one)]
    names = (asked["site_packages"] or asked["packages"][asked["engine"]]) if lacking else []
    for program in asked["proof_programs"]:
        if not facts.is_there(program):
            names = [*names, *asked["proof_packages"]]
    if row and row.get("package") and not facts.is_there(row["program"]):
        names = [*names, row["package"]]
    if row and not row.get("package") and not os.path.exists(row["path"]):
        raise RefusedError(
            "'%s' is not there, which gives this vendor's devices to containers: install it from "
            "the vendor's package first; no repository has it." % row["path"]
        )
    return sorted(set(names)), lacking


def without_cdi(asked, row, version):
    devices = facts.devices_of(asked, row)
    if devices and version and not settings.knows_cdi(asked["engine"], version):
        yield (
            "This %s is of version %s and knows no CDI, so that containers cannot be given '%s': "
            "use a later one, or another 'container_runtime_engine'."
            % (asked["engine"], ".".join(map(str, version)), devices[0])
        )
    if devices and asked["engine"] == "containerd" and asked["devices"]:
        yield (
            "containerd gives CDI devices to containers of Kubernetes only, so that "
            "'container_runtime_devices' cannot be proven: prove it by a pod, and leave it empty."
        )


def answer(asked):
    engine = asked["engine"]
    vendor = facts.vendor_of(asked)
    row = dict(asked["vendors"][vendor], vendor=vendor) if vendor else None
    asked = dict(asked, ulimits=facts.ulimits_of(asked))
    asked["runtime"] = row if row and row["way"] == "runtime" else None
    packages, lacking = missing(asked, row)
    _, version = facts.version_of(engine)
    files = [
        {"path": path, "text": text, "backup": shared and os.path.exists(path),
         "has_directory": os.path.isdir(os.path.dirname(path))}
        for path, text, shared in wanted_files(asked, version)
        if not is_right(path, text)
    ]  # fmt: skip
    found = {
        "problems": list(without_cdi(asked, row, version)),
        "missing_packages": packages,
        "lacking": lacking,
        "files": files,
        "missing_directories": sorted(
            {os.path.dirname(one["path"]) for one in files if not one["has_directory"]}
        ),
        "services_off": [],
        "below_off": False,
        "stale": bool(files) and not lacking,
        "live_restore_first": False,
        "cut": [],
    }
    if not lacking:
        daemon, problems = of_daemon(asked, files)
        found.update(daemon)
        found["problems"] += problems
    found.update(of_devices(asked, row))
    found["proof_due"] = found["stale"] or found["spec_stale"] or proof_due(asked, row)
    return found


def of_daemon(asked, files):
    """What a restart would do, and whether one is due; and what keeps the daemon from starting."""
    services = services_of(asked)
    found = {"services_off": off(services), "stale": bool(files) or is_stale(asked)}
    if asked["engine"] == "podman":
        # Each container reads podman's settings when it is started.
        found["stale"] = False
    if asked["engine"] != "docker":
        return found, []
    found["below_off"] = is_below_off(services["docker"])
    if services["docker"].get("ActiveState") == "active":
        info, names = at_work(asked)
        text = files[0]["text"] if files else facts.text_of(DAEMON_JSON) or ""
        kept = survives(info, asked, settings.read_json(text))
        found["cut"] = removed_when_stopped(names) if kept else names
        runs_with = (info.get("CgroupDriver"), info.get("LiveRestoreEnabled"))
        if runs_with != (asked["cgroup_driver"], asked["live_restore"]):
            found["stale"] = True
        first = asked["live_restore"] and not info.get("LiveRestoreEnabled")
        found["live_restore_first"] = bool(names) and first
    return found, list(twice_declared(asked, services["docker"]))


def of_devices(asked, row):
    """Whether the vendor's CDI specification has to be written again, and what keeps it fresh."""
    if not row or row["way"] != "cdi" or not facts.is_there(row["program"]):
        return {"spec_stale": False, "generate": [], "refresh_off": []}
    stamp = facts.read_stamp(asked["stamp"])
    units = {name: facts.properties(name) for name in row["refresh"]}
    return {
        "spec_stale": not os.path.exists(row["spec"])
        or stamp.get("driver") != facts.driver_of(row),
        "generate": row["generate"],
        "refresh_off": sorted(
            name
            for name, one in units.items()
            if one.get("LoadState") == "loaded" and one.get("UnitFileState") != "enabled"
        ),
    }


def proof_due(asked, row):
    """Whether the kept proof is missing, of something else, or not what a proof must say."""
    stamp = facts.read_stamp(asked["stamp"])
    current = dict(facts.fingerprint(asked), wanted=facts.wanted_of(asked, row))
    if {key: stamp.get(key) for key in current} != current or not has_rights(asked["stamp"]):
        return True
    try:
        return any(prove_runtime.wrong(asked["engine"], stamp["seen"], current["wanted"]))
    except (KeyError, TypeError, AttributeError):
        return True


def main(asked):
    if asked["engine"] == "none":
        return {"problems": [], "missing_packages": []}
    try:
        return answer(asked)
    except RefusedError as error:
        return {"problems": [str(error)], "missing_packages": []}
