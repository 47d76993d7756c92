"""What the tests of the clusters ask them."""

from __future__ import annotations

from pathlib import Path

from runspec_emulators.slurm import Cluster
from tests.support.wait import until as until


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
