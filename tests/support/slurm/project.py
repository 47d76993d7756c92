"""A project whose jobs go to a real Slurm on this machine, by the program itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.slurm import Cluster
from runspec_jobs.cli.app import run
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

Capture = pytest.CaptureFixture[str]
LIMIT_S = 90.0  # for what takes seconds, on a machine that does other things as well
# `clean` spares each job a login on its node; the machine's own python has what jobs need.
OPTIONS = {"environment": "clean", "grace": "5s"}


# A fixture that modules import is one for each of them, and of a session's scope it would live until the end.
@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give node1 to node4, each with a loopback address: a program can meet on them."""
    need(*PROGRAMS)
    folder = tmp_path_factory.mktemp("slurm")
    with Cluster(folder, prolog=True, address_in="RUNSPEC_HOST") as found:
        yield found


@pytest.fixture
def project(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> Iterator[Project]:
    yield from prepared(cluster, tmp_path, monkeypatch, capsys)


def prepared(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, **options: Any
) -> Iterator[Project]:
    """Give a project in *folder*; after it, no job of the test is alive."""
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    yield Project(cluster, folder, capsys, options)
    cluster.cancel()


class Project:
    """Specs and their runs; *folder* is where they and the workspace are."""

    def __init__(
        self, cluster: Cluster, folder: Path, capsys: Capture, options: Mapping[str, Any]
    ) -> None:
        self.cluster, self.folder, self.capsys = cluster, folder, capsys
        self.workspace = folder / "workspace"
        self.profile(**options)

    def profile(self, **options: Any) -> None:
        found = {**OPTIONS, "workspace": str(self.workspace), **options}
        text = json.dumps({"providers": {"slurm": found}})
        own_profile().write_text(text)

    def write(self, script: str | None = None, **fields: Any) -> str:
        spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "slurm", **fields}
        (self.folder / "job.yaml").write_text(
            json.dumps(spec | ({"run": script} if script else {}))
        )
        return "job.yaml"

    def said(self, *words: str) -> tuple[int, str, str]:
        """Give what a command of runspec ends with, and what it says."""
        self.capsys.readouterr()
        code = run(list(words))
        return code, *self.capsys.readouterr()

    def told(self, *words: str) -> Any:
        """Give what a command says as JSON, however it ends."""
        return json.loads(self.said(*words, "--json")[1])

    def ended(self, script: str | None = None, *words: str, **fields: Any) -> dict[str, Any]:
        """Apply a spec, and give how its run ended."""
        found: dict[str, Any] = self.told("apply", self.write(script, **fields), *words)
        return found

    def started(self, script: str | None = None, **fields: Any) -> str:
        """Apply a spec, and give the run, which goes on."""
        code, out, err = self.said("apply", self.write(script, **fields), "--detach")
        assert code == 0, err
        return out.strip()

    def status(self, name: str = "job") -> dict[str, Any]:
        found: dict[str, Any] = self.told("status", name)
        return found

    def until(self, what: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
        """Give the first true value of *what*."""
        end = time.monotonic() + limit_s
        while not (value := what()):
            assert time.monotonic() < end, f"it does not come: {self._all_states()}"
            time.sleep(0.1)
        return value

    def until_over(self, name: str = "job", limit_s: float = LIMIT_S) -> dict[str, Any]:
        over = ("succeeded", "failed", "cancelled")
        self.until(lambda: self.status(name)["state"] in over, limit_s)
        return self.status(name)

    def log(self, name: str = "job", *words: str) -> str:
        return self.said("logs", name, *words)[1]

    def until_said(self, text: str, name: str = "job") -> None:
        self.until(lambda: text in self.log(name))

    def fetched(self, name: str = "job") -> dict[str, str]:
        """Give the files that a run wrote, by where they are below its folder."""
        target = self.folder / "fetched"
        assert self.said("fetch", name, str(target))[0] == 0
        files = (path for path in target.rglob("*") if path.is_file())
        return {str(path.relative_to(target)): path.read_text() for path in files}

    def jobs(self, form: str = "%i %T", *words: str) -> list[str]:
        """Give a line for each job that the controller knows."""
        line = ["squeue", "--noheader", "--states=all", f"--format={form}", *words]
        return self.cluster.run(*line).splitlines()

    def _all_states(self) -> str:
        nodes = self.cluster.run("sinfo", "--noheader", "--Node", "--format=%N %T %E")
        return f"{self.told('list')}\n" + "\n".join([*self.jobs("%j %i %T %r %S %N"), nodes])

    def alive(self) -> list[str]:
        return self.cluster.run("squeue", "--noheader", "--format=%j").split()

    def left(self) -> list[str]:
        """Give the files of the workspace."""
        files = (path for path in self.workspace.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.workspace)) for path in files)
