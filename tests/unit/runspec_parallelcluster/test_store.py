"""What is new on a file system is in S3 before it is said to be; a stand-in for `lfs` keeps the states of files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from runspec_jobs.provider import RemoteError
from runspec_parallelcluster import store
from runspec_parallelcluster.timing import Timing
from runspec_slurm.timing import Clock

pytestmark = pytest.mark.process

# A file's state is kept beside it; what is asked for is done at the third look, as by the service.
# The words: https://doc.lustre.org/lustre_manual.xhtml#lustrehsm (lfs hsm_state)
LFS = r"""#!/bin/sh
marks=$MARKS; what=$1; shift
for f; do
  mark=$marks/$(printf %s "$f" | tr / _)
  case $what in
  hsm_state)
    [ ! -e "$marks/broken" ] || { echo "lfs: cannot get hsm state" >&2; exit 2; }
    if [ -e "$mark.asked" ]; then
      n=$(($(cat "$mark.asked") + 1)); echo "$n" >"$mark.asked"
      [ "$n" -lt 2 ] || { rm "$mark.asked"; touch "$mark.there"; }
    fi
    if [ -e "$mark.dirty" ]; then echo "$f: (0x0000000b) exists dirty archived, archive_id:1"
    elif [ -e "$mark.there" ]; then echo "$f: (0x00000009) exists archived, archive_id:1"
    else echo "$f: (0x00000000)"; fi ;;
  hsm_archive) rm -f "$mark.dirty"; [ -e "$mark.asked" ] || echo 0 >"$mark.asked"; echo "$f" >>"$marks/calls" ;;
  esac
done
"""


class Done(NamedTuple):
    code: int
    out: bytes
    err: str


class Place:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data, self.marks, programs = folder / "data", folder / "marks", folder / "bin"
        for made in (self.data, self.marks, programs):
            made.mkdir()
        for name, text in (("lfs", LFS), ("sudo", '#!/bin/sh\nshift\nexec "$@"\n')):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.setenv("MARKS", str(self.marks))
        self.said: list[str] = []
        self.slept = 0.0

    def run(self, script: str, args: Sequence[str], longest_s: float) -> Done:
        words = ["/bin/sh", "-c", script, "sh", *args]
        done = subprocess.run(words, capture_output=True, timeout=60, check=False)
        return Done(done.returncode, done.stdout, done.stderr.decode())

    def clock(self) -> Clock:
        return Clock(lambda: self.slept, self.sleep)

    def archive(self) -> None:
        store.archive(str(self.data), self.run, self.said.append, clock=self.clock())

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def calls(self) -> list[str]:
        kept = self.marks / "calls"
        return kept.read_text().splitlines() if kept.exists() else []

    def mark(self, name: str, word: str) -> None:
        (self.marks / f"{name.replace('/', '_')}.{word}").touch()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def write(place: Place) -> Callable[[str], None]:
    def one(name: str) -> None:
        path = place.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)

    return one


def test_every_new_file_is_copied_and_waited_for(place: Place) -> None:
    for name in ("a.txt", "runs/x/model.bin"):
        write(place)(name)

    place.archive()

    assert set(place.calls()) == {"./a.txt", "./runs/x/model.bin"}
    assert place.slept > 0 and "2 files" in place.said[0]


def test_unchanged_files_are_not_archived_again(place: Place) -> None:
    write(place)("a.txt")
    place.mark("./a.txt", "there")

    place.archive()

    assert place.calls() == []


def test_changed_files_are_archived_again(place: Place) -> None:
    write(place)("a.txt")
    place.mark("./a.txt", "there")
    place.mark("./a.txt", "dirty")

    place.archive()

    assert place.calls()[0] == "./a.txt"


@pytest.mark.parametrize(
    "name", ["archived", "an archived file", "b: (0x9) archived", "a'b", "-n", "$HOME", "*"]
)
def test_the_name_of_a_file_is_never_its_state_nor_a_command(place: Place, name: str) -> None:
    write(place)(name)

    place.archive()

    assert f"./{name}" in place.calls()


def test_where_the_state_cannot_be_had_nothing_is_said_to_be_there(place: Place) -> None:
    write(place)("a.txt")
    (place.marks / "broken").touch()

    with pytest.raises(RemoteError, match="cannot get hsm state") as caught:
        place.archive()

    assert caught.value.hint and "archive: false" in caught.value.hint


def test_a_folder_that_is_not_there_is_an_error(place: Place) -> None:
    place.data.rmdir()

    with pytest.raises(RemoteError, match="cannot be copied"):
        place.archive()


def test_archiving_has_a_time_limit(
    place: Place,
) -> None:
    write(place)("a.txt")

    with pytest.raises(RemoteError, match="1 files are not in S3"):
        store.archive(
            str(place.data),
            lambda *_: Done(0, b"1\n", ""),
            place.said.append,
            Timing(archive_s=5.0),
            place.clock(),
        )


def test_an_empty_folder_is_done_at_once(place: Place) -> None:
    place.archive()

    assert place.slept == 0
