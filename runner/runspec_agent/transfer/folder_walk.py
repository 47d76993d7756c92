"""List what is in an output folder: files, folders, links, and what cannot be saved."""

import errno
import fnmatch
import os
import stat
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from runspec_agent.store.manifest import (
    EMPTY,
    OURS,
    PERMISSIONS,
    Folder,
    Link,
    Shape,
    fit_time,
    stays,
)

Hidden = Dict[
    str, Optional[str]
]  # paths that cannot be read, and why; "" is the folder itself, None means deleted
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # ELOOP: a link to itself
RESERVED = "runspec itself uses this name"
LINKED = "it has become a link to another place"
SPECIAL = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISBLK, "a device"))

Version = Tuple[
    int, int, Optional[int]
]  # size, time of the last write, and of the last change if known


class Seen(NamedTuple):
    path: str  # without links
    version: Version
    mode: int = 0
    link: str = ""  # the target, if it is a link to a file


class Wanted(NamedTuple):
    """The patterns of the files of an output that are saved; all files match an empty *include*.

    A pattern without a slash is that of a name, in any folder; with one, that of a path in the output, in which `*` may
    stand for several folders, and `**/` for none, as in other tools. A link to a folder is saved as folders are, unless
    `exclude` has it, and a pattern with a slash may lead through it.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    @classmethod
    def of(cls, output: Mapping[str, Any]) -> "Wanted":
        """Return the patterns in the record of an output."""
        return cls(output.get("include", ()), output.get("exclude", ()))

    def matches(self, path: str) -> bool:
        """Return whether the file at *path*, relative to the output, is saved.

        >>> wanted = Wanted(["*.bam", "log/*"], ["*.tmp.bam"])
        >>> [wanted.matches(path) for path in ("a/b.bam", "log/a/b", "c.tmp.bam", "d.sam")]
        [True, True, False, False]
        """
        taken = not self.include or any(_matches(path, pattern) for pattern in self.include)
        return taken and not self.excludes(path)

    def excludes(self, path: str) -> bool:
        return any(_matches(path, pattern) for pattern in self.exclude)


def _matches(path: str, pattern: str) -> bool:
    name = path if "/" in pattern else os.path.basename(path)
    return any(fnmatch.fnmatchcase(name, p) for p in {pattern, pattern.replace("**/", "")})


EVERYTHING = Wanted()


class Look(NamedTuple):
    """The content of a folder, by relative paths."""

    files: Dict[str, Seen]
    hidden: Hidden
    shape: Shape


def look(folder: str, names: Iterable[str] = (), wanted: Wanted = EVERYTHING) -> Look:
    """Return the content of *folder*, a path without links. *names* are other paths by which links may lead into it.

    A link counts if it leads to something in the folder, or to nothing at a path in the folder.
    """
    return _Walk(folder, names, wanted).run()


class _Walk:
    def __init__(self, folder: str, names: Iterable[str], wanted: Wanted) -> None:
        self.folder, self.wanted = folder, wanted
        self.names = [folder, *names]
        self.found = Look({}, {}, Shape({}, {}, {}))
        self.ways: Dict[str, List[str]] = {}  # links to folders of the output, by these folders

    def run(self) -> Look:
        paths = self._paths()
        for path in paths if self.wanted == EVERYTHING else self._chosen(list(paths)):
            try:
                self._add(path)
            except OSError as error:
                self._refused(path, error)
        if os.path.realpath(self.folder) != self.folder:
            return Look({}, {"": LINKED}, EMPTY)
        return self.found

    def _paths(self) -> Iterator[str]:
        """Yield everything below the folder; no link is followed, and folders may be as deep as paths can be."""
        todo = [""]
        while todo:
            at = todo.pop()
            try:
                with os.scandir(os.path.join(self.folder, at)) as entries:
                    inner = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self._refused(at, error)
                continue
            for entry in inner:
                path = os.path.join(at, entry.name)
                if path != OURS and entry.is_dir(follow_symlinks=False):
                    todo.append(path)
                yield path

    def _chosen(self, paths: List[str]) -> List[str]:
        """Return those of *paths* that the patterns do not leave out: all folders, and links to folders."""
        links = {path: self._leads_to(path) for path in paths}
        for path, inside in links.items():
            if inside:
                self.ways.setdefault(known_as(inside), []).append(known_as(path))
        return [path for path in paths if self._is_chosen(path, links[path] is not None)]

    def _is_chosen(self, path: str, to_folder: bool) -> bool:
        at, name = os.path.join(self.folder, path), known_as(path)
        if to_folder:
            return not self.wanted.excludes(name)
        is_folder = os.path.isdir(at) and not os.path.islink(at)
        return self._takes(name) or (
            is_folder and not (path == OURS and self.wanted.excludes(name))
        )

    def _leads_to(self, path: str) -> Optional[str]:
        """Return the folder of the output that a link leads to, "" for another folder, and None for anything else."""
        try:
            real, target = self._resolved(path, os.readlink(os.path.join(self.folder, path)))
        except OSError:  # it is no link, or was deleted
            return None
        if not os.path.isdir(real):
            return None
        return (_below(real, self.folder) or "")[1:] if target else ""

    def _takes(self, path: str) -> bool:
        """Return whether the file at *path* is saved, also if the patterns name it by way of a link to a folder."""
        if self.wanted.matches(path):
            return True
        if not self.ways or self.wanted.excludes(path):
            return False
        cuts = [at for at, letter in enumerate(path) if letter == "/"]
        return any(
            self.wanted.matches(way + path[cut:])
            for cut in cuts
            for way in self.ways.get(path[:cut], ())
        )

    def _add(self, path: str) -> None:
        info = os.stat(os.path.join(self.folder, path), follow_symlinks=False)
        name, shape = known_as(path), self.found.shape
        if path == OURS:  # no manifest can list it
            shape.lost[name] = RESERVED
        elif stat.S_ISLNK(info.st_mode):
            self._add_link(path, info.st_mtime_ns)
        elif stat.S_ISREG(info.st_mode):
            self.found.files[name] = Seen(
                os.path.join(self.folder, path), version_of(info), info.st_mode & PERMISSIONS
            )
        elif stat.S_ISDIR(info.st_mode):
            shape.folders[name] = Folder(info.st_mode & PERMISSIONS, fit_time(info.st_mtime_ns))
        else:
            shape.lost[name] = next(
                (w for is_one, w in SPECIAL if is_one(info.st_mode)), "a device"
            )

    def _add_link(self, path: str, mtime_ns: int) -> None:
        name, shape = known_as(path), self.found.shape
        raw = os.readlink(os.path.join(self.folder, path))
        real, target = self._resolved(path, raw)
        if not target:
            within = _below(real, self.folder) is not None
            why = "whose name runspec itself uses" if within else "outside of the output"
            shape.lost[name] = "a link to {}, {}".format(known_as(raw), why)
            return
        try:
            info = os.stat(real)
        except OSError:  # the link is saved, even if its end is missing or cannot be read
            info = None
        straight = self._is_straight(name, target, real)
        if info is not None and stat.S_ISREG(info.st_mode):
            # Restored as a link, it would lead to nothing, and what it led to would be lost.
            saved = straight and self._takes(known_as(os.path.relpath(real, self.folder)))
            mode = info.st_mode & PERMISSIONS
            seen = Seen(real, version_of(info), mode, target if saved else "")
            self.found.files[name] = seen
        else:
            if not straight:
                start = os.path.join(self.folder, os.path.dirname(path))
                target = known_as(os.path.relpath(real, start))
            shape.links[name] = Link(target, fit_time(mtime_ns))

    def _is_straight(self, name: str, target: str, real: str) -> bool:
        """Return whether the link *name* leads to *real* not by way of other links, which patterns may leave out."""
        if self.wanted == EVERYTHING:
            return True
        inside = known_as(os.path.relpath(real, self.folder))
        start = "" if target.startswith("/") else os.path.dirname(name)
        return os.path.normpath(os.path.join(start, target.lstrip("/"))) == inside

    def _resolved(self, path: str, raw: str) -> Tuple[str, str]:
        """Return where a link leads, without links, and its target as in a manifest; "" if it leads out."""
        start = os.path.join(self.folder, os.path.dirname(path))
        inner = next((i for i in (_below(raw, name) for name in self.names) if i is not None), None)
        real = os.path.realpath(os.path.join(start, raw) if inner is None else self.folder + inner)
        inside = _below(real, self.folder)
        if inside is None or inside.split("/")[1:2] == [OURS]:
            return real, ""
        absolute = raw.startswith("/")
        target = known_as(raw if not absolute else inside if inner is None else inner) or "/"
        if not stays(target, known_as(path)):  # such as a/../b
            target = known_as(inside if absolute else os.path.relpath(real, start)) or "/"
        return real, target

    def _refused(self, path: str, error: OSError) -> None:
        if error.errno not in GONE or (not path and error.errno != errno.ENOENT):
            self.found.hidden[known_as(path)] = error.strerror or str(error)
        elif not path:
            self.found.hidden[""] = None


def _below(path: str, folder: str) -> Optional[str]:
    """Return the rest of *path* after *folder*, which begins with a slash, or is empty; None if it is elsewhere."""
    if path == folder or path.startswith(folder.rstrip("/") + "/"):
        return path[len(folder.rstrip("/")) :].rstrip("/")
    return None


def known_as(path: str) -> str:
    """Return *path* as in a manifest: as UTF-8, with other bytes escaped."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def shown(path: str) -> str:
    """Return a path of a manifest for a message: one line, whatever is in it."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else "\\x{:02x}".format(ord(c)) for c in text)


def version_of(status: os.stat_result) -> Version:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def lost_lines(shape: Shape, most: int = 10) -> List[str]:
    """Return a line for each thing in an output that cannot be saved, *most* at most, and one for the rest."""
    lines = ["{}: {}".format(shown(path), shown(why)) for path, why in sorted(shape.lost.items())]
    rest = len(lines) - most
    return lines[:most] + (["and {} more".format(rest)] if rest > 0 else [])
