"""What the tests of the clusters ask them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from runspec_rehearsal.slurm import Cluster


def until(told: Callable[[], object], timeout_s: float = 40) -> None:
    end = time.monotonic() + timeout_s
    while not told():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)


def submit(cluster: Cluster, script: str, *options: str) -> str:
    log = f"--output={cluster.places.folder}/%j.txt"
    return cluster.run("sbatch", "--parsable", log, *options, f"--wrap={script}").strip()


def job(cluster: Cluster, number: str) -> str:
    return cluster.run(
        "squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={number}"
    ).strip()


def said(cluster: Cluster, number: str) -> str:
    file = cluster.places.folder / f"{number}.txt"
    return file.read_text() if file.exists() else ""


def holders(cluster: Cluster | Path) -> list[int]:
    """Give the processes whose command line or environment names the cluster. proc(5)"""
    folder = cluster if isinstance(cluster, Path) else cluster.places.folder
    mark = str(folder / "slurm.conf").encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if mark in words:
            found.append(int(entry.name))
    return found
