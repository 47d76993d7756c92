"""A folder of this machine as a job gets it: what is taken, what never is, and its digest.

Nothing is uploaded that was not meant to be: links are followed only to files inside the folder,
what looks like a secret is refused, and every file is opened name after name below the folder, so
that a name swapped for a link in the meantime leads nowhere. What is handed out is checked against
what was hashed.

Left out are the caches and checkouts of `LEFT_OUT` and what `.gitignore` and then `.runspecignore`
at the top of the folder name, by the rules of https://git-scm.com/docs/gitignore.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import io
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from runspec.errors import Conflict, UsageError
from runspec.provider import File, Progress, Source

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MIB = 1024**2
GIB = 1024**3
MAX_FILES = 100_000
MAX_BYTES = 10 * GIB
MAX_DEPTH = 100  # one open descriptor for each
MAX_PATH_BYTES = 3_000  # with the mount's target before it, below the 4,096 of Linux
MAX_IGNORE_BYTES = MIB
MAX_NAMED = 20  # names in one complaint
TRIES = 4  # for a file that changes while it is read
PAUSE_S = 0.25
CHUNK_BYTES = MIB

IGNORE = ".runspecignore"
LEFT_OUT = frozenset(
    ".git .hg .svn .bzr __pycache__ .venv .ipynb_checkpoints .mypy_cache .pytest_cache "
    f".ruff_cache .hypothesis .tox .nox .DS_Store Thumbs.db {IGNORE}".split()
)
SECRET_FOLDERS = frozenset(".aws .azure .gcloud .gnupg .kube .ssh".split())
SECRET_FILES = (
    ".env .env.* *.env .envrc .netrc _netrc .pypirc .npmrc .pgpass .my.cnf .boto .s3cfg .dockercfg "
    ".htpasswd .git-credentials .databrickscfg .vault-token credentials* kaggle.json secrets.json "
    "secrets.yaml secrets.yml secrets.toml client_secret*.json *service*account*.json "
    "application_default_credentials.json id_rsa* id_ecdsa* id_ed25519* *.pem *.key *.ppk *.p12 "
    "*.pfx *.jks *.keystore *.kdb *.kdbx *.tfstate *.tfstate.backup"
).split()
NOT_SECRET = "*.pub .env.example .env.sample .env.template .env.dist".split()

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not hang us
SWAPPED = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.ENXIO)

AGAIN = "run the same command again"
LIST_IT = f"list them in {IGNORE}"


class Trouble(Enum):
    """Why something cannot be taken along, and what to do about it."""

    SECRET = (
        "these look like secrets",
        f"name them under secrets: instead, or allow each by a line '!NAME' in {IGNORE}",
    )
    OUTSIDE = ("links that leave the folder", f"copy what they point to into it, or {LIST_IT}")
    NOWHERE = ("links that point nowhere", f"remove them, or {LIST_IT}")
    TO_FOLDER = ("links to folders", f"put the folders in their place, or {LIST_IT}")
    TO_LEFT_OUT = ("links to what is left out", f"put the files in their place, or {LIST_IT}")
    SPECIAL = ("neither files nor folders", f"remove them, or {LIST_IT}")
    UNREADABLE = ("these cannot be read", f"chmod u+r makes them readable; or {LIST_IT}")
    NAME = ("names that are not UTF-8", f"rename them, or {LIST_IT} with ? for such bytes")
    DEEP = (
        f"paths of more than {MAX_PATH_BYTES:,} bytes or {MAX_DEPTH} folders",
        f"move them up, or {LIST_IT}",
    )
    CHANGED = ("these change while they are read", f"wait until they are written, or {LIST_IT}")
    IGNORE_FILE = ("no regular UTF-8 files of 1 MiB at most", "write a pattern on each line")


class BundleError(UsageError):
    """A folder that cannot be taken along; *problems* are all reasons, each with its hint."""

    def __init__(self, problems: Sequence[tuple[str, str | None]]) -> None:
        what, hint = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(what + more, hint)
        self.problems = tuple(problems)


@dataclass(frozen=True)
class FolderBundle:
    """A `Bundle` of the regular files of one folder. Empty folders are not part of it."""

    folder: Path
    digest: str
    files: tuple[File, ...]
    places: Mapping[str, str]  # where each file really lies in the folder, by its path
    identity: tuple[int, int]  # of the folder, so that another in its place is seen

    @property
    def source(self) -> Source:
        return Source(self.digest, len(self.files), sum(file.bytes for file in self.files))

    def open(self, file: File) -> BinaryIO:
        """Open one file; also raises Conflict when it is gone or its size has changed."""
        with _changed(file.path), _Opener(self.folder) as opener:
            if opener.identity != self.identity:
                raise Conflict(f"{_shown(str(self.folder))} is another folder now", AGAIN)
            raw = io.FileIO(opener.open(self.places[file.path]))
        return io.BufferedReader(_Checked(raw, file), CHUNK_BYTES)


def bundle(folder: Path, *, progress: Progress | None = None) -> FolderBundle:
    """Hash all that *folder* holds for a job; *progress* is told the bytes read and in all.

    The digest depends on paths, contents and executable bits alone. Raises BundleError with
    everything that stands in the way.
    """
    with _opened(folder) as opener:
        walk = _Walk(opener, os.path.realpath(folder))
        walk.run()
        walk.complain()
        opener.folder("")  # nothing stays open: what the walk saw is looked for anew
        files = _hashed(walk, progress)
        walk.complain()
        return FolderBundle(
            folder=folder.absolute(),
            digest=_digest(files),
            files=files,
            places={found.path: found.place for found in walk.found},
            identity=opener.identity,
        )


# --- names of files, as told and as judged ---


def _shown(path: str) -> str:
    return "'" + "".join(c if c.isprintable() else _escaped(c) for c in path) + "'"


def _escaped(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))


_SECRET, _NOT_SECRET = _any_of(SECRET_FILES), _any_of(NOT_SECRET)


def looks_secret(name: str, *, folder: bool) -> bool:
    """Say whether a file or folder called *name* usually holds credentials.

    >>> looks_secret("id_ed25519", folder=False), looks_secret("id_ed25519.pub", folder=False)
    (True, False)
    """
    name = name.lower()
    if folder:
        return name in SECRET_FOLDERS
    bare_key = name.startswith("id_") and "." not in name
    return (bare_key or bool(_SECRET.match(name))) and not _NOT_SECRET.match(name)


# --- patterns of .gitignore and .runspecignore ---

_TOKEN = re.compile(
    r"(?P<folders>(?:^|(?<=/))\*{2,}/)"
    r"|(?P<all>(?:^|(?<=/))\*{2,}$)"
    r"|(?P<some>\*+)"
    r"|(?P<one>\?)"
    r"|\\(?P<escaped>.)"
    r"|\[(?P<not>[!^]?)(?P<set>(?>\\.|\[:[^\]]*:\]|[^\\])(?>\\.|\[:[^\]]*:\]|[^\]\\])*)\]"
    r"|(?P<plain>[^\\\[])",
    re.DOTALL,
)
_MEMBER = re.compile(
    r"\[:(?P<kind>[^\]]*):\]|\\?(?P<first>.)(?:-(?!$)(?:\\(?=.))?(?P<last>.))?", re.DOTALL
)
_GLOBS = {"folders": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}
_KINDS = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_NEVER = "(?!)"


@dataclass(frozen=True)
class Rule:
    """One line of an ignore file. *allows* says that it names what may be taken though secret."""

    pattern: re.Pattern[str]
    by_name: bool
    folders_only: bool
    takes: bool
    allows: bool

    def matches(self, path: str, name: str, *, folder: bool) -> bool:
        if self.folders_only and not folder:
            return False
        return self.pattern.fullmatch(name if self.by_name else path) is not None


def rules(text: str, *, ours: bool) -> tuple[Rule, ...]:
    """Read an ignore file; only in *ours* may a line allow what looks secret."""
    lines = (line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n"))
    kept = (_without_trailing_spaces(line) for line in lines if not line.startswith("#"))
    return tuple(_rule(line, ours=ours) for line in kept if line)


def _without_trailing_spaces(line: str) -> str:
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if backslashes % 2 and kept != line else kept


def _rule(line: str, *, ours: bool) -> Rule:
    takes, glob = line.startswith("!"), line.removeprefix("!")
    folders_only, glob = glob.endswith("/"), glob.removesuffix("/")
    by_name, glob = "/" not in glob, glob.removeprefix("/")
    named = any(c.isalnum() for c in glob.rsplit("/", 1)[-1])
    return Rule(re.compile(_regex(glob), re.DOTALL), by_name, folders_only, takes, ours and named)


def _regex(glob: str) -> str:
    parts, at = [], 0
    while at < len(glob):
        token = _TOKEN.match(glob, at)
        if token is None:
            return _NEVER  # as git has it: '[' without ']', or nothing after a backslash
        parts.append(_part(token))
        at = token.end()
    return "".join(parts)


def _part(token: re.Match[str]) -> str:
    kind = token.lastgroup or ""
    if kind == "set":
        return _members(token["set"], negated=bool(token["not"]))
    return _GLOBS.get(kind) or re.escape(token[kind])


def _members(text: str, *, negated: bool) -> str:
    parts = []
    for member in _MEMBER.finditer(text):
        first, last = member["first"], member["last"]
        if first is None and member["kind"] not in _KINDS:
            return _NEVER
        if first is None:
            parts.append(_KINDS[member["kind"]])
        else:
            through = f"-{re.escape(last)}" if last and first <= last else ""  # [z-a] is [z]
            parts.append(re.escape(first) + through)
    return f"(?!/)[{'^' if negated else ''}{''.join(parts)}]"


class Verdict(Enum):
    """What becomes of a file or folder, by its name and the ignore files."""

    TAKEN = auto()
    ALLOWED = auto()  # it looks secret, and is named by a line with "!"
    LEFT_OUT = auto()
    SECRET = auto()


@dataclass(frozen=True)
class Judge:
    """Says what becomes of each name, given the *rules* of the ignore files in their order."""

    rules: tuple[Rule, ...] = ()

    def verdict(self, path: str, *, folder: bool, above: Verdict = Verdict.TAKEN) -> Verdict:
        """Judge *path*, below a folder whose verdict was *above*."""
        name = path.rsplit("/", 1)[-1]
        if name in LEFT_OUT or name.endswith(".pyc"):
            return Verdict.LEFT_OUT
        matching = [rule for rule in self.rules if rule.matches(path, name, folder=folder)]
        if matching and not matching[-1].takes:
            return Verdict.LEFT_OUT
        if above is Verdict.ALLOWED:
            return Verdict.ALLOWED
        if not looks_secret(name, folder=folder):
            return Verdict.TAKEN
        allowed = any(rule.takes and rule.allows for rule in matching)
        return Verdict.ALLOWED if allowed else Verdict.SECRET

    def verdict_from_top(self, path: str) -> Verdict:
        """Judge the file *path* as a walk would that comes by all folders above it."""
        parts, verdict = path.split("/"), Verdict.TAKEN
        for depth in range(1, len(parts) + 1):
            here = "/".join(parts[:depth])
            verdict = self.verdict(here, folder=depth < len(parts), above=verdict)
            if verdict in (Verdict.LEFT_OUT, Verdict.SECRET):
                break
        return verdict


# --- opening and walking ---


class _Opener:
    """Opens what lies below one folder, name after name, never through a link.

    The folders on the way to the last one stay open, so that neighbours cost one call each.
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

    def folder(self, path: str) -> int:
        """Give a descriptor of the folder *path*, good until the next call; "" is the top."""
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
        """Open the regular file *path* for reading; the descriptor is the caller's."""
        folder, _, name = path.rpartition("/")
        fd = os.open(name, OPEN_FILE, dir_fd=self.folder(folder))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.ENXIO, "not a regular file")
        return fd


@dataclass(frozen=True)
class _Found:
    path: str
    place: str
    bytes: int


_Folder = tuple[str, Verdict]


@dataclass
class _Walk:
    """Finds what is taken along from the folder of *opener*, which really lies at *real*."""

    opener: _Opener
    real: str
    judge: Judge = Judge()
    found: list[_Found] = field(default_factory=list)
    troubles: dict[Trouble, list[str]] = field(default_factory=dict)

    def run(self) -> None:
        self.judge = Judge((*self._rules(".gitignore"), *self._rules(IGNORE)))
        folders: list[_Folder] = [("", Verdict.TAKEN)]
        while folders and len(self.found) <= MAX_FILES:
            path, verdict = folders.pop()
            for name, status in self._entries(path):
                folders += self._look(f"{path}/{name}" if path else name, status, verdict)
        self.found.sort(key=lambda found: found.path)

    def trouble(self, kind: Trouble, path: str, detail: str = "") -> None:
        self.troubles.setdefault(kind, []).append(_shown(path) + (f" ({detail})" if detail else ""))

    def unreadable(self, path: str, exc: OSError) -> None:
        if exc.errno in SWAPPED:
            self.trouble(Trouble.CHANGED, path)
        elif exc.errno == errno.EACCES:
            self.trouble(Trouble.UNREADABLE, path)
        else:
            self.trouble(Trouble.UNREADABLE, path, (exc.strerror or str(exc)).lower())

    def complain(self) -> None:
        """Raise BundleError when anything is in the way."""
        kinds = [kind for kind in Trouble if kind in self.troubles]
        problems: list[tuple[str, str | None]] = [
            (_complaint(kind, self.troubles[kind]), kind.value[1]) for kind in kinds
        ]
        problems += _too_much(self.found)
        if problems:
            raise BundleError(problems)

    def _rules(self, name: str) -> tuple[Rule, ...]:
        try:
            with os.fdopen(self.opener.open(name), "rb") as file:
                data = file.read(MAX_IGNORE_BYTES + 1)
            if len(data) > MAX_IGNORE_BYTES:
                raise ValueError(f"above {MAX_IGNORE_BYTES:,} bytes")
            return rules(data.decode(), ours=name == IGNORE)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError):
            self.trouble(Trouble.IGNORE_FILE, name)
            return ()

    def _entries(self, path: str) -> list[tuple[str, os.stat_result]]:
        try:
            with os.scandir(self.opener.folder(path)) as entries:
                return sorted((e.name, e.stat(follow_symlinks=False)) for e in entries)
        except OSError as exc:
            self.unreadable(path + "/", exc)
            return []

    def _look(self, path: str, status: os.stat_result, above: Verdict) -> list[_Folder]:
        """Note what is at *path* as found or as trouble; give it back when it is to be walked."""
        folder = stat.S_ISDIR(status.st_mode)
        verdict = self.judge.verdict(path, folder=folder, above=above)
        if verdict is Verdict.LEFT_OUT:
            return []
        length = _utf8_bytes(path)
        if verdict is Verdict.SECRET:
            self.trouble(Trouble.SECRET, path + "/" * folder)
        elif length is None:
            self.trouble(Trouble.NAME, path)
        elif length > MAX_PATH_BYTES or path.count("/") > MAX_DEPTH:
            self.trouble(Trouble.DEEP, path)
        elif folder:
            return [(path, verdict)]
        else:
            self._take(path, status)
        return []

    def _take(self, path: str, status: os.stat_result) -> None:
        try:
            if stat.S_ISLNK(status.st_mode):
                self._take_link(path)
            elif not stat.S_ISREG(status.st_mode):
                self.trouble(Trouble.SPECIAL, path)
            else:
                self._take_file(path, path, status.st_size)
        except OSError as exc:
            self.unreadable(path, exc)

    def _take_link(self, path: str) -> None:
        try:
            real = os.path.realpath(f"{self.real}/{path}", strict=True)
        except OSError as exc:
            if exc.errno not in SWAPPED:
                raise
            self.trouble(Trouble.NOWHERE, path)
            return
        top = self.real.rstrip("/") + "/"
        status = os.stat(real, follow_symlinks=False)
        if not f"{real}/".startswith(top):
            self.trouble(Trouble.OUTSIDE, path, f"to {_shown(real)}")
        elif stat.S_ISDIR(status.st_mode):
            self.trouble(Trouble.TO_FOLDER, path)
        elif not stat.S_ISREG(status.st_mode):
            self.trouble(Trouble.SPECIAL, path)
        else:
            self._take_linked(path, real.removeprefix(top), status.st_size)

    def _take_linked(self, path: str, place: str, size: int) -> None:
        verdict = self.judge.verdict_from_top(place)
        if verdict is Verdict.SECRET:
            self.trouble(Trouble.SECRET, path, f"a link to {_shown(place)}")
        elif verdict is Verdict.LEFT_OUT:
            self.trouble(Trouble.TO_LEFT_OUT, path, f"to {_shown(place)}")
        else:
            self._take_file(path, place, size)

    def _take_file(self, path: str, place: str, size: int) -> None:
        folder, _, name = place.rpartition("/")
        if os.access(name, os.R_OK, dir_fd=self.opener.folder(folder), effective_ids=True):
            self.found.append(_Found(path, place, size))
        else:
            self.trouble(Trouble.UNREADABLE, path)


def _utf8_bytes(path: str) -> int | None:
    try:
        return len(path.encode())
    except UnicodeEncodeError:
        return None


def _complaint(kind: Trouble, names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return f"{kind.value[0]}: {', '.join(names[:MAX_NAMED])}{more}"


def _too_much(found: Sequence[_Found]) -> list[tuple[str, str | None]]:
    hint = f"list what the job does not need in {IGNORE}, or mount large data as store://"
    size = sum(file.bytes for file in found)
    if len(found) > MAX_FILES:
        most, _ = _heaviest((file.path, 1) for file in found)
        return [(f"more than {MAX_FILES:,} files, most of them in {_shown(most)}", hint)]
    if size > MAX_BYTES:
        most, most_bytes = _heaviest((file.path, file.bytes) for file in found)
        limit = f"{_gib(size)}, above the {_gib(MAX_BYTES)} that are uploaded with a job"
        return [(f"{limit}; {_gib(most_bytes)} of it in {_shown(most)}", hint)]
    return []


def _heaviest(weights: Iterable[tuple[str, int]]) -> tuple[str, int]:
    tops: dict[str, int] = defaultdict(int)
    for path, weight in weights:
        tops[path.split("/", 1)[0]] += weight
    return max(tops.items(), key=lambda top: top[1])


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[_Opener]:
    try:
        opener = _Opener(folder)
    except OSError as exc:
        raise BundleError([_no_folder(folder, exc)]) from exc
    with opener:
        yield opener


def _no_folder(folder: Path, exc: OSError) -> tuple[str, str | None]:
    name = _shown(str(folder))
    match exc.errno:
        case errno.ENOENT:
            return f"there is no folder {name}", None
        case errno.ENOTDIR:
            return f"{name} is not a folder", "mount the folder it lies in"
    return f"{name} cannot be opened: {(exc.strerror or str(exc)).lower()}", None


# --- hashing, and reading what was hashed ---


class _Unsteady(Exception):
    """A file was written to during every try to read it."""


@dataclass
class _Meter:
    """Tells *progress* how far reading is, at most once for each MiB and at the end."""

    progress: Progress | None
    total: int
    done: int = 0
    told: int = 0

    def at(self, done: int) -> None:
        if self.progress and (done - self.told >= MIB or done == self.total > self.told):
            self.progress(done, self.total)
            self.told = done


def _hashed(walk: _Walk, progress: Progress | None) -> tuple[File, ...]:
    meter = _Meter(progress, sum(found.bytes for found in walk.found))
    files = []
    for found in walk.found:
        try:
            files.append(_hash(walk.opener, found, meter))
        except _Unsteady:
            walk.trouble(Trouble.CHANGED, found.path)
        except OSError as exc:
            walk.unreadable(found.path, exc)
        meter.done += found.bytes
        meter.at(meter.done)
    return tuple(files)


def _hash(opener: _Opener, found: _Found, meter: _Meter) -> File:
    for _ in range(TRIES):
        with io.FileIO(opener.open(found.place)) as file:
            before = os.fstat(file.fileno())
            size, sha256 = _read(file, before.st_size, meter)
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) == (size, after.st_mtime_ns):
            return File(found.path, size, bool(after.st_mode & stat.S_IXUSR), sha256)
        time.sleep(PAUSE_S)
    raise _Unsteady


def _read(file: io.FileIO, expected: int, meter: _Meter) -> tuple[int, str]:
    """Give size and sha256, reading no more than one chunk above *expected* of a growing file."""
    size, sha256 = 0, hashlib.sha256()
    while size <= expected and (data := file.read(CHUNK_BYTES)):
        size += len(data)
        sha256.update(data)
        meter.at(meter.done + min(size, expected))
    return size, sha256.hexdigest()


def _digest(files: Iterable[File]) -> str:
    """Give the digest of the list of *files*; NUL ends a path, which cannot hold one."""
    sha256 = hashlib.sha256(b"runspec.bundle/v1\n")
    for file in files:
        kind = "x" if file.executable else "-"
        sha256.update(f"{file.sha256} {kind} {file.bytes} {file.path}\0".encode())
    return f"sha256:{sha256.hexdigest()}"


@contextlib.contextmanager
def _changed(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise Conflict(f"{_shown(path)} changed while it was uploaded: {reason}", AGAIN) from exc


class _Checked(io.RawIOBase):
    """Reads *raw*, the content of *file*, and raises Conflict where it is not what was hashed.

    Whoever reads exactly as many bytes as it should have, is told before the last of them.
    """

    def __init__(self, raw: io.FileIO, file: File) -> None:
        self._raw, self._file = raw, file
        self._sha256, self._size = hashlib.sha256(), 0
        if os.fstat(raw.fileno()).st_size != file.bytes:
            raw.close()
            raise self._conflict()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        count = self._raw.readinto(view) or 0
        self._sha256.update(view[:count])
        self._size += count
        done = self._size >= self._file.bytes or count == 0
        if done and (self._size, self._sha256.hexdigest()) != (self._file.bytes, self._file.sha256):
            raise self._conflict()
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _conflict(self) -> Conflict:
        return Conflict(f"{_shown(self._file.path)} changed while it was uploaded", AGAIN)
