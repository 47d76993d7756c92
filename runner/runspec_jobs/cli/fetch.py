"""`runspec fetch`: bring back what a run wrote."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from runspec_jobs.cli import apply, choose_run, output
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.engine import publish
from runspec_jobs.errors import OK, Conflict, RemoteError, Unavailable, UsageError
from runspec_jobs.provider import OutputFile, Progress, SupportsOutputs
from runspec_jobs.provider.saved_outputs import newest
from runspec_jobs.state import atomic_io

CHUNK_BYTES = 1 << 20
TRIES = 5  # while the job goes on, and saves anew


def fetch(args: Namespace) -> int:
    of = choose_run.kept(args.run)
    _, client, _ = apply.connect(of)
    if not isinstance(client, SupportsOutputs):
        raise Unavailable("this provider cannot read outputs")
    target = Path(args.to or of.run)
    with output.Told(quiet=args.json) as told:
        move = told.progress(f"fetch {of.run}")
        saved = fetch_outputs(client, of.run, args.output, args.save, target, move)
    if saved:
        publish.finish(of, client, output.tell)
    whole = sum(file.bytes for file in saved.values())
    if args.json:
        files = [{"output": f.output, "path": str(p), "bytes": f.bytes} for p, f in saved.items()]
        output.out_json({"run": of.run, "files": files})
    else:
        files_s = "1 file" if len(saved) == 1 else f"{len(saved):,} files"
        output.tell(f"fetched {files_s} ({whole:,} bytes) into {target}")
    return OK


def fetch_outputs(
    client: SupportsOutputs,
    run: str,
    output: str | None,
    save: int | None,
    target: Path,
    move: Progress,
) -> dict[Path, OutputFile]:
    """Bring the files of one save of each output, which a later one may replace meanwhile; give where each is."""
    files = _chosen(client, run, output, save)
    brought: dict[Path, OutputFile] = {}
    for _ in range(TRIES):
        try:
            _bring(files, target, brought, move)
            break
        except (RemoteError, Conflict, FileNotFoundError):
            again = _chosen(client, run, output, save)
            if [f.key for f in again] == [f.key for f in files]:
                raise
            files = again
    else:
        raise Conflict(
            f"{run} saves faster than its files can be fetched", "fetch when it has ended"
        )
    wanted = {place(target, file, files): file for file in files}
    for path in brought.keys() - wanted.keys():
        path.unlink(missing_ok=True)
    return wanted


def _chosen(
    client: SupportsOutputs, run: str, output: str | None, save: int | None
) -> list[OutputFile]:
    """Give the files that are asked for. Raises UsageError where there is no such output, or save."""
    every = list(client.outputs(run))
    files = [file for file in every if output in (None, file.output)]
    if output is not None and not files:
        known = {file.output for file in every}
        hint = did_you_mean(output, known) or f"there are: {', '.join(sorted(known))}"
        raise UsageError(f"{run} has nothing saved in an output '{output}'", hint)
    if save is None:
        return newest(files)
    if not (found := [file for file in files if file.save == save]):
        there = ", ".join(str(number) for number in sorted({file.save for file in files}))
        hint = f"there are: {there}" if there else "nothing has been saved yet"
        raise UsageError(f"{run} keeps no save {save}", hint)
    return found


def _bring(
    files: Sequence[OutputFile], target: Path, brought: dict[Path, OutputFile], move: Progress
) -> None:
    """Write *files* into *target*, but for those that *brought* has there already."""
    done, whole = 0, sum(file.bytes for file in files)
    for file in files:
        path = place(target, file, files)
        known = brought.get(path)
        if known is None or not file.sha256 or known.sha256 != file.sha256:
            _copy(file, path, move, done, whole)
            brought[path] = file
        done += file.bytes
        move(done, whole)


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


def _copy(file: OutputFile, path: Path, move: Progress, done: int, whole: int) -> None:
    """Write *file* to *path*, all or nothing. Raises RemoteError where it is not what was saved."""
    digest = hashlib.sha256()
    with atomic_io.translate_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with file.open() as source, atomic_io.replaced(path) as copy:
            while data := source.read(CHUNK_BYTES):
                copy.write(data)
                digest.update(data)
                done += len(data)
                move(done, whole)
            if file.sha256 and digest.hexdigest() != file.sha256:
                raise RemoteError(f"{file.output}/{file.path} is not what was saved")
