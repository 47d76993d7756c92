"""What a job has saved reaches a job of another store whole, straight from one store to the other."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.store.folder import FolderBucket
from runspec_agent.store.manifest import parsed
from runspec_agent.transfer import inputs
from runspec_agent.transfer.output_saver import Saver
from runspec_jobs.engine.outputs.layout import Layout
from runspec_jobs.engine.outputs.run_inputs import compute_digest
from runspec_jobs.engine.outputs.saves_bundle import SavesBundle
from runspec_jobs.errors import Conflict, UsageError
from runspec_jobs.provider import OutputFile
from runspec_jobs.provider.job_manifest import blob_name
from runspec_jobs.provider.saved_outputs import read_saved_outputs
from runspec_jobs.provider.streams.tar_stream import tar_blocks

HOURS_NS = 1_700_000_000_123_456_789
ODD = ["-rf", "a b", "caf\udce9", "line\nbreak", "日本", "*", ".gitignore", "back\\slash"]
MOUNT = {"name": "in", "run": "prepare-abc234", "task": 0, "target": "/in"}


def write(folder: Path) -> None:
    """Write all that an output can have."""
    (folder / "deep/empty").mkdir(parents=True)
    for name in ODD:
        (folder / "deep" / name).write_text(f"of {name!r}")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "big").write_bytes(os.urandom(9 << 20))
    (folder / "secret").write_text("x")
    (folder / "run.sh").chmod(0o750)
    (folder / "secret").chmod(0o600)
    (folder / "latest").symlink_to("deep")
    (folder / "to-file").symlink_to("run.sh")
    (folder / "nowhere").symlink_to("deep/none")
    os.utime(folder / "secret", ns=(HOURS_NS, HOURS_NS))
    os.utime(folder / "deep/empty", ns=(HOURS_NS, HOURS_NS))


def describe(folder: Path) -> dict[str, object]:
    """Return all that is known of what is in *folder*, by path."""
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        one = path.lstat()
        mode = stat.S_IMODE(one.st_mode)
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_dir():
            found[name] = (mode, one.st_mtime_ns)
        else:
            found[name] = (mode, one.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def store(folder: Path) -> FolderBucket:
    return FolderBucket({"RUNSPEC_STORE": f"file://{folder}"})


def save(bucket: FolderBucket, folder: Path, task: int = 0) -> None:
    saver = Saver(bucket)
    saver.add("data", str(folder), f"runs/r/outputs/data/{task}/0/", None, restoring=False)
    saver.finish()


def saved(folder: Path) -> list[OutputFile]:
    """Return the files in a store, as a client lists them."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    keys = [(str(path.relative_to(folder)), path.stat().st_size) for path in paths]

    def opened(key: str, start: int, end: int | None) -> BinaryIO:
        return io.BytesIO((folder / key).read_bytes()[start:end])

    return read_saved_outputs("runs/r/outputs/", keys, opened)


def upload(bundle: SavesBundle, bucket: FolderBucket) -> str:
    key = f"blobs/{blob_name(bundle.source)}"
    bucket.put(key, b"".join(tar_blocks(bundle, lambda done, whole: None)))
    return key


def by_part(file: OutputFile) -> str:
    return f"{file.task}/{file.rank}"


def test_a_copy_has_links_modes_times_empty_folders_and_odd_names(tmp_path: Path) -> None:
    made, there = tmp_path / "made", tmp_path / "there"
    write(made)
    save(store(tmp_path / "one"), made)

    key = upload(SavesBundle.of(saved(tmp_path / "one"), by_part), store(tmp_path / "two"))
    mount = {**MOUNT, "kind": "saves", "key": "", "from": key}
    inputs.get(store(tmp_path / "two"), mount, str(there))

    assert describe(there) == describe(made)


@pytest.mark.parametrize("path", [".runspec", ".runspec/deep/x"])
def test_a_copy_lists_what_has_our_name_as_lost(tmp_path: Path, path: str) -> None:
    """It is in outputs that were saved as a tar; a manifest that lists it as a file could not be read."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made/a").write_text("1")
    save(store(tmp_path / "one"), tmp_path / "made")
    (file,) = saved(tmp_path / "one")

    bundle = SavesBundle.of([file, file._replace(path=path)], by_part)

    (text,) = bundle.small.values()
    made = parsed(text, "the manifest")
    assert made.shape.lost == {path: "runspec itself uses this name"}
    assert [*made.files] == ["a"]


def test_a_task_that_has_saved_nothing_has_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/a").write_text("1")
    bucket = store(tmp_path / "one")
    save(bucket, tmp_path / "made", task=1)
    (tmp_path / "empty").mkdir()
    save(bucket, tmp_path / "empty", task=2)
    save(bucket, tmp_path / "empty", task=3)
    mount = {**MOUNT, "kind": "saves", "key": "runs/r/outputs/data/", "tasks": 3}

    inputs.get(bucket, mount, str(tmp_path / "in"))

    assert sorted(describe(tmp_path / "in")) == ["task-0", "task-1", "task-1/a", "task-2"]
    with pytest.raises(Failure, match="prepare-abc234 has saved nothing in this output"):
        inputs.get(bucket, {**mount, "key": "runs/other/"}, str(tmp_path / "none"))
    one = {"kind": "saves", "key": mount["key"], "task": 3}
    with pytest.raises(Failure, match="prepare-abc234 has saved nothing in this output"):
        inputs.get(bucket, {**MOUNT, **one}, str(tmp_path / "empty-too"))


def test_a_copy_that_differs_from_what_was_saved_is_not_uploaded(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/a").write_text("1")
    save(store(tmp_path / "one"), tmp_path / "made")
    bundle = SavesBundle.of(saved(tmp_path / "one"), by_part)
    (changed,) = (tmp_path / "one").rglob("objects/*")
    changed.chmod(0o600)
    changed.write_text("2")

    with pytest.raises(Conflict, match="differs from what was saved"):
        upload(bundle, store(tmp_path / "two"))


def test_a_job_without_an_agent_gets_plain_files(tmp_path: Path) -> None:
    made = tmp_path / "made"
    write(made)
    (made / "latest").unlink()
    (made / "nowhere").unlink()
    save(store(tmp_path / "one"), made)
    key = upload(
        SavesBundle.laid_out(saved(tmp_path / "one"), Layout(several_tasks=True)),
        store(tmp_path / "two"),
    )

    inputs.get(store(tmp_path / "two"), {"kind": "tar", "key": key}, str(tmp_path / "in"))

    there = tmp_path / "in/task-0"
    assert (there / "to-file").read_text() == "#!/bin/sh\n"
    assert stat.S_IMODE((there / "run.sh").stat().st_mode) == 0o750
    assert {path.name for path in (there / "deep").iterdir()} == set(ODD)


def test_a_link_to_a_folder_is_refused_for_a_job_without_an_agent(tmp_path: Path) -> None:
    write(tmp_path / "made")
    save(store(tmp_path / "one"), tmp_path / "made")

    with pytest.raises(UsageError, match="latest is a link to a folder, or to nothing"):
        SavesBundle.laid_out(saved(tmp_path / "one"), Layout())


def test_the_digest_of_an_output_has_its_modes_and_not_its_times() -> None:
    file = OutputFile("data", 0, 0, "a", 1, partial(io.BytesIO, b"1"), 1, "f" * 64, mode=0o644)

    assert compute_digest([file]) == compute_digest([file._replace(mtime_ns=5, save=3)])
    assert compute_digest([file]) != compute_digest([file._replace(mode=0o600)])
