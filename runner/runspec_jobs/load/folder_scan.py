"""Finds the files of a mounted folder that are uploaded, and the problems that prevent the upload.

Links are followed only to files inside the folder, and files that look like secrets are refused. The
path of each file is opened one folder at a time without following links, so that a folder that is
replaced by a link in the meantime is not followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import Self

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.errors import UsageError
from runspec_jobs.load.ignore import (
    IGNORE,
    IgnoreMatcher,
    Rule,
    Verdict,
    looks_secret,
    parse_builder_rules,
    parse_rules,
)
from runspec_jobs.state.written_files import WrittenFiles

MIB = 1024**2
GIB = 1024**3
MAX_FILES = 100_000
MAX_BYTES = 10 * GIB
MAX_DEPTH = 100  # each level needs an open file descriptor
MAX_PATH_BYTES = 3_000  # with the target of the mount before it, it stays below the 4,096 of Linux
MAX_IGNORE_BYTES = MIB
MAX_NAMED = 20  # the most names in one message

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = (
    os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)  # opening a FIFO must not block
SWAPPED = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.ENXIO)

BUILDER_IGNORES = (".containerignore", ".dockerignore")  # of a build's context; the first counts
LIST_IT = f"list them in {IGNORE}"


class Trouble(Enum):
    """The reasons why a file cannot be uploaded, each with a message and a hint."""

    SECRET = (
        "these look like secrets",
        f"pass them under secrets:; a line 'NAME' in {IGNORE} leaves one out, and '!NAME' uploads it",
    )
    OUTSIDE = ("links that leave the folder", f"copy what they point to into it, or {LIST_IT}")
    NOWHERE = ("broken links", f"remove them, or {LIST_IT}")
    TO_FOLDER = ("links to folders", f"put the folders in their place, or {LIST_IT}")
    TO_LEFT_OUT = (
        "links to files that are left out",
        f"put the files in their place, or {LIST_IT}",
    )
    SPECIAL = ("these are neither files nor folders", f"remove them, or {LIST_IT}")
    UNREADABLE = ("these cannot be read", f"make them readable with chmod u+r, or {LIST_IT}")
    NAME = ("names that are not UTF-8", f"rename them, or {LIST_IT} with ? for such bytes")
    DEEP = (
        f"paths of more than {MAX_PATH_BYTES:,} bytes or {MAX_DEPTH} folders",
        f"move them up, or {LIST_IT}",
    )
    CHANGED = ("these change while they are read", f"wait until they are written, or {LIST_IT}")
    REINCLUDED = (
        "patterns that take what is in a folder that is left out",
        "leave out what is in the folder, as in data/* and !data/small.csv, and not the folder",
    )
    IGNORE_FILE = (
        "these are not regular UTF-8 files of at most 1 MiB",
        "write a pattern on each line",
    )


class BundleError(UsageError):
    """A folder cannot be uploaded; *problems* are all reasons, each with its hint."""

    def __init__(self, problems: Sequence[tuple[str, str | None]]) -> None:
        message, hint = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(message + more, hint)
        self.problems = tuple(problems)


def quote_path(path: str) -> str:
    return "'" + "".join(c if c.isprintable() else _escape(c) for c in path) + "'"


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


class Opener:
    """Opens files below one folder, one part of the path at a time, and never follows a link.

    The folders of the last path stay open, so that opening another file in the same folder takes one call.
    """

    def __init__(self, folder: Path) -> None:
        self._fds = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._names: list[str] = []
        top = os.fstat(self._fds[0])
        self.identity = (top.st_dev, top.st_ino)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._fds:
            os.close(fd)

    def open_folder(self, path: str) -> int:
        """Return a descriptor of the folder *path*, valid until the next call; "" is the top folder."""
        names = path.split("/") if path else []
        pairs = zip(self._names, names, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        while len(self._names) > common:
            os.close(self._fds.pop())
            self._names.pop()
        for name in names[common:]:
            self._fds.append(os.open(name, OPEN_FOLDER, dir_fd=self._fds[-1]))
            self._names.append(name)
        return self._fds[-1]

    def open(self, path: str) -> int:
        """Open the regular file *path* for reading; the caller closes the descriptor."""
        folder, _, name = path.rpartition("/")
        fd = os.open(name, OPEN_FILE, dir_fd=self.open_folder(folder))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.ENXIO, "not a regular file")
        return fd


class Found(NamedTuple):
    path: str
    place: str
    bytes: int


class LeftOut(NamedTuple):
    """A file, or a folder with "/" at its end, that is not uploaded, and the rule that says so, for people."""

    path: str
    why: str


_Folder = tuple[str, Verdict]


@dataclass
class Walk:
    """Finds the files to upload in the folder of *opener*, whose path without links is *real*.

    *spec* is the name of the spec that mounts it. What runspec wrote into the folder is left out, and *fetched* has the
    files of it that the user may miss. If the folder is *whole*, nothing is left out or refused as a secret.
    """

    opener: Opener
    real: str
    spec: str = ""
    judge: IgnoreMatcher = field(default_factory=IgnoreMatcher)
    found: list[Found] = field(default_factory=list)
    troubles: dict[Trouble, list[str]] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    written: WrittenFiles = field(default_factory=WrittenFiles)
    whole: bool = False
    recipe: str | None = (
        None  # of a context: the rules are those of builders, which always take this file
    )
    env_file: str | None = None  # its absolute path: left out instead of refused as a secret

    def run(self) -> None:
        if not self.whole:
            self._read_all_rules()
        folders: list[_Folder] = [("", Verdict.TAKEN)]
        # A home directory has millions of files; it is enough to know that there are too many.
        while folders and len(self.found) <= MAX_FILES:
            path, verdict = folders.pop()
            for name, status in self._list_entries(path):
                folders += self._look(f"{path}/{name}" if path else name, status, verdict)
        if self.recipe is not None and self.recipe not in [entry.path for entry in self.found]:
            self._take_recipe(self.recipe)
        self.found.sort(key=lambda entry: entry.path)
        self.left_out.sort()

    def _take_recipe(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        try:
            self._take(
                path, os.stat(name, dir_fd=self.opener.open_folder(folder), follow_symlinks=False)
            )
        except OSError as exc:
            self.add_unreadable(path, exc)

    def take_named(self, name: str, written: str) -> None:
        """Take the file *name* at the top of the folder, which a spec names as *written*; no rule leaves it out."""
        self._read_all_rules()
        names = {name, written}
        permitted = any(
            rule.takes and rule.allows and rule.is_match(each, each, folder=False)
            for rule in self.judge.rules
            for each in names
        )
        if any(looks_secret(each, folder=False) for each in names) and not permitted:
            self.add_trouble(Trouble.SECRET, written)
            return
        try:
            self._take(name, os.stat(name, dir_fd=self.opener.open_folder("")))
        except OSError as exc:
            self.add_unreadable(name, exc)

    def _read_all_rules(self) -> None:
        if self.recipe is not None:
            own = next(filter(None, map(self._read_rules, BUILDER_IGNORES)), ())
        else:
            own = self._read_rules(".gitignore")
        self.judge = IgnoreMatcher((*own, *self._read_rules(IGNORE)))
        if self.recipe is not None:
            self._check_exceptions(own)
        for name in self.real.split("/"):
            if self.judge.judge(name, folder=True) is Verdict.SECRET:
                self.add_trouble(Trouble.SECRET, self.real)

    def _check_exceptions(self, rules: Sequence[Rule]) -> None:
        """Note each rule that takes files in folders that are left out, which a walk does not enter."""
        for rule in rules:
            glob = rule.origin.partition(": !")[2].strip("/")
            folders = glob.split("/")[:-1]
            above = ["/".join(folders[:depth]) for depth in range(1, len(folders) + 1)]
            is_out = any(self.judge.judge(f, folder=True) is Verdict.LEFT_OUT for f in above)
            if rule.takes and ("*" in "".join(folders) or is_out):
                self.add_trouble(Trouble.REINCLUDED, rule.origin)

    def add_trouble(self, kind: Trouble, path: str, detail: str = "") -> None:
        self.troubles.setdefault(kind, []).append(
            quote_path(path) + (f" ({detail})" if detail else "")
        )

    def add_unreadable(self, path: str, exc: OSError) -> None:
        if exc.errno in SWAPPED:
            self.add_trouble(Trouble.CHANGED, path)
        elif exc.errno == errno.EACCES:
            self.add_trouble(Trouble.UNREADABLE, path)
        else:
            self.add_trouble(Trouble.UNREADABLE, path, (exc.strerror or str(exc)).lower())

    def complain(self) -> None:
        """Raise BundleError if there are any problems."""
        kinds = [kind for kind in Trouble if kind in self.troubles]
        problems: list[tuple[str, str | None]] = [
            (_format_trouble(kind, self.troubles[kind]), kind.value[1]) for kind in kinds
        ]
        problems += _check_limits(self.found)
        if problems:
            raise BundleError(problems)

    def _read_rules(self, name: str) -> tuple[Rule, ...]:
        try:
            with os.fdopen(self.opener.open(name), "rb") as file:
                data = file.read(MAX_IGNORE_BYTES + 1)
            if len(data) > MAX_IGNORE_BYTES:
                raise ValueError(f"above {MAX_IGNORE_BYTES:,} bytes")
            if name in BUILDER_IGNORES:
                return parse_builder_rules(data.decode(), name)
            return parse_rules(data.decode(), ours=name == IGNORE)
        except FileNotFoundError:  # most folders have no ignore file
            return ()
        except (OSError, ValueError):
            self.add_trouble(Trouble.IGNORE_FILE, name)
            return ()

    def _list_entries(self, path: str) -> list[tuple[str, os.stat_result]]:
        try:
            with os.scandir(self.opener.open_folder(path)) as entries:
                return sorted((e.name, e.stat(follow_symlinks=False)) for e in entries)
        except OSError as exc:
            self.add_unreadable(path + "/", exc)
            return []

    def _look(self, path: str, status: os.stat_result, above: Verdict) -> list[_Folder]:
        """Note what is at *path* as found or as trouble; give it back when it is to be walked."""
        folder = stat.S_ISDIR(status.st_mode)
        verdict = above if self.whole else self.judge.judge(path, folder=folder, above=above)
        if verdict is Verdict.LEFT_OUT:
            why = self.judge.explain(path, folder=folder)
            self.left_out.append(LeftOut(path + "/" * folder, why))
            return []
        # What runspec fetched or saved here is not the user's input, and would grow with each run.
        if not (folder or self.whole) and (why := self._explain_own(path, status)):
            self.left_out.append(LeftOut(path, why))
            return []
        length = _count_utf8_bytes(path)
        if verdict is Verdict.SECRET and f"{self.real.rstrip('/')}/{path}" == self.env_file:
            self.left_out.append(LeftOut(path, "the job's env_file"))
        elif verdict is Verdict.SECRET:
            self.add_trouble(Trouble.SECRET, path + "/" * folder)
        elif length is None:
            self.add_trouble(Trouble.NAME, path)
        elif length > MAX_PATH_BYTES or path.count("/") > MAX_DEPTH:
            self.add_trouble(Trouble.DEEP, path)
        elif folder:
            return [(path, verdict)]
        else:
            self._take(path, status)
        return []

    def _explain_own(self, path: str, status: os.stat_result) -> str:
        """Return why *path*, which runspec wrote, is left out; nothing if it is the user's, or the user wants it.

        A mount of a folder into which another run was fetched is meant to have these files.
        """
        match = self.written.find(f"{self.real.rstrip('/')}/{path}", status, self.real)
        if match is None or self.judge.is_taken(path):
            return ""
        folder, written = match
        is_fetched = written.command == "fetch"
        if is_fetched and folder == self.real and not _is_run_of(written.run, self.spec):
            return ""
        if is_fetched and os.path.basename(folder) != written.run:
            self.fetched.append(path)
        return f"runspec {written.command} wrote it, of {written.run}"

    def _take(self, path: str, status: os.stat_result) -> None:
        try:
            if stat.S_ISLNK(status.st_mode):
                self._take_link(path)
            elif not stat.S_ISREG(status.st_mode):
                self.add_trouble(Trouble.SPECIAL, path)
            else:
                self._take_file(path, path, status.st_size)
        except OSError as exc:
            self.add_unreadable(path, exc)

    def _take_link(self, path: str) -> None:
        try:
            # The target is opened later by its real path, one folder at a time and without following links.
            real = os.path.realpath(f"{self.real}/{path}", strict=True)
        except OSError as exc:
            if exc.errno not in SWAPPED:
                raise
            self.add_trouble(Trouble.NOWHERE, path)
            return
        top = self.real.rstrip("/") + "/"
        status = os.stat(real, follow_symlinks=False)
        if not f"{real}/".startswith(top):
            self.add_trouble(Trouble.OUTSIDE, path, f"to {quote_path(real)}")
        elif stat.S_ISDIR(status.st_mode):
            self.add_trouble(Trouble.TO_FOLDER, path)
        elif not stat.S_ISREG(status.st_mode):
            self.add_trouble(Trouble.SPECIAL, path)
        else:
            self._take_linked(path, real.removeprefix(top), status.st_size)

    def _take_linked(self, path: str, target: str, size: int) -> None:
        verdict = Verdict.TAKEN if self.whole else self.judge.judge_from_top(target)
        if verdict is Verdict.SECRET:
            self.add_trouble(Trouble.SECRET, path, f"a link to {quote_path(target)}")
        elif verdict is Verdict.LEFT_OUT:
            self.add_trouble(Trouble.TO_LEFT_OUT, path, f"to {quote_path(target)}")
        else:
            self._take_file(path, target, size)

    def _take_file(self, path: str, target: str, size: int) -> None:
        folder, _, name = target.rpartition("/")
        # Asked now, so that all unreadable files are reported at once, not one per attempt.
        if os.access(name, os.R_OK, dir_fd=self.opener.open_folder(folder), effective_ids=True):
            self.found.append(Found(path, target, size))
        else:
            self.add_trouble(Trouble.UNREADABLE, path)


def _is_run_of(run: str, spec: str) -> bool:
    """Return whether the run *run* is one of *spec*, at any of its sizes.

    >>> _is_run_of("job-7k2m9p", "job"), _is_run_of("job-n4-7k2m9p", "job"), _is_run_of("jobs-7k2m9p", "job")
    (True, True, False)
    """
    return re.fullmatch(rf"{re.escape(spec)}(-[np]\d+)?-[^-]+", run) is not None


def _count_utf8_bytes(path: str) -> int | None:
    try:
        return len(path.encode())
    except UnicodeEncodeError:
        return None


def _format_trouble(kind: Trouble, names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return f"{kind.value[0]}: {', '.join(names[:MAX_NAMED])}{more}"


def _check_limits(entries: Sequence[Found]) -> list[tuple[str, str | None]]:
    hint = f"list what the job does not need in {IGNORE}, or mount large data as store://"
    size = sum(file.bytes for file in entries)
    if len(entries) > MAX_FILES:
        most, _ = _find_heaviest((file.path, 1) for file in entries)
        return [(f"more than {MAX_FILES:,} files, most of them in {quote_path(most)}", hint)]
    if size > MAX_BYTES:
        most, most_bytes = _find_heaviest((file.path, file.bytes) for file in entries)
        limit = (
            f"{_format_gib(size)}, above the {_format_gib(MAX_BYTES)} that are uploaded with a job"
        )
        return [(f"{limit}; {_format_gib(most_bytes)} of it in {quote_path(most)}", hint)]
    return []


def _find_heaviest(weights: Iterable[tuple[str, int]]) -> tuple[str, int]:
    tops: dict[str, int] = defaultdict(int)
    for path, weight in weights:
        tops[path.split("/", 1)[0]] += weight
    return max(tops.items(), key=lambda top: top[1])


def _format_gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


@contextlib.contextmanager
def open_top(folder: Path) -> Iterator[Opener]:
    try:
        opener = Opener(folder)
    except OSError as exc:
        raise BundleError([_explain_missing(folder, exc)]) from exc
    with opener:
        yield opener


def _explain_missing(folder: Path, exc: OSError) -> tuple[str, str | None]:
    name = quote_path(str(folder))
    match exc.errno:
        case errno.ENOENT:
            return f"there is no file or folder {name}", None
        case errno.ENOTDIR:
            return f"{name} is not a folder", "mount the folder it lies in"
    return f"{name} cannot be opened: {(exc.strerror or str(exc)).lower()}", None
