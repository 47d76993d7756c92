"""Files that runspec wrote for a run are no part of a mounted folder; only they are replaced without --force."""

from __future__ import annotations

import hashlib
import io
import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from runspec_jobs import api
from runspec_jobs.api import reports
from runspec_jobs.engine.outputs import fetch
from runspec_jobs.errors import Conflict, TimedOut
from runspec_jobs.load.bundle import bundle
from runspec_jobs.logs.save import Copy, is_beginning
from runspec_jobs.provider import OutputFile
from runspec_jobs.provider.streams.log_streams import Chunk, Stream
from runspec_jobs.report.page import frame
from runspec_jobs.state import written_files

RUN = "job-7k2m9p"
LOCAL = """\
apiVersion: runspec/v1
name: job
provider: local
command: [echo, I ran]
"""


class Outputs(NamedTuple):
    """A client of a run with these files."""

    contents: dict[str, bytes]

    def outputs(self, run: str) -> list[OutputFile]:
        return [
            OutputFile(
                "model", 0, 0, name, len(text), partial(io.BytesIO, text), 1,
                hashlib.sha256(text).hexdigest(), f"{run}-{name}",
            )
            for name, text in self.contents.items()
        ]  # fmt: skip


def fetched(
    to: Path,
    run: str = RUN,
    *,
    force: bool = False,
    files: Mapping[str, bytes] | None = None,
    **contents: bytes,
) -> None:
    fetch.fetch(
        Outputs({**contents, **(files or {})}),
        run,
        None,
        None,
        to,
        lambda done, whole: None,
        force=force,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    at = tmp_path / "p"
    at.mkdir()
    (at / "train.py").write_text("print()\n")
    monkeypatch.chdir(at)
    return at


# Mounts


def test_fetched_files_are_no_part_of_a_mount_and_plan_files_says_so(folder: Path) -> None:
    before = bundle(folder, spec="job")

    fetched(folder / RUN, weights=b"w")

    after = bundle(folder, spec="job")
    assert after.digest == before.digest and after.fetched == ()
    assert after.left_out == ((f"{RUN}/model/weights", f"runspec fetch wrote it, of {RUN}"),)


def test_a_moved_or_changed_file_belongs_to_the_user(folder: Path) -> None:
    before = bundle(folder, spec="job").digest
    fetched(folder / RUN, weights=b"w")
    (folder / RUN / "model" / "weights").write_bytes(b"mine")
    assert bundle(folder, spec="job").digest != before
    (folder / RUN / "notes").write_text("mine")
    assert [file.path for file in bundle(folder, spec="job").files] == [
        f"{RUN}/model/weights",
        f"{RUN}/notes",
        "train.py",
    ]


def test_a_fetch_into_the_mounted_folder_itself_makes_no_other_run(folder: Path) -> None:
    before = bundle(folder, spec="job").digest

    fetched(folder, weights=b"w")

    assert bundle(folder, spec="job").digest == before
    assert bundle(folder / "model", spec="next").source.files == 1


@pytest.mark.parametrize("spec", ["next", "job2"])
def test_a_mount_of_a_folder_with_the_outputs_of_another_run_has_them(
    folder: Path, spec: str
) -> None:
    fetched(folder / "pretrained", weights=b"w")

    assert bundle(folder / "pretrained", spec=spec).source.files == 1
    assert bundle(folder / "pretrained", spec="job").source.files == 0


def test_files_fetched_into_a_mounted_folder_get_a_note(folder: Path) -> None:
    text = """
apiVersion: runspec/v1
name: next
provider: local
mounts: [{name: code, source: ., target: /jobq/code}]
command: ['true']
"""
    fetched(folder / "data", weights=b"w")
    Path("job.yaml").write_text(text)
    (note,) = [str(n) for n in api.load("job.yaml").notes if "fetch" in str(n)]
    assert "a file that runspec fetch wrote is left out, such as data/model/weights" in note
    assert "write !/data into .runspecignore" in note

    Path(".runspecignore").write_text("!/data\n")

    assert not [n for n in api.load("job.yaml").notes if "fetch" in str(n)]
    assert "data/model/weights" in [f.path for f in bundle(folder, spec="next").files]


@pytest.mark.parametrize("name", ["model.pem", ".env"])
def test_a_fetched_file_that_looks_like_a_secret_stops_no_upload(folder: Path, name: str) -> None:
    fetched(folder / RUN, files={name: b"w"})

    assert bundle(folder, spec="job").source.files == 1


def test_a_saved_log_and_a_page_are_no_part_of_a_mount(folder: Path) -> None:
    before = bundle(folder, spec="job").digest
    (folder / "job.log").write_text("a line\n")
    written_files.note(folder, "logs", RUN, [folder / "job.log"])
    reports.write_page(folder / "job.html", lambda: "page", RUN)

    assert bundle(folder, spec="other").digest == before


def test_a_link_to_the_folder_and_a_lost_state_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bundle(folder, spec="job").digest
    (tmp_path / "link").symlink_to(folder)
    fetched(tmp_path / "link" / RUN, weights=b"w")
    assert bundle(folder, spec="job").digest == before == bundle(tmp_path / "link").digest

    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "empty"))

    assert bundle(folder, spec="job").digest != before
    fetched(folder / RUN, weights=b"w")  # equal files are free


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "runspec.written/v9"}', "[" * 9999])
def test_a_damaged_record_makes_the_files_the_users(folder: Path, text: str) -> None:
    fetched(folder / RUN, weights=b"w")
    (record,) = (Path(os.environ["RUNSPEC_HOME"]) / "written").glob("*.json")
    record.write_text(text)

    assert bundle(folder, spec="job").source.files == 2
    with pytest.raises(Conflict):
        fetched(folder / RUN, weights=b"other")


# Overwriting


def test_fetch_replaces_no_file_of_the_user_and_writes_nothing_then(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model" / "b").write_text("mine")

    with pytest.raises(Conflict, match=r"'.*/model/b' exists and has other content") as caught:
        fetched(folder, a=b"a", b=b"b")

    assert "--force" in str(caught.value.hint) and not (folder / "model" / "a").exists()
    assert (folder / "model" / "b").read_text() == "mine"
    fetched(folder, force=True, a=b"a", b=b"b")
    assert (folder / "model" / "b").read_text() == "b"


def test_fetch_replaces_what_it_has_fetched_of_the_same_run(folder: Path) -> None:
    fetched(folder / "out", a=b"a")
    fetched(folder / "out", a=b"newer")
    assert (folder / "out/model/a").read_bytes() == b"newer"

    with pytest.raises(Conflict):
        fetched(folder / "out", "job-another", a=b"of another run")
    (folder / "out/model/a").write_bytes(b"mine")
    with pytest.raises(Conflict):
        fetched(folder / "out", a=b"newest")


def test_a_link_of_the_user_is_no_file_to_replace(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model" / "a").symlink_to("../train.py")

    with pytest.raises(Conflict):
        fetched(folder, a=b"a")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/null", path)])
def test_pipes_and_links_to_devices_are_left_to_the_writer(
    folder: Path, make: Callable[[Path], None]
) -> None:
    make(folder / "x")

    written_files.demand_free({folder / "x": ""}, "logs", RUN, force=False, way_out="")


def test_a_page_that_was_edited_is_not_replaced_without_force(folder: Path) -> None:
    page = folder / "page.html"
    reports.write_page(page, lambda: f"{frame.HEAD} one", RUN)
    reports.write_page(page, lambda: f"{frame.HEAD} two", "other-run")
    page.write_text(page.read_text() + "<!-- mine -->")

    with pytest.raises(Conflict, match="exists and has other content"):
        reports.write_page(page, lambda: "new", RUN)

    assert page.read_text() == f"{frame.HEAD} two<!-- mine -->"
    reports.write_page(page, lambda: "new", RUN, force=True)
    assert page.read_text() == "new"


def test_a_page_of_runspec_is_replaced_and_one_of_the_user_is_not(folder: Path) -> None:
    page = folder / "page.html"
    page.write_text("<!doctype html>\n<html>mine</html>\n")
    with pytest.raises(Conflict, match="exists and has other content"):
        reports.write_page(page, lambda: "new", RUN)
    assert "mine" in page.read_text()
    reports.write_page(page, lambda: f"{frame.HEAD} one", RUN, force=True)
    (Path(os.environ["RUNSPEC_HOME"]) / "written").rename(folder / "lost")
    page.write_text(page.read_text() + "<!-- touched -->")

    reports.write_page(page, lambda: f"{frame.HEAD} two", "other-7k2m9p")

    assert page.read_text().endswith("two")


class Log:
    rank = task = 0

    def __init__(self, text: bytes) -> None:
        self.text = text

    def read(self, position: str | None) -> Chunk:
        at = int(position or 0)
        data = self.text[at : at + 4]
        return Chunk(data, str(at + len(data)))


@pytest.mark.parametrize(
    ("there", "is_older"),
    [(b"", True), (b"0123", True), (b"01234", True), (b"0123456789", True),
     (b"0123456789a", False), (b"x", False), (b"0123x", False)],
)  # fmt: skip
def test_an_older_copy_of_a_log_is_known_by_its_content(
    folder: Path, there: bytes, is_older: bool
) -> None:
    (folder / "log").write_bytes(there)

    stream: Stream = Log(b"0123456789")
    assert is_beginning(folder / "log", stream) is is_older


class Links:
    """A client of a run whose output is a link."""

    def outputs(self, run: str) -> list[OutputFile]:
        return [
            OutputFile("model", 0, 0, "a/latest", 0, io.BytesIO, kind="link", target="/step-20")
        ]


def test_a_fetched_link_is_no_part_of_a_mount_and_an_equal_one_is_free(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bundle(folder, spec="job").digest
    fetch.fetch(Links(), RUN, None, None, folder / RUN, lambda done, whole: None)
    assert os.readlink(folder / RUN / "model/a/latest") == "../step-20"
    (folder / RUN / "model/step-20").mkdir()
    assert bundle(folder, spec="job").digest == before

    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "empty"))

    fetch.fetch(Links(), RUN, None, None, folder / RUN, lambda done, whole: None)
    (folder / RUN / "model/a/latest").unlink()
    (folder / RUN / "model/a/latest").symlink_to("../mine")
    with pytest.raises(Conflict):
        fetch.fetch(Links(), RUN, None, None, folder / RUN, lambda done, whole: None)


# Commands that were killed, and folders that were moved

TIME_NS = 1_700_000_000_000_000_000
FATAL = "b/fatal"


class Timed(Outputs):
    """Their files have times. Whoever reads the file `b/fatal`, which has none, is killed."""

    def outputs(self, run: str) -> list[OutputFile]:
        return [
            file._replace(open=Fatal) if file.path == FATAL else file._replace(mtime_ns=TIME_NS)
            for file in super().outputs(run)
        ]


class Fatal(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""


def timed(to: Path, contents: dict[str, bytes], run: str = RUN) -> None:
    fetch.fetch(Timed(contents), run, None, None, to, lambda done, whole: None)


@pytest.fixture
def half_fetched(folder: Path) -> Path:
    """A folder with the file `a` and a part of `b/fatal`, whose `fetch` was killed."""
    pid = os.fork()
    if pid == 0:
        timed(folder / "out", {"a": b"first", FATAL: b""})
        os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    return folder / "out" / "model"


def parts(at: Path) -> list[Path]:
    return list(at.rglob(".rs-*.part"))


@pytest.mark.process
@pytest.mark.parametrize("run", [RUN, "another-run"])
def test_the_next_fetch_into_a_folder_removes_what_a_killed_one_left_and_nothing_else(
    half_fetched: Path, run: str
) -> None:
    stranger = half_fetched / ".rs-0123456789abcdef-0123456789abcdef.part"
    stranger.touch()
    assert len(parts(half_fetched)) == 2

    timed(half_fetched.parent, {"c": b""}, run)

    assert parts(half_fetched) == [stranger]
    timed(half_fetched.parent, {"a": b"other", "d": b""})  # a save that is newer
    assert (half_fetched / "a").read_bytes() == b"other"


@pytest.mark.process
def test_files_of_a_killed_fetch_are_not_uploaded_until_changed(
    folder: Path, half_fetched: Path
) -> None:
    for part in parts(half_fetched):
        part.unlink()
    assert [file.path for file in bundle(folder, spec="job").files] == ["train.py"]
    timed(half_fetched.parent, {"c": b""})
    assert [file.path for file in bundle(folder, spec="job").files] == ["train.py"]

    (half_fetched / "a").write_text("mine")

    with pytest.raises(Conflict, match="a' exists and has other content"):
        timed(half_fetched.parent, {"a": b"other"})


@pytest.mark.process
def test_only_folders_that_a_killed_command_wrote_to_are_searched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder may be large, and others wait meanwhile. Nobody knows the times of the files of older saves."""
    (folder / "a").mkdir()
    (folder / "large").mkdir()
    pid = os.fork()
    if pid == 0:
        with written_files.record_writing(folder, "fetch", RUN, {}, [folder / "a" / "x"]) as begins:
            (folder / "a" / f"{begins}1.part").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert len(parts(folder / "a")) == 1
    searched = []

    def searching(function: Callable[[str], object]) -> Callable[[str], object]:
        def search(at: str) -> object:
            searched.append(str(at))
            return function(at)

        return search

    with monkeypatch.context() as patch:
        for function in (os.listdir, os.scandir):
            patch.setattr(os, function.__name__, searching(function))
        with written_files.record_writing(folder, "logs", RUN, {}):
            pass

    assert parts(folder / "a") == []
    assert [at for at in searched if Path(at).is_relative_to(folder)] == [str(folder / "a")]


def test_a_fetch_leaves_what_a_running_one_writes(folder: Path) -> None:
    with written_files.record_writing(folder, "fetch", RUN, {}) as begins:
        part = folder / f"{begins}1.part"
        part.touch()

        with written_files.record_writing(folder, "fetch", RUN, {}):
            pass

        assert part.exists()


def test_files_of_a_folder_that_was_moved_are_still_known(folder: Path) -> None:
    before = bundle(folder, spec="job").digest
    fetched(folder / "out", a=b"1")
    (folder / "out").rename(folder / "elsewhere")

    assert bundle(folder, spec="job").digest == before
    fetched(folder / "elsewhere", a=b"2", b=b"3")
    assert bundle(folder, spec="job").digest == before

    (folder / "elsewhere" / "model" / "a").write_text("mine")
    assert bundle(folder, spec="job").digest != before


@pytest.mark.process
def test_logs_write_over_no_file_of_the_user_and_go_on_with_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "job.yaml").write_text(LOCAL)
    run = api.apply(api.load(folder / "job.yaml"))
    run.wait()
    unfinished = folder / "log.partial"
    unfinished.write_text("mine")

    with pytest.raises(Conflict, match=r"log.partial' exists and has other content"):
        run.save_logs(folder / "log")
    assert unfinished.read_text() == "mine"

    unfinished.unlink()
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(Copy, "finish", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        run.save_logs(folder / "log")
        os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert unfinished.exists()
    assert [file.path for file in bundle(folder).files] == ["job.yaml", "train.py"]
    for error in (KeyboardInterrupt(), TimedOut("the logs are not complete")):
        with monkeypatch.context() as patch:
            patch.setattr(Copy, "finish", raising(error))
            with pytest.raises(type(error)):
                run.save_logs(folder / "log")
        assert [file.path for file in bundle(folder).files] == ["job.yaml", "train.py"]
    run.save_logs(folder / "log")
    assert not unfinished.exists() and (folder / "log").read_text() == "I ran\n"

    unfinished.write_text("I ra")  # as a version without records left it
    unfinished.with_name("log.cursor").write_text('{"position": "4", "size": 4}')
    run.save_logs(folder / "log")
    assert not unfinished.exists() and (folder / "log").read_text() == "I ran\n"


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_file_that_is_continued_stays_on_record_until_it_is_gone(folder: Path) -> None:
    """Also while the same command writes another file, or another run has taken the file over."""
    part, status = folder / "a.partial", (written_files.ANY, 0)

    def write(run: str, *paths: Path) -> None:
        with written_files.record_writing(folder, "logs", run, dict.fromkeys(paths, status)):
            part.touch()

    def demand(run: str) -> None:
        written_files.demand_free({part: ""}, "logs", run, force=False, way_out="")

    write(RUN, part)
    write(RUN, folder / "b.partial")
    demand(RUN)
    with pytest.raises(Conflict):
        demand("job-another")
    write("job-another", part)
    demand("job-another")
    part.unlink()
    with written_files.record_writing(folder, "logs", RUN, {}):
        pass
    part.touch()

    with pytest.raises(Conflict):
        demand(RUN)
