"""A program beside a spec that no mount brings to the job is named, with the mount to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.load.notes import unmounted
from runspec_jobs.spec.model import Spec

WRITE = "write mounts: [{name: code, source: ., target: /job/code}] and ${mounts.code}/train.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name in ("train.py", "src/train.py", "go.sh"):
        (tmp_path / name).write_text("")
    return tmp_path


def told(folder: Path, **fields: Any) -> list[tuple[Any, str | None]]:
    spec = Spec.model_validate(
        {"apiVersion": "runspec/v1", "name": "a", "provider": "local", **fields}
    )
    return [(p.path, p.hint) for p in unmounted.find_notes(spec, folder)]


def test_a_file_that_no_mount_holds_is_named_with_the_mount_to_write(folder: Path) -> None:
    assert told(folder, command=["python", "train.py"]) == [(("command", 1), WRITE)]
    assert told(folder, run="set -e\npython3 -u train.py --lr 1\n") == [(("run",), WRITE)]
    assert told(folder, command=["./go.sh"]) == [
        (("command", 0), WRITE.replace("train.py", "go.sh"))
    ]


def test_a_file_that_a_mount_holds_is_named_with_its_path_there(folder: Path) -> None:
    mounts = [{"name": "code", "source": "./src", "target": "/job/code"}]

    assert told(folder, command=["python", "src/train.py"], mounts=mounts) == [
        (("command", 1), "write ${mounts.code}/train.py")
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ["python", "other.py"]},
        {"command": ["python", "${mounts.code}/train.py"]},
        {"command": ["python", "/app/train.py"]},
        {"command": ["python", "-m", "train"]},
        {"command": ["sweep", "x", "--program", "train.py"]},
        {"run": "cd /app\npython train.py\n"},
        {"run": "echo 'print()' > train.py\npython train.py\n"},
        {"run": "git clone x; python train.py\n"},
        {"run": "echo 'python train.py'\n"},
        {"run": "#!/usr/bin/env python3\nprint('python train.py')\n"},
    ],
)
def test_files_that_may_exist_in_the_job_get_no_note(folder: Path, fields: dict[str, Any]) -> None:
    mounts = [{"name": "code", "source": "./src", "target": "/job/code"}]

    assert told(folder, mounts=mounts, **fields) == []


@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_validate_and_plan_print_the_note(
    verb: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    path = folder / "job.yaml"
    path.write_text(
        "apiVersion: runspec/v1\nname: a\nprovider: local\ncommand: [python3, train.py]\n"
    )

    assert run([verb, str(path)]) == 0

    assert "note: command[1]: train.py is beside this file" in capsys.readouterr().err
