"""What a job wrote is kept, or it is said that it was not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_jobs.provider import RemoteError, State
from runspec_local import status
from tests.support.requirements import need, need_root

SPEC = """
apiVersion: runspec/v1
name: saves
provider: local
providers: {local: {engine: process}}
outputs: [{name: model, path: /job/model%s}]
run: |
  echo whole > "${outputs.model}/a.txt"
  %s
"""
KEPT = "../../../../outputs/model/0/0"  # seen from the node's own folder
# Until it has come in between two passes of the saver.
SPOIL = f"until (rm -rf {KEPT}; mkdir -p $(dirname {KEPT}); echo > {KEPT}) 2>/dev/null; do :; done"


def applied(folder: Path, spec: str) -> tuple[int, dict[str, object]]:
    (folder / "job.yaml").write_text(spec)
    done = subprocess.run(
        [sys.executable, "-m", "runspec_jobs", "apply", "--json", "job.yaml"],
        cwd=folder,
        env={"RUNSPEC_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.process
def test_an_output_that_cannot_be_kept_is_a_failure_that_names_it(tmp_path: Path) -> None:
    code, told = applied(tmp_path, SPEC % ("", SPOIL))

    assert (code, told["state"], told["exit_code"]) == (1, "failed", 1)
    assert "output 'model' was not saved completely" in str(told["reason"])
    (folder,) = (tmp_path / "home").glob("local/runs/*")
    (node,) = status.status(folder).nodes
    assert (node.state, node.exit_code, node.attempts[-1].exit_code) == (State.FAILED, 1, 1)
    assert node.reason and str(told["reason"]).startswith(node.reason)


SMALL_DISK = 'mount -t tmpfs -o size=3m full "$1" && shift && exec "$@"'
FULL = "home/local/runs/[^/ ]+%s: no space left on device; free some space, or set RUNSPEC_HOME"


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "where", "code"),
    [
        ('head -c 2000000 /dev/zero > "${outputs.model}/big"', "/outputs/model/0/0", 1),
        ('head -c 9000000 /dev/zero > "${outputs.model}/big"', "", 1),
    ],
)
def test_a_full_disk_is_the_reason_of_a_run_that_it_spoilt(
    tmp_path: Path, script: str, where: str, code: int
) -> None:
    """An output of which there is no room for a second copy, and one that the job cannot write."""
    need("unshare", "mount")
    need_root()
    (tmp_path / "home").mkdir()
    (tmp_path / "job.yaml").write_text(SPEC % ("", script))
    line = [sys.executable, "-m", "runspec_jobs", "apply", "--json", "job.yaml"]

    done = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", SMALL_DISK, "sh", str(tmp_path / "home"), *line],
        cwd=tmp_path,
        env={"RUNSPEC_HOME": str(tmp_path / "home"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        check=False,
    )

    told = json.loads(done.stdout)
    assert (told["state"], told["exit_code"]) == ("failed", code)
    assert re.search(FULL % where, told["reason"]), told["reason"]


@pytest.mark.slow
def test_a_saver_that_stumbles_while_the_job_runs_is_made_good_at_the_end(tmp_path: Path) -> None:
    spoilt_for_a_while = f"sleep 0.5; {SPOIL}; sleep 1.5; rm {KEPT}"

    code, told = applied(tmp_path, SPEC % (", sync: 1s", spoilt_for_a_while))

    assert (code, told["state"]) == (0, "succeeded"), told
    (kept,) = (tmp_path / "home").glob("local/runs/*/outputs/model/0/0/a.txt")
    assert kept.read_text() == "whole\n"


@pytest.mark.process
def test_a_try_that_was_not_saved_is_made_good_by_the_next(tmp_path: Path) -> None:
    spoilt_at_first = f'if [ "$RUNSPEC_ATTEMPT" = 1 ]; then {SPOIL}; exit 1; fi; rm -f {KEPT}'

    code, told = applied(tmp_path, SPEC % ("", spoilt_at_first) + "retry: {attempts: 2}\n")

    assert (code, told["state"]) == (0, "succeeded"), told


@pytest.mark.process
def test_a_saved_file_that_was_deleted_is_not_told_as_one_to_write(tmp_path: Path) -> None:
    applied(tmp_path, SPEC % ("", ""))
    (folder,) = (tmp_path / "home").glob("local/runs/*")
    (file,) = [file for file in status.outputs(folder) if file.kind == "file"]
    shutil.rmtree(folder / "outputs")

    with pytest.raises(RemoteError, match=r"/[0-9a-f]+-1 was deleted"):
        file.open()
