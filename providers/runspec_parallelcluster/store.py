"""Copying of changed files from a file system to the S3 prefix that it is linked to, by commands on the head node.

The commands are from the documentation of FSx for Lustre, and need sudo, which the login of the head node has:
https://docs.aws.amazon.com/fsx/latest/LustreGuide/exporting-files-hsm.html
They were never tested on a real file system: see docs/unverified.md, pcluster-5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from runspec_jobs.provider import RemoteError
from runspec_parallelcluster.timing import DEFAULT, Timing
from runspec_slurm.timing import CLOCK, Clock

# Queries the state of each file by itself, because `lfs hsm_state` prints the file's name first, which may contain any
# word. Starts to copy each new or changed file; a file that is being copied already is not affected. Prints the number
# of files that are not yet copied.
BEGIN = """\
cd -- "$1" || exit 3
list=$(mktemp) || exit 4
find . -type f -exec sh -c '
  for f; do
    state=$(lfs hsm_state "$f") || exit 4
    case "${state#"$f:"}" in
    *dirty* | *lost*) ;;
    *archived*) continue ;;
    esac
    sudo -n lfs hsm_archive "$f" || exit 4
    echo 1
  done' sh {} + >"$list"
code=$?
wc -l <"$list"
rm -f "$list"
exit "$code"
"""


class Done(Protocol):
    @property
    def code(self) -> int: ...
    @property
    def out(self) -> bytes: ...
    @property
    def err(self) -> str: ...


# Arguments: a script, its arguments, and the longest time it may take.
Run = Callable[[str, Sequence[str], float], Done]


def archive(
    folder: str,
    run: Run,
    tell: Callable[[str], None],
    timing: Timing = DEFAULT,
    clock: Clock = CLOCK,
) -> None:
    """Wait until all of *folder* is in S3. Raises RemoteError if that fails; the files then still exist."""
    end = clock.monotonic() + timing.archive_s
    before: int | None = None
    while True:
        left = _begin(folder, run, timing.archive_look_s)
        if left == 0:
            return
        tell(f"{folder}: {left:,} files are being copied to S3")
        if clock.monotonic() > end:
            what = (
                f"{folder}: {left:,} files are not in S3 after {timing.archive_s / 3600:.0f} hours"
            )
            raise RemoteError(
                what, "run the same command again, or set archive: false to lose these files"
            )
        pauses = 1 if before is None or left < before else 3
        clock.sleep(pauses * timing.archive_pause_s)
        before = left


def _begin(folder: str, run: Run, longest_s: float) -> int:
    done = run(BEGIN, (folder,), longest_s)
    if done.code != 0:
        said = done.err.strip().splitlines()
        what = f"{folder} cannot be copied to S3: {said[-1] if said else f'exit code {done.code}'}"
        raise RemoteError(
            what, "set archive: false to delete the cluster without copying its files"
        )
    return int(done.out.split()[0])
