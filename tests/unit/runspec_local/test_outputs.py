"""What a job wrote is kept, or it is said that it was not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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

    assert (code, told["state"], told["exit_code"]) == (1, "failed", 0)
    assert "output 'model' was not saved completely" in str(told["reason"])


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
