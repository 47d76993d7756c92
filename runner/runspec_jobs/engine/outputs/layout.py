"""Lays out saved outputs in a folder of this machine: files, folders and links, each where its task and node say."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.errors import Conflict, RemoteError
from runspec_jobs.provider import OutputFile, Spec
from runspec_jobs.regex import regex
from runspec_jobs.state import atomic_io

CHUNK_BYTES = 1 << 20
WAY_OUT = "move it away, or fetch to another folder"
DAMAGED = "the save is damaged"


class Layout(NamedTuple):
    """The shape of a run: its spec decides where files are put, whatever was saved so far."""

    several_nodes: bool = False
    several_tasks: bool = False
    of_first: frozenset[str] = frozenset()  # outputs that are saved of the first node alone


PLAIN = Layout()
OF_A_NODE = regex("node-[0-9]+")


def make_layout(spec: Spec) -> Layout:
    """Return how the outputs of a run of *spec* are laid out."""
    usual = "all" if spec.cluster.nodes.min == spec.cluster.nodes.max else "first"
    of_first = frozenset(o.name for o in spec.outputs if (o.origin or usual) == "first")
    return Layout(spec.cluster.nodes.max > 1, bool(spec.sweep), of_first)


def choose_path(target: Path, file: OutputFile, layout: Layout) -> Path:
    """Return the path for *file* in *target*.

    Raises RemoteError if its name leads out of *target*, and Conflict if a symbolic link in *target* does.
    """
    parts = PurePosixPath(file.path).parts
    if not parts or ".." in parts or PurePosixPath(file.path).is_absolute() or "\0" in file.path:
        raise RemoteError(f"the saved path {file.path!r} leads out of {target}", DAMAGED)
    try:
        os.fsencode(file.path)
    except UnicodeEncodeError:
        raise RemoteError(f"the saved path {file.path!r} is not a name", DAMAGED) from None
    folder = target
    if layout.several_tasks:
        folder /= f"task-{file.task}"
    # An output whose name is that of the folder of a node could have files at the same path as that node's outputs.
    alone = file.output in layout.of_first and not OF_A_NODE.fullmatch(file.output)
    if layout.several_nodes and not alone:
        folder /= f"node-{file.rank}"
    path = folder.joinpath(file.output, *parts)
    try:
        inside = path.parent.resolve().is_relative_to(target.resolve())
    except (OSError, RuntimeError) as exc:  # the name is too long, or links lead to themselves
        raise RemoteError(f"cannot write {shorten_path(path)}: {exc}") from exc
    if not inside:
        message = f"{path.parent} leads out of {target} through a symbolic link"
        raise Conflict(message, "remove the link, or fetch to another folder")
    return path


def shorten_path(path: Path) -> str:
    """Return *path* for a message: a name from a store may have thousands of letters."""
    text = str(path)
    return text if len(text) <= 300 else f"{text[:200]}...{text[-60:]}"


def demand_place(target: Path, path: Path) -> None:
    """Raise Conflict if what is at *path*, or at a folder that it needs, cannot be replaced."""
    for parent in path.parents:
        if parent == target or not parent.is_relative_to(target):
            break
        if parent.is_symlink():
            message = f"{parent} is a link, where a folder is needed for {path.name}"
            raise Conflict(message, WAY_OUT)
    wrong = next(
        (parent for parent in path.parents if parent.exists() and not parent.is_dir()), None
    )
    if wrong is not None:
        message = f"{wrong} is a file, where a folder is needed for {path.name}"
        raise Conflict(message, WAY_OUT)
    mode = path.lstat().st_mode if os.path.lexists(path) else stat.S_IFREG
    if stat.S_ISDIR(mode):
        message = f"{path} is a folder, where a file of that name is to be written"
        raise Conflict(message, WAY_OUT)
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        message = f"{path} is a pipe, a socket or a device, where a file is to be written"
        raise Conflict(message, WAY_OUT)


def put_file(
    file: OutputFile, target: Path, path: Path, begins: str, copied: Callable[[int], None]
) -> None:
    """Copy *file* to *path* atomically. Raises RemoteError if its content is not what was saved.

    *begins* is how the name of the unfinished file begins.
    """
    digest, done = hashlib.sha256(), 0
    with (
        _translate_errors(target, path),
        file.open() as source,
        atomic_io.replace_atomically(path, begins) as copy,
    ):
        if file.mode is not None:  # nobody else may read it before it has its mode
            os.fchmod(copy.fileno(), 0o600)
        while data := source.read(CHUNK_BYTES):
            copy.write(data)
            digest.update(data)
            done += len(data)
            copied(len(data))
            # A store that sends more than was saved could fill the disk.
            if done > file.bytes:
                break
        if done != file.bytes:
            message = f"{file.output}/{file.path} has not the {file.bytes:,} bytes of its save"
            raise RemoteError(message, DAMAGED)
        if file.sha256 and digest.hexdigest() != file.sha256:
            raise RemoteError(f"{file.output}/{file.path} does not have the SHA-256 of its save")
        # The time comes last, because writing would change it.
        copy.flush()
        _stamp(copy.fileno(), file)


def is_link(file: OutputFile, path: Path) -> bool:
    """Return whether the link *file* is at *path* already."""
    return bool(file.target) and path.is_symlink() and os.readlink(path) == _link_text(file)


def _link_text(file: OutputFile) -> str:
    if not file.target.startswith("/"):  # else it begins at the output's folder
        return file.target
    depth = len(PurePosixPath(file.path).parts) - 1
    return "/".join([".."] * depth + [file.target.strip("/")]).strip("/") or "."


def put_link(file: OutputFile, target: Path, path: Path, begins: str) -> None:
    """Make the link *file* at *path*, in the place of a file or a link. *begins* is as for `put_file`."""
    end = _link_text(file)
    with _translate_errors(target, path):
        if is_link(file, path):
            return
        # A link cannot be changed in place; renaming a new one over it is atomic.
        part = path.with_name(f"{begins}{secrets.token_hex(8)}.part")
        os.symlink(end, part)
        try:
            if file.kind == "link" and file.mtime_ns is not None:
                os.utime(part, ns=(file.mtime_ns, file.mtime_ns), follow_symlinks=False)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def _translate_errors(target: Path, path: Path) -> Iterator[None]:
    """Make the folders of *path*, and translate errors of writing it."""
    with atomic_io.translate_os_errors(path):
        demand_place(target, path)
        _make_folder(path.parent)
        yield


def _make_folder(path: Path) -> None:
    """Make *path* with its parents, however many there are, so that its owner can write in it."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode)
    if not missing and not os.access(path, os.W_OK | os.X_OK):
        path.chmod(mode | stat.S_IRWXU)  # a folder of an earlier fetch that the job had closed


def put_folders(folders: Sequence[tuple[Path, OutputFile]], target: Path) -> None:
    """Make *folders*, and give them their modes and times, which depend on their content: call it last."""
    ordered = sorted(folders, key=lambda pair: pair[0])
    for path, _ in ordered:
        with atomic_io.translate_os_errors(path):
            demand_place(target, path / "x")
            _make_folder(path)
    # From the innermost folder outwards: a mode may close a folder, and writing in a folder changes its time.
    for path, file in reversed(ordered):
        with atomic_io.translate_os_errors(path):
            _stamp(path, file)


def _stamp(at: int | Path, file: OutputFile) -> None:
    """Set the mode and time of a file or folder, if they are known."""
    if file.mode is not None:
        os.chmod(at, file.mode)
    if file.mtime_ns is not None:
        os.utime(at, ns=(file.mtime_ns, file.mtime_ns))


def describe_losses(files: Iterable[OutputFile]) -> list[str]:
    """Return a line for each thing that no save can contain."""
    return [f"{f.output}/{f.path} was not saved: {f.target}" for f in files if f.kind == "lost"]
