"""Say what the files of communication libraries must be on this node, as JSON. Changes nothing.

Standard library only, any Python from 3.6. The argument is a JSON object: the variables with their
values ('unset' for those that are not written), the devices that they name, and the files.
"""

import json
import os
import re
import subprocess
import sys

CONTAINERS = {
    "systemd-nspawn", "lxc", "lxc-libvirt", "docker", "podman", "openvz", "rkt", "wsl", "proot",
    "pouch", "container-other",
}  # fmt: skip

# No equals sign in them: RCCL takes every line that has one for a variable.
BEGIN = "# BEGIN of what the role 'comm_library' writes; see its README"
END = "# END of what the role 'comm_library' writes; see its README"


def is_container():
    # It ends with 1 where there is no virtualization.
    done = subprocess.run(["systemd-detect-virt"], stdout=subprocess.PIPE, timeout=20, check=False)
    return done.stdout.decode("utf-8", "replace").strip() in CONTAINERS


def malformed(variables):
    for name, value in sorted(variables.items()):
        if not re.match(r"(NCCL|UCX)_[A-Z0-9_]+$", name):
            yield "'%s' is not the name of a variable of NCCL." % name
        if not re.match(r"[^\s'\"#]+$", value):
            yield "The value of '%s' must have neither blanks nor quotes: '%s'." % (name, value)


def misspelt(names, variable):
    for name in names:
        if name[:1] in ("=", "^"):
            yield "Write '%s' in '%s' without the prefix; the role adds it." % (name, variable)


def absent(asked):
    for name in asked["interfaces"]:
        if not os.path.exists("/sys/class/net/" + name):
            yield (
                "There is no interface '%s', which 'comm_library_socket_interfaces' names: ranks "
                "would not find each other." % name
            )
    if is_container():
        return
    for variable in ("rdma_devices", "ucx_devices"):
        for name in asked[variable]:
            device = name.split(":")[0]
            places = ["/sys/class/infiniband/"]
            if variable == "ucx_devices":
                places.append("/sys/class/net/")
            if not any(os.path.exists(place + device) for place in places):
                yield "There is no device '%s'; 'ls /sys/class/infiniband' shows them." % device


def set_of(variables):
    return {name: str(value) for name, value in variables.items() if str(value) != "unset"}


def lines_of_others(lines):
    """All lines but ours. A marker without its mate is ours, what stands behind it is not."""
    # An editor of another system may have ended them with a carriage return.
    bare = [line.rstrip() for line in lines]
    if BEGIN in bare and END in bare[bare.index(BEGIN) :]:
        first = bare.index(BEGIN)
        last = bare.index(END, first)
        return lines_of_others(lines[:first] + lines[last + 1 :])
    return [line for line in lines if line.rstrip() not in (BEGIN, END)]


def text_with(path, variables):
    """The text that a file must have; None when it is not ours and we have nothing to say."""
    old = []
    # To open a pipe would wait for ever: it is replaced. A folder is an error, as it must be.
    if os.path.isfile(path) or os.path.isdir(path):
        with open(path, encoding="utf-8", newline="\n") as handle:
            old = handle.read().split("\n")
        if old[-1] == "":
            old.pop()
    others = lines_of_others(old)
    if not variables and others == old:
        return None
    ours = [BEGIN, *("%s=%s" % pair for pair in sorted(variables.items())), END]
    return "".join(line + "\n" for line in (ours if variables else []) + others)


def files(asked, nccl, ucx):
    """What must be written, and sentences on files that are not text."""
    wanted = [(path, nccl) for path in asked["nccl_files"]] + [(asked["ucx_file"], ucx)]
    found, problems = [], []
    for path, variables in wanted:
        try:
            text = text_with(path, variables)
        except UnicodeDecodeError:
            problems.append("'%s' is not UTF-8 text: look at it, and remove it." % path)
            continue
        if text is not None:
            there = os.path.isdir(os.path.dirname(path))
            found.append({"path": path, "text": text, "has_directory": there})
    return found, problems


def main(asked):
    nccl, ucx = set_of(asked["nccl"]), set_of(asked["ucx"])
    written, problems = files(asked, nccl, ucx)
    refused = [
        "'%s' may not be declared: NCCL's guide keeps it for debugging, or it is not known." % name
        for name in asked["refused"]
    ]
    return {
        "problems": [
            *problems,
            *refused,
            *malformed(nccl),
            *malformed(ucx),
            *misspelt(asked["interfaces"], "comm_library_socket_interfaces"),
            *misspelt(asked["rdma_devices"], "comm_library_ib_devices"),
            *absent(asked),
        ],
        "files": written,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
