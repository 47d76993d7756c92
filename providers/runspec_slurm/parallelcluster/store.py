"""Copying what has changed on a file system to the place in S3 that it is linked to, by the head node.

The commands are those of FSx for Lustre's own documentation; whoever logs in to the head node has sudo there.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/exporting-files-hsm.html
No test has seen them on a real one: see docs/unverified.md, pcluster-5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from runspec_jobs.provider import RemoteError

# Each file's state is asked for by itself: what `lfs hsm_state` prints begins with the file's name, which may hold
# any word. Of a file that is new or changed the copying is begun; asking again for one that is on its way does no
# harm. Prints how many were not yet there.
BEGIN = """\
cd -- "$1" || exit 3
find . -type f -exec sh -c '
  for f; do
    state=$(lfs hsm_state "$f") || exit 4
    case "${state#"$f:"}" in
    *dirty* | *lost*) ;;
    *archived*) continue ;;
    esac
    sudo -n lfs hsm_archive "$f" || exit 4
    echo 1
  done' sh {} + >"${TMPDIR:-/tmp}/runspec-archive.$$"
code=$?
wc -l <"${TMPDIR:-/tmp}/runspec-archive.$$"
rm -f "${TMPDIR:-/tmp}/runspec-archive.$$"
exit "$code"
"""
PAUSE_S = 10.0
LONGEST_S = 4 * 3600.0
LOOK_S = 1800.0  # of one look: a file takes milliseconds, and there may be many


class Done(Protocol):
    @property
    def code(self) -> int: ...
    @property
    def out(self) -> bytes: ...
    @property
    def err(self) -> str: ...


Run = Callable[
    [str, Sequence[str], float], Done
]  # a script, its arguments, the longest it may take


def archive(
    folder: str,
    run: Run,
    told: Callable[[str], None],
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> None:
    """Return when all of *folder* is in S3. Raises RemoteError when it cannot be; nothing was taken away then."""
    end = clock() + LONGEST_S
    before: int | None = None
    while True:
        left = _begin(folder, run)
        if left == 0:
            return
        told(f"{folder}: {left:,} files are being copied to S3")
        if clock() > end:
            what = f"{folder}: {left:,} files are not in S3 after {LONGEST_S / 3600:.0f} hours"
            raise RemoteError(
                what, "run the same command again, or set archive: false to give them up"
            )
        sleep(PAUSE_S if before is None or left < before else 3 * PAUSE_S)
        before = left


def _begin(folder: str, run: Run) -> int:
    done = run(BEGIN, (folder,), LOOK_S)
    if done.code != 0:
        said = done.err.strip().splitlines()
        what = f"{folder} cannot be copied to S3: {said[-1] if said else f'exit code {done.code}'}"
        raise RemoteError(what, "set archive: false to delete the cluster without it")
    return int(done.out.split()[0])
