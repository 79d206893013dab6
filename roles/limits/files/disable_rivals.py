"""Find settings below /etc that win over the declared limits, and comment them out. JSON out.

Standard library only, any Python from 3.6. The argument is a JSON object: the wanted limits as pam
writes them, services, the role's files, and whether to ``change`` anything. Before a file is
changed for the first time, it is kept as it was, beside itself. What lies elsewhere than below /etc
belongs to packages and is left alone.

A rival is read after the role's own setting, or is for one user or group, and says something else
than is declared; limits.conf(5), systemd.syntax(7).
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

ETC = "/etc/"
MARK = "# disabled by hfprov, role limits: "
KEPT = ".before-hfprov"
UNLIMITED = -1
UNITS = {"memlock": 1024, "nofile": 1, "nproc": 1, "stack": 1024}
SYSTEMD_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def amount(text, unit=1):
    """An amount as pam or systemd write it; None when it is not understood."""
    if text in ("unlimited", "infinity", "-1"):
        return UNLIMITED
    match = re.match(r"^([0-9]+)([KMGT]?)$", text)
    return int(match.group(1)) * SYSTEMD_SIZES[match.group(2)] * unit if match else None


def lines_of(path):
    """Lines of a regular file, without their ends. Bytes that are no text survive."""
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
        return handle.read().split("\n")


# Logins: the last line for a domain holds, and a line for one user or group always does.


def pam_rivals(wanted, ours):
    directory = os.path.dirname(ours)
    others = set(glob.glob(os.path.join(directory, "*.conf"))) - {ours}
    order = [os.path.join(os.path.dirname(directory), "limits.conf")]
    order += sorted(others | {ours}, key=os.fsencode)
    settled = set()
    for path in reversed(order):
        if path == ours:
            settled |= {
                (domain, item, side)
                for domain in ("*", "root")
                for item in wanted
                for side in ("soft", "hard")
            }
            continue
        for number, line in reversed(list(enumerate(readable(path)))):
            claims = pam_claims(line, wanted)
            # The hard limit of the stack may be any.
            if all(
                value == wanted[key[1]] or key[1:] == ("stack", "hard") or key in settled
                for key, value in claims.items()
            ):
                settled |= set(claims)
            else:
                yield path, [number]


def pam_claims(line, wanted):
    """What a line of limits.conf sets: ``{(domain, item, side): amount}``."""
    words = line.split("#", 1)[0].split()
    if len(words) == 2 and words[1] == "-":
        # No limits at all for this domain.
        words += ["", "unlimited"]
    if len(words) < 4 or words[1].lower() not in ("soft", "hard", "-"):
        return {}
    domain, kind, item, text = words[:4]  # pam_limits passes over more words
    sides = ("soft", "hard") if kind == "-" else (kind.lower(),)
    claims = {}
    for name in wanted:
        if item.lower() in (name, ""):
            for side in sides:
                claims[domain, name, side] = amount(text, UNITS[name])
    return claims


# systemd: of most settings the last assignment holds, of files in the order of their names.


def systemd_rivals(paths, ours, section, keys):
    """Assignments in files that are read after ours. ``keys``: what is declared, by key."""
    after = [path for path in paths if os.path.basename(path) > os.path.basename(ours)]
    for path in sorted(after, key=lambda path: (os.path.basename(path), path)):
        for where, key, value in assignments(readable(path), section):
            if key in keys and not keys[key](value):
                yield path, where


def assignments(lines, section):
    """Numbers of lines, key and value of each assignment in a section."""
    current, numbers, pending = "", [], ""
    for number, raw in enumerate(lines):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        numbers.append(number)
        if line.endswith("\\"):
            pending += line[:-1].rstrip() + " "
            continue
        line, pending, where, numbers = pending + line, "", numbers, []
        if line.startswith("[") and line.endswith("]"):
            current = line[1:-1]
        elif "=" in line and current == section:
            key, _, value = line.partition("=")
            yield where, key.strip(), value.strip()


def limit_keys(wanted, prefix):
    return {
        prefix + item.upper(): lambda value, item=item: limit_is_declared(wanted, item, value)
        for item in wanted
    }


def limit_is_declared(wanted, item, value):
    """Whether a ``Limit…=SOFT[:HARD]`` says what is declared. An empty one takes ours back."""
    soft, _, hard = value.partition(":")
    amounts = {amount(soft)} if item == "stack" else {amount(soft), amount(hard or soft)}
    return amounts == {wanted[item]}


def names_of(units):
    """All names of each unit, in order; what is not there has the name that was asked for."""
    done = subprocess.run(
        ["systemctl", "show", "--property=Names", "--"] + units,
        stdout=subprocess.PIPE,
        timeout=20,
        check=True,
    )
    blocks = done.stdout.decode("utf-8", "replace").strip().split("\n\n")
    return [block.partition("=")[2].split() for block in blocks]


def drop_ins_of(names):
    """Drop-ins below /etc of a unit with these names, of its template and of its kind."""
    found = {"service"}
    for name in names:
        parts = name.rpartition(".")[0].split("-")
        found |= {name, re.sub(r"@[^.]*\.", "@.", name)}
        # a-b.service has those of a-.service too.
        found |= {"-".join(parts[:end]) + "-.service" for end in range(1, len(parts))}
    return {
        path
        for name in found
        for path in glob.glob(ETC + "systemd/system/%s.d/*.conf" % glob.escape(name))
    }


def all_rivals(asked):
    """Who reads it, its path, and the numbers of its lines, of every rival."""
    wanted = {item: amount(asked[item], UNITS[item]) for item in UNITS}
    for path, numbers in pam_rivals(wanted, asked["login_file"]):
        yield "logins", path, numbers
    places = [
        (beside(ours), ours, "Manager", limit_keys(wanted, "DefaultLimit"))
        for ours in asked["manager_files"]
    ]
    units = [name + ".service" for name in ["user@0"] + asked["services"]]
    for names in names_of(units):
        keys = limit_keys(wanted, "Limit")
        places.append((drop_ins_of(names), asked["drop_in"], "Service", keys))
    for place in places:
        for path, numbers in systemd_rivals(*place):
            yield "systemd", path, numbers
    ours, remove = asked["logind_file"], "yes" if asked["remove_ipc"] else "no"
    keys = {"RemoveIPC": lambda value: value == remove}
    for path, numbers in systemd_rivals(beside(ours), ours, "Login", keys):
        yield "logind", path, numbers


def beside(path):
    return glob.glob(os.path.join(os.path.dirname(path), "*.conf"))


# Files.


def readable(path):
    """Lines of a file that may be changed; none of a file that is not there or not ours to change.

    A link is followed: what it leads to must lie below /etc too.
    """
    real = os.path.realpath(path)
    if not (os.path.isfile(real) and real.startswith(ETC)):
        return []
    return lines_of(real)


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
    found, readers = {}, set()
    for reader, path, numbers in all_rivals(asked):
        found.setdefault(os.path.realpath(path), set()).update(numbers)
        readers.add(reader)
    rivals = []
    for path, numbers in sorted(found.items()):
        lines = lines_of(path)
        rivals += ["%s:%d: %s" % (path, at + 1, lines[at].strip()) for at in sorted(numbers)]
        if asked["change"]:
            disable(path, numbers)
    return {"rivals": rivals, "systemd": "systemd" in readers, "logind": "logind" in readers}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
