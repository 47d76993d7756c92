"""What is left to do until saved files have plain names, and who does it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli import output
from runspec_jobs.cli.app import run
from runspec_jobs.engine.outputs import publish
from runspec_jobs.errors import RemoteError
from runspec_jobs.provider import State, Status
from runspec_jobs.provider.saved_outputs import (
    Copy,
    Publication,
    find_unpublished,
    publish as finish_publishing,
)
from runspec_jobs.state import run_record
from runspec_local.client import LocalClient

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\nproviders: {local: {engine: process}}\n"
FOLDER = "p/model/0/0"
MANIFEST, NOTE = f"{FOLDER}/.runspec/manifest.json", f"{FOLDER}/.runspec/published"


def saved(number: int, *paths: str) -> Mapping[str, Any]:
    files = [
        {"path": path, "size": 3, "mtime_ns": 1, "sha256": "5a", "object": f"o-{path[-1:]}"}
        for path in paths
    ]
    return {"number": number, "at": 1, "files": files}


def manifest(*saves: Mapping[str, Any]) -> bytes:
    return json.dumps({"format": "runspec.outputs/v2", "saves": saves}).encode()


def note(save: int, *files: str) -> bytes:
    return json.dumps({"save": save, "files": files}).encode()


def left(store: Mapping[str, bytes]) -> list[Publication]:
    def read(keys: Sequence[str]) -> list[bytes | None]:
        return [store[key] for key in keys]

    return find_unpublished("p/", store, read)


def test_the_newest_save_is_copied_and_what_it_lacks_is_deleted() -> None:
    store = {MANIFEST: manifest(saved(3, "old"), saved(4, "a", "d/b")), NOTE: note(3, "a", "gone")}

    (found,) = left(store)

    objects = f"{FOLDER}/.runspec/objects"
    assert found.copies == (
        Copy(f"{objects}/o-a", f"{FOLDER}/a", 3),
        Copy(f"{objects}/o-b", f"{FOLDER}/d/b", 3),
    )
    assert (found.stale, found.key) == ((f"{FOLDER}/gone",), NOTE)
    assert json.loads(found.note()) == {"save": 4, "files": ["a", "d/b"]}


def test_published_outputs_are_not_published_again() -> None:
    store = {MANIFEST: manifest(saved(4, "a")), NOTE: note(4, "a")}
    assert left(store) == []


def test_a_save_without_files_takes_away_those_of_the_one_before() -> None:
    (found,) = left({MANIFEST: manifest(saved(1, "a"), saved(2)), NOTE: note(1, "a")})

    assert (found.copies, found.stale) == ((), (f"{FOLDER}/a",))


def test_a_manifest_that_a_program_wrote_is_a_file_like_others() -> None:
    inner = f"{FOLDER}/deep/.runspec/manifest.json"
    assert left({MANIFEST: manifest(saved(1, "a")), NOTE: note(1, "a"), inner: b"{}"}) == []


def test_a_name_that_the_store_cannot_have_is_not_in_the_note() -> None:
    (found,) = left({MANIFEST: manifest(saved(1, "a", "b"))})

    assert json.loads(found.note([f"{FOLDER}/b"]))["files"] == ["a"]


class Limited(dict[str, bytes]):
    """A store that can have no object whose key ends with "b", and notes the order of what is asked of it."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        super().__init__(objects)
        self.asked: list[str] = []

    def holds(self, key: str) -> bool:
        return not key.endswith("b")

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def put(self, key: str, content: bytes) -> None:
        self.asked.append(f"put {json.loads(content)['save']}")
        self[key] = content

    def remove_all(self, keys: Sequence[str], folder: str) -> None:
        self.asked.append(f"remove {[key.removeprefix(folder) for key in keys]}")

    def copy_all(self, copies: Sequence[Copy], folder: str) -> None:
        self.asked.append(f"copy {[copy.target.removeprefix(folder) for copy in copies]}")


def test_the_note_comes_last_and_keys_that_the_store_cannot_have_are_left_out() -> None:
    before = note(3, "a", "gone", "gone-b")
    store = Limited({MANIFEST: manifest(saved(4, "a", "b")), NOTE: before})

    assert finish_publishing(store, "p/", list(store)) == ["model/0/0/b"]
    assert store.asked == ["put 0", "remove ['/gone']", "copy ['/a']", "put 4"]
    assert json.loads(store[NOTE]) == {"save": 4, "files": ["a"]}
    assert finish_publishing(store, "p/", list(store)) == []


def test_a_store_is_asked_neither_to_remove_nor_to_copy_nothing() -> None:
    store = Limited({MANIFEST: manifest(saved(2)), NOTE: note(1)})

    assert finish_publishing(store, "p/", list(store)) == []
    assert store.asked == ["put 0", "put 2"]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/x",
        "../x",
        "a/../../x",
        "",
        "a//b",
        "./a",
        ".runspec/published",
        ".runspec",
        "a\0",
        "\ud800",
    ],
)
@pytest.mark.parametrize("where", ["manifest", "note"])
def test_a_path_that_would_leave_its_output_is_refused(path: str, where: str) -> None:
    of_save, of_note = ("a", path) if where == "note" else (path, "a")
    with pytest.raises(RemoteError, match=r"would leave its output|is not a list of files"):
        left({MANIFEST: manifest(saved(2, of_save)), NOTE: note(1, of_note)})


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"save": 1}', b"\xff"])
def test_a_note_that_is_none_is_an_error_in_words(text: bytes) -> None:
    with pytest.raises(RemoteError, match="is not a list of published files"):
        left({MANIFEST: manifest(saved(2, "a")), NOTE: text})


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run_record.Record:
    """Return a run of this machine that has failed, and whose note was lost."""
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "job.yaml"
    output = "outputs: [{name: model, path: /job/model}]\n"
    spec.write_text(HEAD + output + 'run: echo a >"${outputs.model}/a"; exit 7\n')
    with monkeypatch.context() as patch:
        patch.setattr(LocalClient, "publish", lambda self, run: ["not now"])
        assert run(["apply", str(spec)]) == 1
    (found,) = run_record.list_runs("job")
    return found


@pytest.mark.process
def test_apply_says_what_has_no_plain_name_and_fails_as_the_job_did(
    ended: run_record.Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LocalClient, "publish", lambda self, run: ["not now"])

    assert run(["apply", "--new", "job.yaml"]) == 1
    assert (
        ": outputs are saved, but not under their plain names yet: not now"
        in capsys.readouterr().err
    )


@pytest.mark.process
@pytest.mark.parametrize("state", [State.RUNNING, State.WAITING, State.GONE])
def test_a_run_that_goes_on_or_is_gone_is_never_published(
    ended: run_record.Record, monkeypatch: pytest.MonkeyPatch, state: State
) -> None:
    called: list[str] = []
    memory = ended.read_memory()
    memory.status = None
    monkeypatch.setattr(run_record.Record, "read_memory", lambda self: memory)
    monkeypatch.setattr(LocalClient, "state", lambda self, run: Status(state))
    monkeypatch.setattr(LocalClient, "publish", lambda self, run: called.append(run))

    publish.finish(ended, LocalClient.__new__(LocalClient), output.tell)

    assert called == []


@pytest.mark.process
def test_fetch_publishes_a_run_that_has_ended_and_is_not_failed_by_it(
    ended: run_record.Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(self: LocalClient, name: str) -> list[str]:
        raise RemoteError(f"no rights for {name}")

    monkeypatch.setattr(LocalClient, "publish", refuses)

    assert run(["fetch", ended.run]) == 0
    assert f"not under their plain names yet: no rights for {ended.run}" in capsys.readouterr().err
