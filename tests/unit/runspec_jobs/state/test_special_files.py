"""Files that the user names: a device, a pipe and a link to an open file stay what they are."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import cast

import pytest

from runspec_jobs.logs import save
from runspec_jobs.provider.streams.log_streams import Chunk, Stream
from runspec_jobs.state import atomic_io


def write(path: Path, text: bytes) -> None:
    with atomic_io.write_file(path) as file:
        file.write(text)


def test_a_pipe_gets_the_bytes_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    write(pipe, b"hello")

    assert os.read(reader, 100) == b"hello"
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    os.close(reader)


def test_a_pipe_that_nobody_reads_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(atomic_io, "READER_S", 0.0)

    with pytest.raises(OSError, match="no process reads this pipe"):
        write(tmp_path / "pipe", b"hello")


def test_a_device_stays() -> None:
    write(Path("/dev/null"), b"hello")

    assert stat.S_ISCHR(Path("/dev/null").lstat().st_mode)


@pytest.mark.parametrize("links", [1, 3])
def test_a_link_to_an_open_file_is_written_to_after_what_is_there(
    tmp_path: Path, links: int
) -> None:
    """As with `runspec logs --save /dev/stdout >> file`; the link may be one of several, as /dev/stdout is."""
    link = tmp_path / "stdout"
    with (tmp_path / "file").open("wb", buffering=0) as file:
        file.write(b"before ")
        end = Path(f"/proc/self/fd/{file.fileno()}")
        for number in range(links):
            path = link if number == links - 1 else tmp_path / f"link-{number}"
            path.symlink_to(end)
            end = path

        write(link, b"hello")

    assert link.is_symlink()
    assert (tmp_path / "file").read_bytes() == b"before hello"


@pytest.mark.parametrize("end", ["secret", "/dev/null", "nowhere", "link"])
def test_any_other_link_is_replaced_and_not_followed(tmp_path: Path, end: str) -> None:
    """It may come from a checkout."""
    (tmp_path / "secret").write_text("secret")
    link = tmp_path / "link"
    link.symlink_to(end)

    write(link, b"hello")

    assert not link.is_symlink() and link.read_bytes() == b"hello"
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_file_that_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")

    with (
        contextlib.suppress(KeyboardInterrupt),
        atomic_io.replace_atomically(tmp_path / "a") as file,
    ):
        file.write(b"half")
        raise KeyboardInterrupt

    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "before"


class Log:
    """A stream of a log that has ended."""

    task = rank = 0

    def read(self, position: str | None) -> Chunk:
        return Chunk(b"" if position else b"hello\n", "end")


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_log_is_saved_into_a_pipe_or_an_open_file(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    reader, writer = os.pipe()
    if kind == "pipe":
        os.mkfifo(target)
        reader = os.open(target, os.O_RDONLY | os.O_NONBLOCK)
    else:
        target.symlink_to(f"/proc/self/fd/{writer}")
    copy = save.Copy(cast(Stream, Log()), target)

    copy.advance()
    assert copy.finish(lambda _: None) == 6
    copy.close()

    assert os.read(reader, 100) == b"hello\n"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert not target.is_file() or target.is_symlink()
