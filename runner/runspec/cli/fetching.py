"""`runspec fetch`: bring back what a run wrote."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from runspec import disk
from runspec.cli import applying, choosing, console
from runspec.errors import OK, Conflict, RemoteError, Unavailable, UsageError
from runspec.problems import did_you_mean
from runspec.provider import OutputFile, Outputs, Progress

CHUNK_BYTES = 1 << 20


def fetch(args: Namespace) -> int:
    of = choosing.kept(args.run)
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
    """Return where *file* goes.

    Raises RemoteError where its name would leave *target*, and Conflict where a link in there would.
    """
    parts = PurePosixPath(file.path).parts
    if not parts or ".." in parts or PurePosixPath(file.path).is_absolute():
        raise RemoteError(f"'{file.path}' would leave {target}", "the record is damaged")
    folder = target
    if any(other.task for other in files):
        folder /= f"task-{file.task}"
    if file.rank:
        folder /= f"node-{file.rank}"
    path = folder.joinpath(file.output, *parts)
    if not path.parent.resolve().is_relative_to(target.resolve()):
        raise Conflict(f"a link in {target} leads {path.parent} out of it", "name another folder")
    return path


def _copy(file: OutputFile, path: Path, move: Progress, done: int, whole: int) -> int:
    """Write *file* to *path*, all or nothing; give the bytes done by then."""
    with disk.told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with file.open() as source, disk.replaced(path) as copy:
            while data := source.read(CHUNK_BYTES):
                copy.write(data)
                done += len(data)
                move(done, whole)
    return done
