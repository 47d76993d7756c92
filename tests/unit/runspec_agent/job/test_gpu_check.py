"""A smoke test finds a GPU that does not answer; with RUNSPEC_REAL_GPU=1, this machine's GPUs are asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_agent.base.failure import Failure
from runspec_agent.job import gpu_check
from tests.support import gpus
from tests.support.root import ROOT

pytestmark = pytest.mark.process
SCRIPT = """#!/bin/sh
case $1 in
  -L) cat '{0}.txt' ;;
  *) while read -r kind number rest; do
       [ "$kind" != GPU ] || echo "${{number%:}}, NVIDIA H200, 143771 MiB, {1}"
     done <'{0}.txt' ;;
esac
"""


def machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, count: int, instances: int = 0, heat: str = "31"
) -> None:
    """Have *count* GPUs that say *heat* for their temperature."""
    gpus.fake(folder, monkeypatch, gpus.listing(count, instances))
    program = folder / "tools/nvidia-smi"
    program.write_text(SCRIPT.format(program, heat))


def checked(count: int, capfd: pytest.CaptureFixture[str]) -> str:
    gpu_check.check(count, os.environ, 3)
    return capfd.readouterr().err


def test_gpus_that_answer_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    there = 2
    if gpus.REAL:
        there = len(gpus.machine(tmp_path, monkeypatch))
    else:
        machine(tmp_path, monkeypatch, there)

    said = checked(there, capfd)

    assert said.startswith(f"runspec: node 3: {there} GPUs answer (")
    with pytest.raises(Failure, match=f"node 3: {there} of {there + 1} GPUs answer") as failure:
        checked(there + 1, capfd)
    assert failure.value.code == gpu_check.SILENT


@pytest.mark.parametrize(
    "instances,value,found", [(0, "1", 1), (0, gpus.UUID.format(0), 1), (0, "", 0), (2, "0", 2)]
)
def test_only_gpus_that_the_program_sees_count(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    instances: int,
    value: str,
    found: int,
) -> None:
    machine(tmp_path, monkeypatch, 2, instances)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)

    assert f"{found} GPUs answer" in checked(found, capfd)
    with pytest.raises(Failure, match=f"{found} of {found + 1} GPUs answer"):
        checked(found + 1, capfd)


@pytest.mark.parametrize("heat,bad", [("[GPU is lost]", True), ("ERR!", True), ("[N/A]", False)])
def test_a_lost_gpu_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    heat: str,
    bad: bool,
) -> None:
    machine(tmp_path, monkeypatch, 1, heat=heat)

    if not bad:
        assert "1 GPUs answer" in checked(1, capfd)
        return
    with pytest.raises(Failure, match="node 3: a GPU does not work: 0, NVIDIA H200"):
        checked(1, capfd)


def test_a_driver_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    gpus.fake(
        tmp_path, monkeypatch, "Failed to initialize NVML: Driver/library version mismatch\n", 18
    )

    with pytest.raises(Failure, match="nvidia-smi -L exited with code 18: Failed to initialize"):
        checked(1, capfd)


def test_an_image_without_nvidia_smi_is_told_not_to_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert checked(1, capfd) == "runspec: node 3: GPUs were not checked: there is no nvidia-smi\n"


def test_the_program_follows_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(tmp_path, monkeypatch, 1)
    agent = [sys.executable, "-m", "runspec_agent", "gpus"]

    def run(count: str) -> subprocess.CompletedProcess[str]:
        words = [*agent, count, "--", "echo", "--", "a b"]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "runner"), "RUNSPEC_RANK": "0"}
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False)

    done, failed = run("1"), run("2")

    assert (done.returncode, done.stdout) == (0, "-- a b\n")
    assert (failed.returncode, failed.stdout) == (gpu_check.SILENT, "")
    assert failed.stderr == "runspec: node 0: 1 of 2 GPUs answer\n"
