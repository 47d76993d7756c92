"""A workspace of its own for each case on one real Slurm, and what that Slurm itself knows of the jobs in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from runspec_emulators.slurm import Cluster
from runspec_slurm.queue import ENDED
from tests.faults.cloud import Cloud, New, new_cloud
from tests.support.slurm.login_node import Login

SPEC = """\
apiVersion: runspec/v1
name: {name}
provider: slurm
mounts: [{{name: src, source: ./src, target: /job/src}}]
outputs: [{{name: out, path: /job/out}}]
env: {{TRUTH: {truth}}}
secrets: {{TOKEN: token}}
{more}
run: |
  words=$(cat "${{mounts.src}}/one" "${{mounts.src}}/two")
  echo "$RUNSPEC_RUN $RUNSPEC_TASK.$RUNSPEC_RANK $RUNSPEC_ATTEMPT $words $RUNSPEC_JOB" >> "$TRUTH"
  echo done > "${{outputs.out}}/done"
  {last}
"""
JOB = 5  # the word of a line of the truth that has the job


@dataclass
class SlurmCloud(Cloud):
    """A world whose jobs run on *cluster*; with *login* all commands go there by ssh."""

    cluster: Cluster | None = None
    login: Login | None = None

    provider: ClassVar[str] = "slurm"
    sdk: ClassVar[str] = "slurm"
    text: ClassVar[str] = SPEC
    sent_once: ClassVar[Mapping[str, tuple[str, ...]]] = {"POST sbatch": ("call sbatch",)}

    def open(self) -> None:
        assert self.cluster is not None
        (self.folder / "bin").mkdir()
        self.wire = {**self.wire, "lag_s": self.lag_s}

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def settings(self) -> Mapping[str, Any]:
        far = {"host": "127.0.0.1", "ssh_options": self.login.options} if self.login else {}
        return {
            **far,
            "workspace": str(self.workspace),
            "python": sys.executable,
            "environment": "clean",
            "grace": "1s",
            "secrets": {"token": "env:CANARY"},
        }

    def start(self, *words: str, **how: Any) -> tuple[int, int]:
        how["wire"] = {**self.wire, **how.get("wire", {})}
        return super().start(*words, **how)

    def environment(self) -> dict[str, str]:
        assert self.cluster is not None
        return {**super().environment(), **({} if self.login else self.cluster.env)}

    def jobs(self) -> Mapping[str, str]:
        """Give the state of every job that was submitted here, as the controller itself knows it."""
        assert self.cluster is not None
        line = ["squeue", "--noheader", "--states=all", "-O", "ArrayJobID:|,State:|,WorkDir:|"]
        words = [text.split("|") for text in self.cluster.run(*line).splitlines()]
        here = os.path.realpath(self.workspace)
        return {job.strip(): state.strip() for job, state, where, *_ in words if where == here}

    def submitted(self) -> list[str]:
        return list(self.jobs())

    def submits(self) -> int:
        steps = [step for ended in self.log for step in ended.steps]
        return sum(step["label"] == "send POST sbatch" for step in steps)

    def begun(self) -> set[str]:
        """Give the jobs that ran the program; others begin as well, and leave by the claim."""
        return {line[JOB] for line in self.truth()}

    def alive(self) -> list[str]:
        return [job for job, state in self.jobs().items() if state not in ENDED]

    def left(self) -> Iterator[str]:
        # `runspec gc` deletes a killed upload after a day: until then, another one may be under way.
        unfinished = {*self.workspace.glob("blobs/.rs-*.part")}
        files = (p for p in self.workspace.rglob("*") if not p.is_dir() and p not in unfinished)
        yield from (f"file {path.relative_to(self.workspace)}" for path in files)
        yield from (f"job {job}" for job in self.alive())

    def close(self) -> None:
        assert self.cluster is not None
        if jobs := self.alive():
            self.cluster.cancel(*jobs)
        super().close()


def slurm(cluster: Cluster, login: Login | None = None) -> New:
    """Give what makes a world of its own on one cluster for all."""
    return partial(new_cloud, SlurmCloud, cluster=cluster, login=login)
