"""GPUs are measured by an nvidia-smi that runs as long as the job, and whatever it does hinders nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_agent.usage.gpus import STARTS, Gpu, GpuMeter
from tests.support.wait import until

pytestmark = pytest.mark.process

MIB = 1 << 20
TWO = "0, GPU-aaa, 40, 1000, 81559\\n1, GPU-bbb, 60, 2000, 81559\\n"
BOTH = (Gpu(40, 1000 * MIB, 81559 * MIB), Gpu(60, 2000 * MIB, 81559 * MIB))


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


@pytest.fixture
def meters() -> Iterator[list[GpuMeter]]:
    found: list[GpuMeter] = []
    yield found
    for meter in found:
        meter.finish()


def fake(folder: Path, script: str) -> None:
    """Make an nvidia-smi, which writes its arguments to the file `asked`."""
    path = folder / "nvidia-smi"
    path.write_text(f'#!/bin/sh\necho "$@" >>{folder}/asked\n{script}\n')
    path.chmod(0o755)


def read(meter: GpuMeter, enough: int) -> tuple[Gpu, ...]:
    found: tuple[Gpu, ...] = until(lambda: gpus if len(gpus := meter.read()) == enough else None)
    return found


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, BOTH), ("1", BOTH[1:]), ("GPU-a", BOTH[:1]), ("1,GPU-aaa", BOTH)],
)
def test_the_gpus_that_the_program_sees_are_measured(
    tmp_path: Path,
    env: dict[str, str],
    meters: list[GpuMeter],
    visible: str | None,
    expected: tuple[Gpu, ...],
) -> None:
    fake(tmp_path, f"printf '{TWO}'\nexec sleep 600")
    meters.append(
        GpuMeter(env if visible is None else {**env, "CUDA_VISIBLE_DEVICES": visible}, 10)
    )

    assert read(meters[0], len(expected)) == expected
    assert "-l 10" in (tmp_path / "asked").read_text()


def test_one_nvidia_smi_runs_as_long_as_the_job(
    tmp_path: Path, env: dict[str, str], meters: list[GpuMeter]
) -> None:
    fake(tmp_path, f"printf '{TWO}'\nsleep 0.2\nprintf '0, GPU-aaa, 90, 1, 2\\n'\nexec sleep 600")
    meters.append(GpuMeter(env, 10))
    read(meters[0], 2)

    until(lambda: meters[0].read()[0].percent == 90)

    assert (tmp_path / "asked").read_text().count("\n") == 1


@pytest.mark.parametrize(
    "script",
    ["exit 9", "echo 'NVIDIA-SMI has failed'", "echo '0, GPU-1, [N/A], [N/A], 81559'"],
)
def test_an_nvidia_smi_that_fails_is_given_up(
    tmp_path: Path, env: dict[str, str], meters: list[GpuMeter], script: str
) -> None:
    fake(tmp_path, script)
    meters.append(GpuMeter(env, 10))

    until(lambda: not meters[0].read() and bool(meters[0].why))

    assert meters[0].why == "nvidia-smi ended, or printed no figures of the job's GPUs"
    assert (tmp_path / "asked").read_text().count("\n") == STARTS


def test_an_nvidia_smi_that_hangs_delays_nothing(
    tmp_path: Path, env: dict[str, str], meters: list[GpuMeter]
) -> None:
    fake(tmp_path, "exec sleep 600")
    meters.append(GpuMeter(env, 10))
    began = time.monotonic()

    assert [meters[0].read() for _ in range(5)] == [()] * 5
    meters[0].finish()

    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"PATH": "/nowhere"}, "there is no nvidia-smi"),
        ({"SLURM_JOB_ID": "7"}, "the job has no GPUs"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "the job has no GPUs"),
    ],
)
def test_a_job_without_gpus_starts_no_nvidia_smi(
    tmp_path: Path, env: dict[str, str], more: dict[str, str], why: str
) -> None:
    fake(tmp_path, "exit 1")

    meter = GpuMeter({**env, **more}, 10)

    assert (meter.read(), meter.why) == ((), why)
    assert not (tmp_path / "asked").exists()
