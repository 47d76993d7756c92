"""The workspace on the cluster: files that lie in a folder which all nodes share, as elsewhere in an object store."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from runspec_jobs.provider import (
    Bundle,
    NoAnswer,
    Progress,
    RemoteError,
    RunspecError,
    Unavailable,
    tar_blocks,
)
from runspec_slurm import timing
from runspec_slurm.session.transport import Done, Transport
from runspec_slurm.store.local_workspace import LocalWorkspace

# What our own pieces of shell end with, beside what their commands end with.
CHANGED, NO_WORKSPACE, NOTHING, OUTSIDE = 93, 94, 95, 96
Found = TypeVar("Found")
KEY = re.compile(r"(?!/)(?!.*(^|/)\.\.(/|$))[^\n\0]+")

# The workspace is the first argument. Only "~/" at its beginning means anything but itself.
WHERE = """\
u=$(umask); umask 077
w=$1; shift
case $w in "~") w=$HOME ;; "~/"*) w=$HOME/${w#"~/"} ;; esac
"""
ENTER = f'{WHERE}mkdir -p -- "$w" && cd -- "$w" || exit {OUTSIDE}\n'
VISIT = f'{WHERE}[ -d "$w" ] || exit {NO_WORKSPACE}\ncd -- "$w" || exit {OUTSIDE}\n'
# Of what is on the disk and not only in memory: sync takes names since coreutils 8.24, and none before.
SYNC = 'sync -- "$t" 2>/dev/null || sync'

# key, the name until it is whole, and a folder to make beside it. The digest is the first line that comes in: by that
# of a secret in its argv, everybody on the host could try what the secret is.
PUT = f"""\
k=$1 d=$(dirname -- "$1"); t=$d/$2
mkdir -p -- "$d" || exit {OUTSIDE}
[ -z "$3" ] || mkdir -p -- "$3" || exit {OUTSIDE}
read -r digest || exit {CHANGED}
cat >"$t" && {{ {SYNC}; }} || {{ rm -f -- "$t"; exit 1; }}
found=$(sha256sum <"$t") || {{ rm -f -- "$t"; exit 1; }}
[ "${{found%% *}}" = "$digest" ] || {{ rm -f -- "$t"; exit {CHANGED}; }}
mv -f -- "$t" "$k"
"""
# key, the name until then: what has arrived is compared before it gets its name
ARRIVE = f"""\
k=$1 d=$(dirname -- "$1"); t=$d/$2
mkdir -p -- "$d" || exit {OUTSIDE}
cat >"$t" && {{ {SYNC}; }} && sha256sum <"$t"
"""
NAME = 'mv -f -- "$(dirname -- "$1")/$2" "$1"'
FORGET = 'rm -f -- "$(dirname -- "$1")/$2"'
# key, digest, the name until then: a file that is there stays as it is; its content is given, whosever it is. Of a
# caller that dies meanwhile only half of it comes.
CLAIM = f"""\
k=$1 d=$(dirname -- "$1"); t=$d/$3
[ -d "$d" ] || exit {NOTHING}
cat >"$t" && found=$(sha256sum <"$t") || {{ rm -f -- "$t"; exit 1; }}
[ "${{found%% *}}" = "$2" ] || {{ rm -f -- "$t"; exit {CHANGED}; }}
ln -- "$t" "$k" 2>/dev/null
rm -f -- "$t"
cat -- "$k"
"""
READ = f'[ -f "$1" ] || exit {NOTHING}\ncat -- "$1"'
SIZE = f'[ -f "$1" ] || exit {NOTHING}\nwc -c <"$1"'
# key, first byte from 1, count
PART = f'[ -f "$1" ] || exit {NOTHING}\ntail -c "+$2" -- "$1" | head -c "$3"'
# lines of a key, a first byte from 1 and a count come in, the bytes of all of them go out
PARTS = 'while read -r o c k; do tail -c "+$o" -- "$k" | head -c "$c"; done'
# What a zipapp left beside it goes with it: `runspec_agent.job.bytecode_cache`.
REMOVE = 'rm -f -- "$1"; case $1 in inside/*.pyz) rm -f -- "${1%.pyz}".*.kept ;; esac'
# A folder gets another name first, so that it is gone at once and whole.
REMOVE_TREE = f"""\
[ -e "$1" ] || exit {NOTHING}
mkdir -p trash && mv -- "$1" "trash/$2" || exit 1
for n in 1 2 3; do rm -rf -- "trash/$2" 2>/dev/null && break; sleep 0.2; done
exit 0
"""
# folder, and a pattern of whole paths
LIST = f"""\
[ -d "$1" ] || exit {NOTHING}
find "$1" -type f -exec wc -c {{}} +
"""
LIST_LIKE = f"""\
[ -d "$1" ] || exit {NOTHING}
find "$1" -type f \\( -path "$2" -o -path "$3" \\) -exec wc -c {{}} +
"""
HOLDS_RUNS = f"[ -d runs ] || exit {NOTHING}"
FOLDERS = f'[ -d "$1" ] || exit {NOTHING}\nls -A -- "$1"'


class Entry(NamedTuple):
    """A file of the workspace."""

    key: str
    size: int


class WorkspaceStore:
    """Keys are paths below the workspace, "/" between their parts."""

    def __init__(self, way: Transport, workspace: str) -> None:
        self.way = way
        self.workspace = workspace
        self.near = LocalWorkspace(workspace) if way.near else None

    def look(
        self, what: str, script: str, *args: str, content: Iterable[bytes] | None = None
    ) -> bytes | None:
        """Run what changes nothing; None where what it looks at is not there.

        Raises NoAnswer when the cluster gave none, and Unavailable when it cannot be reached.
        """
        done = self.way.run(VISIT + script, [self.workspace, *args], content)
        if done.code in (NOTHING, NO_WORKSPACE) and not done.lost:
            return None
        return self._checked(what, done).out

    def change(
        self,
        what: str,
        script: str,
        *args: str,
        content: Iterable[bytes] | None = None,
        timeout_s: float = timing.COMMAND_S,
    ) -> bytes | None:
        """Run what changes something; None where there was nothing to change.

        Raises RemoteError when nothing was changed, NoAnswer when nobody knows.
        """
        try:
            done = self.way.run(ENTER + script, [self.workspace, *args], content, timeout_s)
        except Unavailable as exc:
            raise RemoteError(exc.message, exc.hint, transient=True) from exc
        if done.code == NOTHING and not done.lost:
            return None
        return self._checked(what, done).out

    def _checked(self, what: str, done: Done) -> Done:
        """Raise what became of *what*, in the words of `Client.call`."""
        said = done.err.strip().splitlines()
        why = f": {said[-1]}" if said else ""
        if done.lost:
            raise NoAnswer(f"{self.way.where}: {what}{why}")
        if done.code == CHANGED:
            raise RemoteError(f"{what}: it arrived otherwise than it was sent", transient=True)
        if done.code == OUTSIDE:
            hint = "name a folder that you may write to: option workspace of the profile"
            raise RemoteError(f"the workspace {self.workspace} cannot be used{why}", hint)
        if done.code:
            raise RemoteError(f"{self.way.where}: {what}{why or f': code {done.code}'}", _way(why))
        return done

    @staticmethod
    def entered(script: str) -> str:
        """Return *script* to be run in the workspace, which is its first argument and is made if need be."""
        return ENTER + script

    def nearby(self, do: Callable[[LocalWorkspace], Found]) -> tuple[Found] | None:
        """Return what *do* finds without a shell; None where the shell is to be asked."""
        if self.near is not None:
            with contextlib.suppress(OSError):
                return (do(self.near),)
        return None

    def read(self, *parts: str) -> bytes | None:
        key = _key(*parts)
        if found := self.nearby(lambda near: near.read(key)):
            return found[0]
        return self.look(f"read {key}", READ, key)

    def size(self, key: str) -> int | None:
        if there := self.nearby(lambda near: near.size(_key(key))):
            return there[0]
        found = self.look(f"look at {key}", SIZE, _key(key))
        return None if found is None else int(found)

    def part(self, key: str, start: int, count: int) -> bytes | None:
        """Return *count* bytes from *start*, fewer at the end."""
        if found := self.nearby(lambda near: near.part(_key(key), start, count)):
            return found[0]
        return self.look(f"read {key}", PART, _key(key), str(start + 1), str(count))

    def parts(self, wanted: Sequence[tuple[str, int, int]]) -> list[bytes] | None:
        """Return *count* bytes from *start* of each key, by one command; None when not all are there."""
        if self.near is not None:
            each = [self.part(key, start, count) or b"" for key, start, count in wanted]
            whole = all(len(e) == count for e, (_, _, count) in zip(each, wanted, strict=True))
            return each if whole else None
        lines = "".join(f"{start + 1} {count} {_key(key)}\n" for key, start, count in wanted)
        found = self.look("read logs", PARTS, content=[lines.encode()])
        if found is None or len(found) != sum(count for _, _, count in wanted):
            return None
        given, at = [], 0
        for _, _, count in wanted:
            given.append(found[at : at + count])
            at += count
        return given

    def put(self, key: str, content: bytes, *, beside: str = "") -> None:
        """Put a file, whole or not at all; *beside* is a folder that is made with it."""
        digest = f"{hashlib.sha256(content).hexdigest()}\n".encode()
        blocks = [digest, content]
        self.change(f"write {key}", PUT, _key(key), part_name(), beside, content=blocks)

    def put_new(self, content: str, *parts: str) -> str | None:
        """Put a small text where none is, and give what is there then; None without its folder."""
        key, data = _key(*parts), content.encode()
        digest = hashlib.sha256(data).hexdigest()
        found = self.change(f"write {key}", CLAIM, key, digest, part_name(), content=[data])
        return None if found is None else found.decode()

    def put_folder(self, key: str, bundle: Bundle, progress: Progress) -> None:
        """Put the content of *bundle* at *key*, as one tar, whole or not at all.

        It gets its name when the digest of what has arrived is that of what was sent. Raises Conflict
        for a folder that has changed since it was hashed.
        """
        part, sent = part_name(), hashlib.sha256()
        what = f"upload {key}"
        try:
            found = self.change(
                what,
                ARRIVE,
                _key(key),
                part,
                content=_summed(tar_blocks(bundle, progress), sent),
                timeout_s=timing.STAGE_S,
            )
            if (found or b"").split()[:1] != [sent.hexdigest().encode()]:
                raise RemoteError(f"{what}: it arrived otherwise than it was sent", transient=True)
        except RunspecError:
            self._forget(key, part)
            raise
        self.change(what, NAME, key, part)
        whole = sum(file.bytes for file in bundle.files)
        progress(whole, whole)

    def _forget(self, key: str, part: str) -> None:
        try:
            self.change(f"remove what is there of {key}", FORGET, key, part)
        except RunspecError:  # what went wrong before is told; `gc` finds what is left
            pass

    def remove(self, key: str) -> None:
        self.change(f"remove {key}", REMOVE, _key(key))

    def remove_tree(self, *parts: str) -> None:
        """Remove a folder; for others it is gone at once."""
        key = _key(*parts)
        name = f"{posixpath.basename(key)}.{secrets.token_hex(6)}"
        self.change(f"remove {key}", REMOVE_TREE, key, name, timeout_s=timing.GONE_S)

    def listing(self, folder: str, *like: str) -> list[Entry]:
        """Return the files below *folder*; with two patterns of paths *like*, those that are like one."""
        script = LIST_LIKE if like else LIST
        found = self.look(f"list {folder}", script, _key(folder), *like)
        return [entry for entry in map(_entry, (found or b"").splitlines()) if entry is not None]

    def holds_runs(self) -> bool:
        """Return whether the workspace is there, and has ever had a run."""
        return self.look("look for runs", HOLDS_RUNS) is not None

    def folders(self, folder: str) -> list[str]:
        """Return the names directly below *folder*."""
        return (self.look(f"list {folder}", FOLDERS, _key(folder)) or b"").decode().split("\n")[:-1]


def _entry(line: bytes) -> Entry | None:
    """Read a line of wc; what it says of all files together is no file."""
    size, _, name = line.decode(errors="surrogateescape").strip().partition(" ")
    return Entry(name, int(size)) if "/" in name else None


def _key(*parts: str) -> str:
    """Return a path below the workspace; nothing of ours has another."""
    key = "/".join(parts)
    assert KEY.fullmatch(key), f"BUG: {key} is no key"
    return key


def part_name() -> str:
    """Return the name of a file until it is complete; `runspec_agent.store.folder` uses and hides the same names."""
    return f".rs-{secrets.token_hex(8)}.part"


def _summed(blocks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for block in blocks:
        digest.update(block)
        yield block


def _way(why: str) -> str | None:
    """Return what to do about what a file system has refused."""
    for said, way in (
        ("No space left", "free some space, or name a workspace on another file system"),
        ("Disk quota exceeded", "free some space, or name a workspace on another file system"),
        ("Permission denied", "is the workspace yours? it is an option of the profile"),
        ("Read-only file system", "name another workspace in the profile"),
        ("sha256sum", "the login node needs sha256sum, which is a part of coreutils"),
    ):
        if said in why:
            return way
    return None
