"""Where a rehearsal writes, and what becomes of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from runspec_agent.base import file_lock
from runspec_jobs.api import emulation
from runspec_jobs.cli import apply, destroy
from runspec_jobs.cli.app import run
from runspec_jobs.errors import RemoteError, Unavailable, UsageError
from runspec_jobs.load import profile, registry, source as jobs
from runspec_jobs.provider import Status, SupportsProfileTemplate
from runspec_jobs.provider.types import Emulation
from runspec_jobs.spec import validate
from runspec_local.client import LocalClient
from runspec_local.options import LocalOptions
from runspec_local.provider import LocalProvider

Capture = pytest.CaptureFixture[str]


def test_a_folder_that_goes_away_is_said_to() -> None:
    """Somebody may look for the outputs of the job."""
    notes: list[str] = []
    with emulation.make_work_folder(None, notes.append) as folder:
        assert folder.is_dir()

    assert not folder.exists()
    assert "--folder FOLDER keeps them" in notes[0]


def test_a_folder_that_was_named_stays(tmp_path: Path) -> None:
    notes: list[str] = []
    with emulation.make_work_folder(tmp_path / "kept", notes.append) as folder:
        pass

    assert folder.is_dir()
    assert notes == []


def test_a_folder_that_cannot_be_made_is_an_error_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "job.yaml").write_text(
        "apiVersion: runspec/v1\nname: job\nprovider: slurm\ncommand: [echo]\n"
    )

    assert run(["rehearse", "job.yaml", "--folder", "file"]) == Unavailable.exit_code
    assert "cannot write" in capsys.readouterr().err


INTRODUCED = [
    n for n in registry.list_installed() if isinstance(registry.load(n), SupportsProfileTemplate)
]


@pytest.mark.parametrize("name", INTRODUCED)
def test_the_first_profile_of_a_provider_is_right_as_it_stands(name: str) -> None:
    provider = registry.load(name)
    assert isinstance(provider, SupportsProfileTemplate)
    read = jobs.read("p.yaml", provider.first_profile().encode())
    assert read.document is not None, read.diagnostics
    found, problems = profile.read(read.document.value)
    assert found is not None, problems

    settings = found.providers[name]

    assert validate.parse_model(provider.options_model, settings)[1] == []


@pytest.mark.parametrize("name", ["azure-batch", "azure-batch-ai"])
def test_settings_are_checked_before_a_stand_in_starts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the line of the user's own profile."""

    def start(*args: object) -> None:
        raise AssertionError("a stand-in was started")

    provider = registry.load(name)
    monkeypatch.setattr(type(provider), "rehearse", start)
    head = "apiVersion: runspec/v1\nname: job\ncommand: [echo]\n"
    (tmp_path / "job.yaml").write_text(f"{head}provider: {name}\n")
    own = tmp_path / "runspec-profile.yaml"
    own.write_text(f"providers:\n  {name}:\n    container: NAME\n")

    code = run(["rehearse", str(tmp_path / "job.yaml")])

    assert code == UsageError.exit_code
    assert f"{own}:3:" in capsys.readouterr().err


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of a provider whose stand-in is this machine; what a rehearsal sets goes away again."""

    @contextlib.contextmanager
    def rehearse(
        self: LocalProvider, options: Mapping[str, object], folder: Path, engine: str | None
    ) -> Iterator[Emulation]:
        yield Emulation({}, {"engine": "process", **options})

    monkeypatch.setattr(LocalProvider, "rehearse", rehearse, raising=False)
    monkeypatch.setenv("RUNSPEC_PROFILE", "")
    monkeypatch.setenv("RUNSPEC_HOME", os.environ["RUNSPEC_HOME"])
    path = tmp_path / "job.yaml"
    path.write_text("apiVersion: runspec/v1\nname: job\nprovider: local\nrun: echo printed\n")
    return path


@pytest.mark.process
def test_rehearse_keeps_logs_in_its_folder(job: Path, tmp_path: Path) -> None:
    assert run(["rehearse", str(job), "--folder", str(tmp_path / "kept")]) == 0

    assert (tmp_path / "kept" / "logs" / "node-0.log").read_text() == "printed\n"


@pytest.mark.process
def test_a_setting_for_one_job_of_a_rehearsed_chain_changes_that_job(
    job: Path, tmp_path: Path, capsys: Capture
) -> None:
    text = job.read_text().replace("echo printed", "echo $RUNSPEC_RUN ${WORD:-unchanged}")
    chain = tmp_path / "all.yaml"
    chain.write_text(f"{text.replace('job', 'one')}---\n{text.replace('job', 'two')}")

    code = run(["rehearse", str(chain), "--set", "two:env.WORD=changed"])

    said = capsys.readouterr()
    assert code == 0, said.err
    assert sorted(re.findall(r"(one|two)-\w{6} (\w+)", said.out)) == [
        ("one", "unchanged"), ("two", "changed"),
    ]  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize(("verb", "what"), [("fetch", "be kept"), ("destroy", "be deleted")])
def test_a_failure_after_a_successful_rehearsal_is_named(
    job: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    what: str,
    capsys: Capture,
) -> None:
    def fails(*given: object, **named: object) -> None:
        raise RemoteError("the store is gone")

    job.write_text(job.read_text() + "outputs: [{name: out, path: /job/out}]\n")
    monkeypatch.setattr(f"runspec_jobs.cli.rehearse.{verb}.{verb}", fails)

    code = run(["rehearse", str(job), "--folder", str(tmp_path / "kept")])

    told = capsys.readouterr().err
    assert code == RemoteError.exit_code
    assert re.search(f"the job has succeeded, but the rehearsal fails: .* could not {what}\n", told)
    assert told.endswith("the store is gone\n")


@pytest.mark.process
def test_an_interrupted_rehearsal_does_not_say_that_the_job_goes_on(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = LocalClient.state

    def interrupted(self: LocalClient, run: str) -> Status:
        monkeypatch.setattr(LocalClient, "state", state)
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalClient, "state", interrupted)

    assert run(["rehearse", str(job)]) == 130
    told = capsys.readouterr().err
    assert "the job is cancelled and its resources are deleted" in told
    assert "goes on" not in told and "destroyed" in told


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def struck(job: Path, number: signal.Signals, ignored: signal.Signals | None = None) -> int:
    """Rehearse in a process that gets a signal while the job runs; return how it ended."""
    child = os.fork()
    if child == 0:
        try:
            line = f"kill -{int(number)} {os.getpid()}; sleep 60"
            job.write_text(job.read_text().replace("echo printed", line))
            if ignored:
                signal.signal(ignored, signal.SIG_IGN)
            os._exit(run(["rehearse", str(job)]))
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [None, signal.SIGINT])
def test_a_signal_to_end_leaves_nothing(
    job: Path, temporary: Path, number: signal.Signals, ignored: signal.Signals | None
) -> None:
    assert struck(job, number, ignored) == 130

    assert list(temporary.iterdir()) == []


def test_a_signal_at_the_end_of_a_rehearsal_leaves_nothing(
    job: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is removed then in any case."""
    remove = emulation.remove_work_folder

    def remove_late(folder: Path) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        remove(folder)

    monkeypatch.setattr(emulation, "remove_work_folder", remove_late)
    monkeypatch.setattr(apply, "apply", lambda _: 0)
    monkeypatch.setattr(destroy, "destroy", lambda _: 0)

    assert run(["rehearse", str(job)]) == 0

    assert list(temporary.iterdir()) == []


def test_a_signal_during_a_destructor_of_a_rehearsal_is_not_lost(
    job: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No exception leaves a destructor."""

    class Garbage:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    def run_long(_: object) -> int:
        garbage = Garbage()
        del garbage
        time.sleep(10)
        return 0

    monkeypatch.setattr(apply, "apply", run_long)

    assert run(["rehearse", str(job)]) == 130

    assert list(temporary.iterdir()) == []


def test_any_other_error_of_a_destructor_of_a_rehearsal_is_told(
    job: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError

    def run_short(_: object) -> int:
        Broken()
        return 0

    told: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_type))
    monkeypatch.setattr(apply, "apply", run_short)

    run(["rehearse", str(job)])

    assert told == [ValueError]


def test_an_interrupt_when_the_folder_of_a_rehearsal_is_made_leaves_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir

    def make_and_interrupt(path: str, mode: int) -> None:
        make(path, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", make_and_interrupt)

    with pytest.raises(KeyboardInterrupt), emulation.make_work_folder(None, lambda text: None):
        pass

    assert list(temporary.iterdir()) == []


@pytest.mark.process
def test_the_next_rehearsal_removes_what_a_killed_one_left(
    job: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("runspec-rehearsal-of-a-stranger", "another"):
        (temporary / name).mkdir()
    before = set(temporary.iterdir())
    with emulation.make_work_folder(None, lambda text: None) as alive:
        with monkeypatch.context() as patch:  # before the job starts, whose supervisor would go on
            patch.setattr(apply, "apply", lambda _: os.kill(os.getpid(), signal.SIGKILL))
            assert struck(job, signal.SIGKILL) == -signal.SIGKILL
        (dead,) = set(temporary.iterdir()) - {alive} - before
        (dead / "closed" / "file").mkdir(parents=True)
        (dead / "closed").chmod(0)

        with emulation.make_work_folder(None, lambda text: None):
            assert not dead.exists() and alive.exists()

    assert set(temporary.iterdir()) == before


def test_a_link_that_takes_the_place_of_a_dead_folder_is_not_followed(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users can write to the folder for temporary files, too."""
    dead, moved, other = (temporary / n for n in ("runspec-rehearsal-dead", "moved", "other"))
    for folder in (dead / "made", other / "open"):
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    (dead / "lock").touch()

    def replace_and_take(*_: object, **named: object) -> bool:
        if not moved.exists():
            dead.rename(moved)
            dead.symlink_to(other)
        return True

    monkeypatch.setattr(file_lock, "take", replace_and_take)

    with emulation.make_work_folder(None, lambda text: None):
        assert (other / "open").stat().st_mode & 0o777 == 0o755
        assert dead.is_symlink() and list(moved.iterdir()) == []


@pytest.mark.process
def test_a_rehearsal_leaves_the_environment_and_signals_as_they_were(job: Path) -> None:
    """Whoever goes on in this process would be led to stand-ins that are gone."""

    def state() -> object:
        return dict(os.environ), [signal.getsignal(n) for n in signal.valid_signals()]

    before = state()

    assert run(["rehearse", str(job)]) == 0

    assert state() == before


@pytest.mark.process
def test_stand_ins_are_told_the_settings_of_the_pool_as_if_they_were_all_jobs(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a pool is of a real account is then left out where all else of it is; its name stays known."""
    own = tmp_path / "runspec-profile.yaml"
    own.write_text(
        "providers: {local: {grace: 5s, pools: {night: {grace: 7s}, day: {grace: 9s}}}}\n"
    )
    monkeypatch.delenv("RUNSPEC_PROFILE")
    monkeypatch.setattr(LocalOptions, "has_pools", True)
    job.write_text(job.read_text() + "cluster: {capacity: 'pool:night'}\n")

    assert run(["rehearse", str(job), "--folder", str(tmp_path / "kept")]) == 0

    used = (tmp_path / "kept" / "profile.yaml").read_text()
    assert (
        used
        == '{"providers": {"local": {"engine": "process", "grace": "7s", "pools": {"night": {}}}}}'
    )
