"""Find lines below /etc that have chrony do something else than declared, and comment them out.

Standard library only, any Python from 3.6. The argument is a JSON object: the servers, the step,
chrony's directories, the role's file, and whether to ``change`` anything. The answer is JSON.
Before a file is changed for the first time, it is kept as it was, beside itself. The main file is
the role's to edit, and not looked at here; chrony.conf(5).
"""

import glob
import json
import os
import shutil
import sys

ETC = "/etc/"
MARK = "# disabled by hfprov, role time_sync: "
KEPT = ".before-hfprov"


def is_rival(words, asked, later):
    """Whether a directive goes against what is declared; ``later``: it is read after ours."""
    name = words[0].lower()
    if name in ("server", "pool", "peer"):
        declared = [[server, "iburst"] for server in asked["servers"]]
        return name != "server" or words[1:] not in declared
    return name == "makestep" and later and not is_step(words[1:], asked["step"])


def is_step(words, step):
    try:
        return [float(word) for word in words] == step
    except ValueError:
        return False


def all_rivals(asked):
    """Path and number of the line of every rival."""
    patterns = [os.path.join(path, "*.conf") for path in asked["directories"]]
    patterns += [os.path.join(path, "*.sources") for path in asked["source_directories"]]
    for pattern in patterns:
        for path in sorted(set(glob.glob(pattern)) - {asked["file"]}):
            later = os.path.basename(path) > os.path.basename(asked["file"])
            for number, line in enumerate(readable(path)):
                words = line.split()
                if words and words[0][0] not in "!;#%" and is_rival(words, asked, later):
                    yield path, number


def readable(path):
    """Lines of a file that may be changed; none of a file that is not there or not ours to change.

    A link is followed: what it leads to must lie below /etc too.
    """
    real = os.path.realpath(path)
    if not (os.path.isfile(real) and real.startswith(ETC)):
        return []
    return lines_of(real)


def lines_of(path):
    """Lines of a regular file, without their ends. Bytes that are no text survive."""
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
        return handle.read().split("\n")


def disable(path, numbers):
    """Comment out lines of a file, which keeps its owner, mode and context."""
    lines = lines_of(path)
    for number in numbers:
        lines[number] = MARK + lines[number]
    if not os.path.exists(path + KEPT):
        copy(path, path + KEPT)
    new = path + ".hfprov-new"
    copy(path, new)
    with open(new, "w", encoding="utf-8", errors="surrogateescape", newline="") as handle:
        handle.write("\n".join(lines))
    os.replace(new, path)


def copy(source, target):
    """A copy with owner, mode and extended attributes."""
    shutil.copy2(source, target)
    info = os.stat(source)
    os.chown(target, info.st_uid, info.st_gid)


def main(asked):
    found = {}
    for path, number in all_rivals(asked):
        found.setdefault(os.path.realpath(path), set()).add(number)
    rivals = []
    for path, numbers in sorted(found.items()):
        lines = lines_of(path)
        rivals += ["%s:%d: %s" % (path, at + 1, lines[at].strip()) for at in sorted(numbers)]
        if asked["change"]:
            disable(path, numbers)
    return {"rivals": rivals}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
