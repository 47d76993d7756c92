"""The workspace on the cluster: a folder that all nodes share, used as an object store."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import Bundle, NoAnswer, Progress, RemoteError, RunspecError, Unavailable
from runspec_jobs.provider.streams.tar_stream import tar_blocks
from runspec_slurm.session.process import Done
from runspec_slurm.session.transport import Transport
from runspec_slurm.store.local_workspace import LocalWorkspace
from runspec_slurm.timing import CLOCK, DEFAULT, Clock, Timing

# Exit codes of the scripts below, in addition to those of their commands.
CHANGED, NO_WORKSPACE, NOTHING, OUTSIDE, PATTERN = 93, 94, 95, 96, 97
Found = TypeVar("Found")
KEY = re.compile(r"(?!/)(?!.*(^|/)\.\.(/|$))[^\n\0]+")

# Argument: the workspace, in which only a leading "~/" is expanded.
WHERE = """\
u=$(umask); umask 077
w=$1; shift
case $w in "~") w=$HOME ;; "~/"*) w=$HOME/${w#"~/"} ;; esac
"""
# Slurm takes % and a backslash in the path of a log for a pattern, also in the folder that sbatch was called in:
# https://slurm.schedmd.com/sbatch.html#SECTION_FILENAME-PATTERN
PLAIN = f"case $(pwd -P) in *[%\\\\]*) pwd -P >&2; exit {PATTERN} ;; esac\n"
ENTER = f'{WHERE}mkdir -p -- "$w" && cd -- "$w" || exit {OUTSIDE}\n{PLAIN}'
VISIT = f'{WHERE}[ -d "$w" ] || exit {NO_WORKSPACE}\ncd -- "$w" || exit {OUTSIDE}\n'
PASS = f'{WHERE}[ -d "$w" ] || w=/\ncd -- "$w" || exit {OUTSIDE}\n'
# Write a file to the disk. The sync of coreutils before 8.24 takes no names.
SYNC = 'sync -- "$t" 2>/dev/null || sync'

# Arguments: the key, the name of the file until it is complete, and a folder to make with it. The digest is the first
# line of standard input and not an argument, which everybody on the host could use to guess a secret.
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
# Arguments: the key, and the name of the file until its content is verified.
ARRIVE = f"""\
k=$1 d=$(dirname -- "$1"); t=$d/$2
mkdir -p -- "$d" || exit {OUTSIDE}
cat >"$t" && {{ {SYNC}; }} && sha256sum <"$t"
"""
NAME = 'mv -f -- "$(dirname -- "$1")/$2" "$1"'
FORGET = 'rm -f -- "$(dirname -- "$1")/$2"'
# Arguments: the key, the digest, and the name of the file until it is complete. An existing file is not replaced.
# Prints the content of the file. The digest is verified because only half arrives from a caller that dies.
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
# Arguments: the key, the number of the first byte from 1, and a count.
PART = f'[ -f "$1" ] || exit {NOTHING}\ntail -c "+$2" -- "$1" | head -c "$3"'
# Standard input: lines of the first byte from 1, a count and a key. Prints the bytes of all of them.
PARTS = 'while read -r o c k; do [ ! -f "$k" ] || tail -c "+$o" -- "$k" | head -c "$c"; done'
# Removes also the compiled modules beside the agent: `runspec_agent.job.bytecode_cache`.
REMOVE = 'rm -f -- "$1"; case $1 in inside/*.pyz) rm -f -- "${1%.pyz}".*.kept ;; esac'
# Renames the folder first, so that it disappears completely and at once.
REMOVE_TREE = f"""\
[ -e "$1" ] || exit {NOTHING}
mkdir -p trash && mv -- "$1" "trash/$2" || exit 1
for n in 1 2 3; do rm -rf -- "trash/$2" 2>/dev/null && break; sleep 0.2; done
exit 0
"""
# Arguments: the folder, and for LIST_LIKE two patterns of whole paths.
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
    """Reads and writes files of the workspace. A key is a path below it, with "/" between its parts."""

    def __init__(
        self, way: Transport, workspace: str, timing: Timing = DEFAULT, clock: Clock = CLOCK
    ) -> None:
        self.way, self.timing, self.clock = way, timing, clock
        self.workspace = workspace
        self.near = LocalWorkspace(workspace) if way.near else None

    def look(
        self, what: str, script: str, *args: str, content: Iterable[bytes] | None = None
    ) -> bytes | None:
        """Run a script that changes nothing, and return its output; None if the file it reads does not exist.

        Raises NoAnswer if the cluster did not answer, and Unavailable if it cannot be reached.
        """
        done = self.way.run(VISIT + script, [self.workspace, *args], content, self.timing.command_s)
        if done.code in (NOTHING, NO_WORKSPACE) and not done.lost:
            return None
        return self._checked(what, done).out

    def change(
        self,
        what: str,
        script: str,
        *args: str,
        content: Iterable[bytes] | None = None,
        timeout_s: float | None = None,
    ) -> bytes | None:
        """Run a script that changes something, and return its output; None if there was nothing to change.

        Raises RemoteError if nothing was changed, and NoAnswer if the outcome is unknown.
        """
        try:
            longest_s = self.timing.command_s if timeout_s is None else timeout_s
            done = self.way.run(ENTER + script, [self.workspace, *args], content, longest_s)
        except Unavailable as exc:
            raise RemoteError(exc.message, exc.hint, transient=True) from exc
        if done.code == NOTHING and not done.lost:
            return None
        return self._checked(what, done).out

    def _checked(self, what: str, done: Done) -> Done:
        """Return *done*, or raise the error that `Client.call` promises, which begins with *what*."""
        said = done.err.strip().splitlines()
        why = f": {said[-1]}" if said else ""
        if done.lost:
            raise NoAnswer(f"{self.way.where}: {what}{why}")
        if done.code == CHANGED:
            raise RemoteError(
                f"{what}: the content arrived incomplete or corrupted", transient=True
            )
        if done.code == OUTSIDE:
            hint = "set option workspace in the profile to a folder that you may write to"
            raise RemoteError(f"the workspace {self.workspace} cannot be used{why}", hint)
        if done.code == PATTERN:
            where = said[-1] if said else "a folder"
            what = f"{self.workspace} is {where}, and Slurm takes % and \\ there for a pattern"
            raise RemoteError(
                what, "set option workspace in the profile to a folder of plain names"
            )
        if done.code:
            raise RemoteError(
                f"{self.way.where}: {what}{why or f': exit code {done.code}'}", _hint(why)
            )
        return done

    @staticmethod
    def entered(script: str) -> str:
        """Return *script* changed to run in the workspace, which is its first argument and is made if necessary."""
        return ENTER + script

    @staticmethod
    def visited(script: str) -> str:
        """Return *script* changed to run in the workspace, which is its first argument, or in `/` if it is missing."""
        return PASS + script

    def nearby(self, do: Callable[[LocalWorkspace], Found]) -> tuple[Found] | None:
        """Return the result of *do* on a local workspace; None if a script has to be run instead."""
        if self.near is not None:
            # The script meets the same error, and its words name the cause.
            with contextlib.suppress(OSError):
                return (do(self.near),)
        return None

    def read(self, *parts: str) -> bytes | None:
        key = _key(*parts)
        if nearby := self.nearby(lambda near: near.read(key)):
            return nearby[0]
        return self.look(f"read {key}", READ, key)

    def size(self, key: str) -> int | None:
        if there := self.nearby(lambda near: near.size(_key(key))):
            return there[0]
        output = self.look(f"look at {key}", SIZE, _key(key))
        return None if output is None else int(output)

    def part(self, key: str, start: int, count: int) -> bytes | None:
        """Return *count* bytes from *start*, or fewer at the end of the file."""
        if nearby := self.nearby(lambda near: near.part(_key(key), start, count)):
            return nearby[0]
        return self.look(f"read {key}", PART, _key(key), str(start + 1), str(count))

    def parts(self, wanted: Sequence[tuple[str, int, int]]) -> list[bytes] | None:
        """Return *count* bytes from *start* of each key, by one command; None if any of them is missing."""
        if self.near is not None:
            each = [self.part(key, start, count) or b"" for key, start, count in wanted]
            whole = all(len(e) == count for e, (_, _, count) in zip(each, wanted, strict=True))
            return each if whole else None
        lines = "".join(f"{start + 1} {count} {_key(key)}\n" for key, start, count in wanted)
        output = self.look("read logs", PARTS, content=[lines.encode()])
        if output is None or len(output) != sum(count for _, _, count in wanted):
            return None
        given, at = [], 0
        for _, _, count in wanted:
            given.append(output[at : at + count])
            at += count
        return given

    def put(self, key: str, content: bytes, *, beside: str = "") -> None:
        """Write a file completely or not at all; *beside* is a folder to make with it."""
        digest = f"{hashlib.sha256(content).hexdigest()}\n".encode()
        blocks = [digest, content]
        self.change(f"write {key}", PUT, _key(key), part_name(), beside, content=blocks)

    def put_new(self, content: str, *parts: str) -> str | None:
        """Write a small text unless the file exists; return the content of the file, or None without its folder."""
        key, data = _key(*parts), content.encode()
        digest = hashlib.sha256(data).hexdigest()
        output = self.change(f"write {key}", CLAIM, key, digest, part_name(), content=[data])
        return None if output is None else output.decode()

    def put_folder(self, key: str, bundle: Bundle, progress: Progress) -> None:
        """Write the content of *bundle* as one tar file, completely or not at all.

        The file gets its name after the digest of its content was verified. Raises Conflict if the folder has
        changed since it was hashed.
        """
        part, sent = part_name(), hashlib.sha256()
        what = f"upload {key}"
        try:
            output = self.change(
                what,
                ARRIVE,
                _key(key),
                part,
                content=_summed(tar_blocks(bundle, progress), sent),
                timeout_s=self.timing.stage_s,
            )
            if (output or b"").split()[:1] != [sent.hexdigest().encode()]:
                raise RemoteError(
                    f"{what}: the content arrived incomplete or corrupted", transient=True
                )
        except RunspecError:
            self._forget(key, part)
            raise
        self.change(what, NAME, key, part)
        whole = sum(file.bytes for file in bundle.files)
        progress(whole, whole)

    def _forget(self, key: str, part: str) -> None:
        try:
            self.change(f"remove the unfinished {key}", FORGET, key, part)
        except RunspecError:  # the first error is raised; `gc` finds the rest
            pass

    def remove(self, key: str) -> None:
        self.change(f"remove {key}", REMOVE, _key(key))

    def remove_tree(self, *parts: str) -> None:
        """Remove a folder, which other processes see disappear at once."""
        key = _key(*parts)
        name = f"{posixpath.basename(key)}.{secrets.token_hex(6)}"
        self.change(f"remove {key}", REMOVE_TREE, key, name, timeout_s=self.timing.gone_s)

    def listing(self, folder: str, *like: str) -> list[Entry]:
        """Return the files below *folder*; with two patterns *like*, only files whose paths match one of them."""
        script = LIST_LIKE if like else LIST
        output = self.look(f"list {folder}", script, _key(folder), *like)
        return [entry for entry in map(_entry, (output or b"").splitlines()) if entry is not None]

    def holds_runs(self) -> bool:
        """Return whether the workspace exists and has ever had a run."""
        return self.look("look for runs", HOLDS_RUNS) is not None

    def folders(self, folder: str) -> list[str]:
        """Return the names directly below *folder*."""
        return (self.look(f"list {folder}", FOLDERS, _key(folder)) or b"").decode().split("\n")[:-1]


def _entry(line: bytes) -> Entry | None:
    """Return the file in a line of wc; None for the line with the total."""
    size, _, name = line.decode(errors="surrogateescape").strip().partition(" ")
    return Entry(name, int(size)) if "/" in name else None


def _key(*parts: str) -> str:
    """Return a path below the workspace, which every key of runspec is."""
    key = "/".join(parts)
    assert KEY.fullmatch(key), f"BUG: {key} is not a key"
    return key


def part_name() -> str:
    """Return a name for an incomplete file; `runspec_agent.store.folder` uses such names too, and hides them."""
    return f".rs-{secrets.token_hex(8)}.part"


def _summed(blocks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for block in blocks:
        digest.update(block)
        yield block


def _hint(why: str) -> str | None:
    """Return a hint for an error of a file system."""
    for said, hint in (
        ("No space left", "free some space, or set option workspace to another file system"),
        ("Disk quota exceeded", "free some space, or set option workspace to another file system"),
        (
            "Permission denied",
            "check that the option workspace of the profile names a folder of yours",
        ),
        ("Read-only file system", "set option workspace in the profile to another folder"),
        ("sha256sum", "install coreutils on the login node, which has sha256sum"),
    ):
        if said in why:
            return hint
    return None
