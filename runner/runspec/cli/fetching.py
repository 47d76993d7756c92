"""`runspec fetch`: bring back what a run wrote."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from runspec import disk, record
from runspec.cli import applying, console
from runspec.errors import OK, RemoteError, Unavailable, UsageError
from runspec.problems import did_you_mean
from runspec.provider import OutputFile, Outputs, Progress

CHUNK_BYTES = 1 << 20


def fetch(args: Namespace) -> int:
    of = record.find_kept(args.run)
    _, client, _ = applying.connect(of)
    if not isinstance(client, Outputs):
        raise Unavailable("this provider cannot give outputs back")
    files = client.outputs(of.run)
    if args.output is not None:
        files = [file for file in files if file.output == args.output]
        if not files:
            known = {file.output for file in client.outputs(of.run)}
            hint = did_you_mean(args.output, known) or f"there are: {', '.join(sorted(known))}"
            raise UsageError(f"{of.run} has nothing saved in an output '{args.output}'", hint)
    target = Path(args.to or of.run)
    done, whole = 0, sum(file.bytes for file in files)
    saved = []
    with console.Told(quiet=args.json) as told:
        move = told.progress(f"fetch {of.run}")
        for file in files:
            path = place(target, file, files)
            done = _copy(file, path, move, done, whole)
            saved.append({"output": file.output, "path": str(path), "bytes": file.bytes})
    if args.json:
        console.out_json({"run": of.run, "files": saved})
    else:
        files_s = "1 file" if len(saved) == 1 else f"{len(saved):,} files"
        console.tell(f"fetched {files_s} ({whole:,} bytes) into {target}")
    return OK


def place(target: Path, file: OutputFile, files: Sequence[OutputFile]) -> Path:
    """Give where *file* goes; raises RemoteError rather than write outside of *target*."""
    parts = PurePosixPath(file.path).parts
    if not parts or ".." in parts or PurePosixPath(file.path).is_absolute():
        raise RemoteError(f"'{file.path}' would leave {target}", "the record is damaged")
    folder = target
    if any(other.task for other in files):
        folder /= f"task-{file.task}"
    if file.rank:
        folder /= f"node-{file.rank}"
    return folder.joinpath(file.output, *parts)


def _copy(file: OutputFile, path: Path, move: Progress, done: int, whole: int) -> int:
    """Write *file* to *path*, all or nothing; give the bytes done by then."""
    temporary = path.with_name(f".{path.name}.new")
    with disk.told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with file.open() as source, temporary.open("wb") as copy:
            while data := source.read(CHUNK_BYTES):
                copy.write(data)
                done += len(data)
                move(done, whole)
            copy.flush()
            os.fsync(copy.fileno())
        os.replace(temporary, path)
    return done
