"""The GPUs of a test: those that a fake nvidia-smi lists, or the machine's own with RUNSPEC_REAL_GPU=1."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from runspec_local.session import gpus

REAL = os.environ.get("RUNSPEC_REAL_GPU") == "1"
UUID = "GPU-00000000-0000-0000-0000-{:012}"
INSTANCE = "MIG-00000000-0000-0000-{:04}-{:012}"


def listing(count: int, instances: int = 0) -> str:
    """Return what `nvidia-smi -L` prints on a machine with *count* GPUs, each of *instances* MIG instances."""
    lines = []
    for gpu in range(count):
        lines.append(f"GPU {gpu}: NVIDIA H200 (UUID: {UUID.format(gpu)})\n")
        for i in range(instances):
            lines.append(f"  MIG 1g.18gb     Device  {i}: (UUID: {INSTANCE.format(gpu, i)})\n")
    return "".join(lines)


def fake(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int = 0, modes: str = ""
) -> None:
    """Put an nvidia-smi that prints *text* first on PATH; *modes* is what it prints of MIG."""
    program = folder / "tools" / "nvidia-smi"
    program.parent.mkdir(exist_ok=True)
    program.with_suffix(".txt").write_text(text)
    program.with_suffix(".modes").write_text(modes)
    asked = f"case $* in *mig.mode*) cat '{program}.modes' ;; *) cat '{program}.txt' ;; esac"
    program.write_text(f"#!/bin/sh\n{asked}\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, count: int = 2, instances: int = 0
) -> Sequence[gpus.Gpu]:
    """Return the GPUs of this machine, of which a fake one has *count*."""
    if REAL:
        assert shutil.which("nvidia-smi"), "RUNSPEC_REAL_GPU=1 needs nvidia-smi"
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        fake(folder, monkeypatch, listing(count, instances))
    found = gpus.find(os.environ).gpus
    assert found, "there is no GPU"
    return found
