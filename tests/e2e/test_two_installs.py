"""Two versions of runspec on one machine: one begins a run, the other takes it over while it is alive.

The older one is commit a266b12 of this repository, out of its history, with the dependencies of the present one.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.aws.region import Region
from tests.support import process_table
from tests.support.profiles import own_profile
from tests.support.requirements import lack, need
from tests.support.root import ROOT
from tests.support.wait import until

pytestmark = pytest.mark.slow
OLD = "a266b12056bf2e7fc986bbd6723f7cb69adce8de"
LIMIT_S = 120.0
TEXT = """
echo "begun by $RUNSPEC_RUN"
echo kept > "${outputs.out}/a.txt"
until [ -e GO ]; do sleep 0.1; done
echo ended
"""


FAILING = """
[ "$RUNSPEC_ATTEMPT" = 1 ] || { echo "try 2"; exit 0; }
echo "begun by $RUNSPEC_RUN"
echo kept > "${outputs.out}/a.txt"
until [ -e GO ]; do sleep 0.1; done
echo "try 1 ends"
exit 4
"""


class Install:
    """A version of runspec, by the folder of its packages; None is the present one."""

    def __init__(self, folder: Path | None) -> None:
        more = {} if folder is None else {"PYTHONPATH": f"{folder}/runner:{folder}/providers"}
        self.more = more
        self.folder = folder or ROOT

    @property
    def package(self) -> str:
        """The import package of this version, by what lies in its folder now."""
        present = (self.folder / "runner/runspec_jobs").is_dir()
        return "runspec_jobs" if present else "runspec"

    def begin(self, *words: str) -> subprocess.Popen[str]:
        line = [sys.executable, "-m", self.package, *words]
        env = {**os.environ, **self.more}
        pipe = subprocess.PIPE
        return subprocess.Popen(line, env=env, stdout=pipe, stderr=pipe, text=True)

    def __call__(self, *words: str, code: int = 0) -> str:
        """Give what a command prints."""
        with self.begin(*words) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == code, f"{words}: {err}"
        return out

    def told(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    def listed(self) -> list[dict[str, Any]]:
        """Give the rows of `list`, which the older version prints alone."""
        found = self.told("list")
        rows: list[dict[str, Any]] = found if isinstance(found, list) else found["runs"]
        return rows

    def version(self) -> str:
        """Give where its packages are."""
        line = [sys.executable, "-c", f"import {self.package} as package; print(package.__file__)"]
        env = {**os.environ, **self.more}
        return subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the packages of the older version."""
    need("git")
    line = ["git", "archive", OLD, "runner", "providers"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        lack(f"commit {OLD[:7]} in this clone: git fetch --unshallow origin brings it")
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def old(older: Path) -> Install:
    return Install(older)


@pytest.fixture
def new() -> Install:
    return Install(None)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with a profile for this machine."""
    monkeypatch.chdir(tmp_path)
    settings = {"engine": "process", "grace": "1s"}
    own_profile().write_text(json.dumps({"providers": {"local": settings}}))
    return tmp_path


class Begun:
    """A run that *by* has begun, and which waits to be told to end."""

    def __init__(
        self, by: Install, provider: str, folder: Path, text: str = TEXT, **more: Any
    ) -> None:
        self.go = folder / "go"
        spec = {
            "apiVersion": "runspec/v1",
            "name": "job",
            "provider": provider,
            "run": text.replace("GO", str(self.go)),
            "outputs": [{"name": "out", "path": "/job/out", "sync": "1s"}],
            **more,
        }
        Path("job.yaml").write_text(json.dumps(spec))
        self.run = by("apply", "job.yaml", "--detach").strip()

    def runs(self, seen_by: Install) -> None:
        until(lambda: seen_by.told("status", self.run)["state"] == "running")
        (row,) = [row for row in seen_by.listed() if row["run"] == self.run]
        assert row["state"] == "running"
        until(lambda: seen_by("logs", self.run) == f"begun by {self.run}\n")

    def is_followed_and_fetched(self, seen_by: Install) -> None:
        """An apply of the same file follows it to its end, too."""
        until(lambda: seen_by.told("fetch", self.run, "early")["files"])
        assert Path("early/out/a.txt").read_text() == "kept\n"
        followers = [seen_by.begin("logs", "-f", self.run), seen_by.begin("apply", "job.yaml")]
        for process in followers:
            assert process.stdout is not None
            assert process.stdout.readline() == f"begun by {self.run}\n"

        self.go.touch()

        for process in followers:
            out, err = process.communicate(timeout=LIMIT_S)
            assert (process.returncode, out) == (0, "ended\n"), err
        assert seen_by.told("status", self.run)["state"] == "succeeded"
        seen_by("fetch", self.run, "late")
        assert Path("late/out/a.txt").read_text() == "kept\n"

    def is_cancelled_and_destroyed(self, seen_by: Install) -> None:
        seen_by("cancel", self.run)
        assert seen_by.told("status", self.run)["state"] == "cancelled"
        seen_by("destroy", self.run)
        until(lambda: not process_table.marked(f"RUNSPEC_RUN={self.run}"))


def test_the_two_installs_are_two(old: Install, new: Install, older: Path) -> None:
    assert old.version().startswith(str(older))
    assert new.version().startswith(str(ROOT))


def test_the_new_version_follows_and_fetches_a_run_of_this_machine(
    old: Install, new: Install, project: Path
) -> None:
    job = Begun(old, "local", project)

    job.runs(new)
    job.is_followed_and_fetched(new)

    new("destroy", job.run)
    assert new.listed() == []


def test_the_new_version_cancels_and_destroys_a_run_of_this_machine(
    old: Install, new: Install, project: Path
) -> None:
    job = Begun(old, "local", project)
    job.runs(new)

    job.is_cancelled_and_destroyed(new)


def test_the_old_version_understands_a_run_of_the_new_one(
    old: Install, new: Install, project: Path
) -> None:
    """It is as it is: nothing is promised of it. Today it does all but fetch, which is up to the manifest."""
    job = Begun(new, "local", project)

    job.runs(old)
    job.is_cancelled_and_destroyed(old)

    assert new.told("status", job.run)["state"] == "destroyed"


def test_a_run_goes_on_while_its_version_is_replaced_in_place(
    old: Install, new: Install, older: Path, project: Path
) -> None:
    """As pip does it: the packages that the run's supervisor came from are of another version from here on."""
    place = project / "site"
    shutil.copytree(older, place)
    retried = {"retry": {"attempts": 2}}
    job = Begun(Install(place), "local", project, FAILING, **retried)
    job.runs(new)

    for name in ("runner", "providers"):
        shutil.rmtree(place / name)
        shutil.copytree(ROOT / name, place / name)
    job.go.touch()

    upgraded = Install(place)
    assert upgraded("logs", "-f", job.run) == f"begun by {job.run}\ntry 1 ends\ntry 2\n"
    assert upgraded.told("status", job.run)["state"] == "succeeded"
    upgraded("fetch", job.run, "late")
    assert Path("late/out/a.txt").read_text() == "kept\n"
    upgraded("destroy", job.run)


# AWS Batch


@pytest.fixture
def at_aws(region: Region, tmp_path: Path) -> Path:
    """Give a folder with a profile for the stand-in, whose machines are this one."""
    return tmp_path


def test_the_new_version_follows_and_fetches_a_run_on_aws(
    old: Install, new: Install, at_aws: Path
) -> None:
    job = Begun(old, "aws-batch", at_aws)

    job.runs(new)
    job.is_followed_and_fetched(new)

    new("destroy", job.run)
    assert new.listed() == []


def test_the_new_version_cancels_and_destroys_a_run_on_aws(
    old: Install, new: Install, at_aws: Path
) -> None:
    job = Begun(old, "aws-batch", at_aws)
    job.runs(new)

    job.is_cancelled_and_destroyed(new)


def test_the_old_version_understands_a_run_of_the_new_one_on_aws(
    old: Install, new: Install, at_aws: Path
) -> None:
    job = Begun(new, "aws-batch", at_aws)

    job.runs(old)
    job.is_cancelled_and_destroyed(old)


def test_a_run_whose_apply_was_cut_off_is_carried_on_by_the_new_version(
    old: Install, new: Install, at_aws: Path, region: Region
) -> None:
    """The old version's agent was uploaded by then: the job runs with it."""
    fault = {"service": "batch", "operation": "CreateComputeEnvironment", "nth": None}
    region.control("PUT", "faults", [{**fault, "times": 1_000_000, "kind": "reset-before"}])
    with pytest.raises(AssertionError):
        Begun(old, "aws-batch", at_aws)
    region.control("DELETE", "faults")
    (row,) = new.listed()
    assert row["state"] == "not-started"
    (at_aws / "go").touch()

    new("apply", "job.yaml")

    assert [(one["run"], one["state"]) for one in new.listed()] == [(row["run"], "succeeded")]
    new("destroy", row["run"])
