"""Files of the workspace are whole or not there, whatever happens on the way, and nobody else's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider import NoAnswer, RemoteError, Unavailable
from runspec_slurm import doctor, timing
from runspec_slurm.options import SlurmOptions
from runspec_slurm.session.process import Done
from runspec_slurm.session.transport import Here
from runspec_slurm.store.workspace import Entry, WorkspaceStore

pytestmark = pytest.mark.process


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "workspace"


@pytest.fixture
def store(root: Path) -> WorkspaceStore:
    return WorkspaceStore(Here(), str(root))


class Broken(Here):
    """A way on which commands go wrong: *strike* says what becomes of one."""

    near = False

    def __init__(self, done: Done | None = None, cut: int | None = None) -> None:
        self.done, self.cut = done, cut

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = timing.DEFAULT.command_s,
    ) -> Done:
        if self.done is not None:
            return self.done
        if content is not None and self.cut is not None:
            content = [b"".join(content)[: self.cut]]
        return super().run(script, args, content, timeout_s)


@pytest.mark.parametrize("name", ["a%j", "50%", "back\\slash"])
def test_a_home_that_slurm_takes_for_a_pattern_is_refused_in_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm would look for the logs of jobs elsewhere, and each job would fail."""
    home = tmp_path / name
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))

    with pytest.raises(RemoteError, match="Slurm takes % and") as refused:
        WorkspaceStore(Here(), "~/.runspec").put("runs/a-1/record.json", b"{}")

    assert str(home) in refused.value.message
    assert refused.value.hint == "set option workspace in the profile to a folder of plain names"
    (finding,) = doctor.examine_workspace(Here(), SlurmOptions())
    assert not finding.ok and "which Slurm takes for a pattern" in finding.what


@pytest.mark.parametrize("name", ["with space", "it's", 'quo"te', "dollar$HOME", "\u00e9", "-x"])
def test_a_home_of_another_odd_name_is_used(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / name
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    store = WorkspaceStore(Here(), "~/.runspec")

    store.put("runs/a-1/record.json", b"{}")

    assert store.read("runs", "a-1", "record.json") == b"{}"
    assert (home / ".runspec/runs/a-1/record.json").exists()


def test_put_files_are_read_back_and_private(store: WorkspaceStore, root: Path) -> None:
    store.put("runs/a-1/record.json", b"\0 {}\n'", beside="runs/a-1/logs")

    assert store.read("runs", "a-1", "record.json") == b"\0 {}\n'"
    assert (root / "runs/a-1/logs").is_dir()
    modes = {p.stat().st_mode & 0o777 for p in root.rglob("*") if p.is_file()}
    folders = {p.stat().st_mode & 0o777 for p in (root, *root.rglob("*")) if p.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})


def test_nothing_of_a_secret_is_told_by_the_words_of_a_command(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is on the host sees those words; a digest among them says when a guess is right."""
    told = list[str]()
    run = Here.run

    def heard(way: Here, script: str, args: Sequence[str] = (), *more: Any) -> Done:
        told.extend((script, *args))
        return run(way, script, args, *more)

    monkeypatch.setattr(Here, "run", heard)

    WorkspaceStore(Here(), str(root)).put("runs/a-1/secrets", b"PIN=1234\0")

    assert (root / "runs/a-1/secrets").read_bytes() == b"PIN=1234\0"
    assert hashlib.sha256(b"PIN=1234\0").hexdigest() not in " ".join(told)


def test_only_the_home_folder_is_written_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    WorkspaceStore(Here(), "~/.runspec").put("inside/a", b"x")
    WorkspaceStore(Here(), str(tmp_path / "$HOME")).put("inside/a", b"y")

    assert (tmp_path / ".runspec/inside/a").read_bytes() == b"x"
    assert (tmp_path / "$HOME/inside/a").read_bytes() == b"y"


def test_reading_a_missing_workspace_makes_nothing(store: WorkspaceStore, root: Path) -> None:
    assert store.read("runs", "a") is None
    assert store.size("inside/a") is None
    assert store.listing("blobs") == []
    assert store.folders("runs") == []

    assert not root.exists()


def test_an_incomplete_upload_gets_no_name(root: Path) -> None:
    store = WorkspaceStore(Broken(cut=3), str(root))

    with pytest.raises(RemoteError, match="arrived incomplete") as told:
        store.put("inside/a", b"whole")

    assert told.value.transient
    assert [path for path in root.rglob("*") if path.is_file()] == []


def test_a_folder_that_arrives_otherwise_gets_no_name(tmp_path: Path, root: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/hello").write_text("hello")
    store = WorkspaceStore(Broken(cut=700), str(root))

    with pytest.raises(RemoteError, match="arrived incomplete"):
        store.put_folder("blobs/a.tar", bundle(tmp_path / "code"), lambda done, whole: None)

    assert [path for path in root.rglob("*") if path.is_file()] == []


def test_a_folder_is_one_tar(store: WorkspaceStore, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/hello").write_text("hello")
    told: list[tuple[int, int]] = []

    store.put_folder("blobs/a.tar", bundle(tmp_path / "code"), lambda *both: told.append(both))

    found = store.read("blobs", "a.tar") or b""
    assert found[:5] == b"hello"
    assert found[512:517] == b"hello"
    assert told[-1] == (5, 5)
    assert store.listing("blobs") == [Entry("blobs/a.tar", len(found))]


def test_a_claim_is_had_by_whoever_was_first(store: WorkspaceStore) -> None:
    store.put("runs/a/record.json", b"{}")

    assert store.put_new("12", "runs", "a", "claim") == "12"
    assert store.put_new("13", "runs", "a", "claim") == "12"
    assert store.folders("runs/a") == ["claim", "record.json"]


@pytest.mark.parametrize("cut", [0, 1])
def test_an_incomplete_claim_is_discarded(root: Path, cut: int) -> None:
    """A caller that is killed while it writes leaves such a claim."""
    WorkspaceStore(Here(), str(root)).put("runs/a/record.json", b"{}")

    with pytest.raises(RemoteError, match="incomplete") as told:
        WorkspaceStore(Broken(cut=cut), str(root)).put_new("12", "runs", "a", "claim")

    assert told.value.transient
    assert [path.name for path in (root / "runs/a").iterdir()] == ["record.json"]


def test_a_deleted_run_cannot_be_claimed(store: WorkspaceStore, root: Path) -> None:
    store.put("inside/a", b"")

    assert store.put_new("12", "runs", "a", "claim") is None
    assert not (root / "runs").exists()


def test_parts_of_many_files_come_by_one_command(store: WorkspaceStore) -> None:
    store.put("runs/a/logs/0-0.txt", b"0123456789")
    store.put("runs/a/logs/1-0.txt", b"abc\n\0def")

    found = store.parts([("runs/a/logs/0-0.txt", 2, 3), ("runs/a/logs/1-0.txt", 0, 8)])

    assert found == [b"234", b"abc\n\0def"]
    assert store.part("runs/a/logs/0-0.txt", 8, 100) == b"89"
    assert store.part("runs/a/logs/2-0.txt", 0, 1) is None


def test_parts_that_are_not_all_there_are_none(store: WorkspaceStore) -> None:
    """Else bytes of one file would be taken for those of another."""
    store.put("runs/a/logs/0-0.txt", b"0123")

    assert store.parts([("runs/a/logs/0-0.txt", 2, 3), ("runs/a/logs/0-0.txt", 0, 1)]) is None


def test_a_run_goes_at_once_and_twice_is_no_mistake(store: WorkspaceStore, root: Path) -> None:
    store.put("runs/a/record.json", b"{}")
    store.put("runs/b/record.json", b"{}")

    store.remove_tree("runs", "a")
    store.remove_tree("runs", "a")

    assert store.folders("runs") == ["b"]
    assert list((root / "trash").iterdir()) == []


def test_removing_a_missing_file_succeeds(store: WorkspaceStore) -> None:
    store.put("inside/a", b"")

    store.remove("inside/a")
    store.remove("inside/a")

    assert store.size("inside/a") is None


def test_a_key_never_leads_out_of_the_workspace(store: WorkspaceStore) -> None:
    for key in ("../a", "runs/../../a", "/etc/passwd", "a\nb", ""):
        with pytest.raises(AssertionError, match="is not a key"):
            store.read(key)


def test_a_workspace_that_cannot_be_made_is_told_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RemoteError, match="cannot be used") as told:
        WorkspaceStore(Here(), str(tmp_path / "file/workspace")).put("inside/a", b"")

    assert "workspace" in (told.value.hint or "")


def test_a_lost_connection_is_no_answer(root: Path) -> None:
    store = WorkspaceStore(Broken(Done(255, b"", "Connection reset by peer", lost=True)), str(root))

    with pytest.raises(NoAnswer, match="Connection reset"):
        store.put("inside/a", b"")
    with pytest.raises(NoAnswer, match="Connection reset"):
        store.read("inside", "a")


def test_a_refused_connection_is_transient(root: Path) -> None:
    class Away(Here):
        near = False

        def run(self, *args: object, **more: object) -> Done:
            raise Unavailable("login: Connection refused", "check that the host is up")

    store = WorkspaceStore(Away(), str(root))

    with pytest.raises(RemoteError) as told:
        store.put("inside/a", b"")
    assert told.value.transient
    with pytest.raises(Unavailable):
        store.read("inside", "a")


def test_a_full_file_system_is_reported_with_a_hint(root: Path) -> None:
    full = Broken(Done(1, b"", "cat: write error: No space left on device"))

    with pytest.raises(RemoteError, match="No space left") as told:
        WorkspaceStore(full, str(root)).put("inside/a", b"")

    assert "free some space" in (told.value.hint or "")
