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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

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
    "secrets.yaml secrets.yml secrets.toml client_secret*.json application_default_credentials.json "
    "*service*account*.json id_rsa* id_ecdsa* id_ed25519* *.pem *.key *.ppk *.p12 *.pfx "
    "*.jks *.keystore *.kdb *.kdbx *.tfstate *.tfstate.backup"
).split()
NOT_SECRET = "*.pub .env.example .env.sample .env.template .env.dist".split()

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not hang us
SWAPPED = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.ENXIO)

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
    IGNORE_FILE = ("these are not lists of patterns in UTF-8", "write them anew")


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
        elif last is None or first <= last:
            parts.append(re.escape(first) + (f"-{re.escape(last)}" if last else ""))
    if not parts:
        return "[^/]" if negated else _NEVER
    return f"(?!/)[{'^' if negated else ''}{''.join(parts)}]"
