"""A part of the probe: files by shell patterns, without the slow imports of ``glob``."""

import os


class Piece:
    """A part of a pattern without a star: as many characters as it matches, each one or a set."""

    def __init__(self, text):
        self.sets = []
        at = 0
        while at < len(text):
            close = closing(text, at)
            if text[at] == "?":
                self.sets.append((False, ""))
            elif close > 0:
                inner = text[at + 1 : close]
                wanted = not inner.startswith("!")
                self.sets.append((wanted, spread(inner if wanted else inner[1:])))
                at = close
            else:
                self.sets.append((True, text[at]))
            at += 1
        self.size = len(self.sets)
        self.plain = None
        if all(wanted and len(some) == 1 for wanted, some in self.sets):
            self.plain = "".join(some for _, some in self.sets)

    def fits(self, name, start):
        if self.plain is not None:
            return name.startswith(self.plain, start)
        some = name[start : start + self.size]
        return len(some) == self.size and all(
            (some[at] in chars) == wanted for at, (wanted, chars) in enumerate(self.sets)
        )


def closing(text, at):
    """Where the set that begins here ends; -1 when none does."""
    if text[at] != "[":
        return -1
    # A bracket that comes first is one of the set.
    return text.find("]", at + (3 if text.startswith("!", at + 1) else 2))


def spread(inner):
    """The characters of a set: ``0-9a`` is ``0123456789a``."""
    found = ""
    while inner:
        if inner[1:2] == "-" and inner[2:]:
            found += "".join(map(chr, range(ord(inner[0]), ord(inner[2]) + 1)))
            inner = inner[3:]
        else:
            found, inner = found + inner[0], inner[1:]
    return found


def select_names(names, pattern):
    """The names that a shell pattern of one folder matches."""
    if pattern == "*":
        return names
    pieces = [Piece(part) for part in split_at_stars(pattern)]
    return [name for name in names if fits(name, pieces)]


def split_at_stars(pattern):
    """The parts between stars; a star within brackets is a character like any other."""
    parts, begun, at = [], 0, 0
    while at < len(pattern):
        close = closing(pattern, at)
        if close > 0:
            at = close
        elif pattern[at] == "*":
            parts.append(pattern[begun:at])
            begun = at + 1
        at += 1
    return [*parts, pattern[begun:]]


def fits(name, pieces):
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return len(name) == first.size and first.fits(name, 0)
    at, end = first.size, len(name) - last.size
    if at > end or not first.fits(name, 0) or not last.fits(name, end):
        return False
    for piece in pieces[1:-1]:
        while at + piece.size <= end and not piece.fits(name, at):
            at += 1
        at += piece.size
        if at > end:
            return False
    return True


class Folders:
    """Lists folders, each once: many patterns look into the same ones of /sys."""

    def __init__(self):
        self._names = {}

    def names(self, folder):
        if folder not in self._names:
            try:
                self._names[folder] = os.listdir(folder)
            except OSError:
                self._names[folder] = []
        return self._names[folder]

    def matches(self, pattern, most):
        """Paths that match, sorted. Below a folder with a star, hidden names are passed over."""
        head, tail = os.path.split(pattern)
        found = [head]
        hidden = not has_magic(head)
        if not hidden:
            root, *parts = head.split("/")
            found = [root]
            for part in parts:
                if has_magic(part):
                    found = [
                        folder + "/" + name
                        for folder in found
                        for name in select_names(self.names(folder or "/"), part)
                        if not name.startswith(".")
                    ]
                else:
                    found = [folder + "/" + part for folder in found]
        if has_magic(tail):
            found = [
                os.path.join(folder, name)
                for folder in found
                for name in select_names(self.names(folder), tail)
                if hidden or tail.startswith(".") or not name.startswith(".")
            ]
        else:
            paths = (os.path.join(folder, tail) for folder in found)
            found = [path for path in paths if is_there(path)]
        return sorted(found)[:most]


def has_magic(text):
    return "*" in text or "?" in text or "[" in text


def is_there(path):
    try:
        os.lstat(path)
    except OSError:
        return False
    return True
