"""The start of the zipapp: compiled once, kept beside it, and no more of the standard library than a folder takes."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_agent.job import bytecode_cache, zipapp_main
from runspec_jobs.provider.payload import pack_agent
from runspec_slurm.job import AGENT
from tests.support.agent.process_nodes import fake_mpirun as fake_mpirun

pytestmark = pytest.mark.process

RECORD = {
    "run": "r",
    "shape": "single",
    "nodes": 1,
    "slots": 1,
    "launch": "none",
    "attempts": 1,
    "spot_attempts": 3,
    "sweep": [],
    "mounts": [],
    "outputs": [],
    "requirements": [],
    "build_constraints": [],
}
# What S3 and Blob take, or a big part of the standard library that a task does not.
NOT_READ = {
    "concurrent.futures",
    "email",
    "hashlib",
    "http.client",
    "shutil",
    "ssl",
    "tempfile",
    "typing",
    "urllib.parse",
    "xml",
}


class Workspace:
    """A store, a run in it, and our part of the job by its digest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        content = pack_agent()
        self.zipapp = folder / "inside" / f"{hashlib.sha256(content).hexdigest()}.pyz"
        for path in (self.zipapp.parent, folder / "runs/r"):
            path.mkdir(parents=True)
        self.zipapp.write_bytes(content)
        record = {**RECORD, "argv": ["/bin/echo", "it", "runs"]}
        (folder / "runs/r/record.json").write_text(json.dumps(record))

    def task(
        self,
        number: int = 0,
        *options: str,
        program: Path | None = None,
        prints: str = "it runs\n",
        start: tuple[str, ...] = ("-ISc", AGENT),
        **more: str,
    ) -> str:
        """Run a task of the run as a batch script does, and give what is said beside what it prints."""
        agent = [sys.executable, "-IS", str(program or self.zipapp)]
        env = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(self.folder),
            "RUNSPEC_RUN": "r",
            "RUNSPEC_STORE": f"file://{self.folder}",
            "RUNSPEC_JOB": "7",
            "RUNSPEC_TASK": str(number),
            "RUNSPEC_ATTEMPT": "1",
            "RUNSPEC_ENDS": "1",
            "RUNSPEC_BELOW": "@",
            "SLURM_JOB_ID": "7",
            "SLURMD_NODENAME": "node-a",
            **more,
        }
        words = [sys.executable, *options, *start, agent[-1], "batch", "--", *agent, "job"]
        done = subprocess.run(
            words, env=env, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout == prints
        return done.stderr

    def kept(self) -> list[Path]:
        return sorted(self.zipapp.parent.glob("*.kept"))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_a_second_task_compiles_nothing(workspace: Workspace) -> None:
    """Nothing of ours comes out of the zipapp any more, but its first module and what is not Python."""
    first = workspace.task(0, "-v")
    second = workspace.task(1, "-v")

    assert loaded_of_the_zipapp(first) == {
        "runspec_agent",
        "runspec_agent.base",
        "runspec_agent.job",
        "runspec_agent.job.bytecode_cache",
        "runspec_agent.base.files",
        "runspec_agent.base.light_typing",
    }
    assert loaded_of_the_zipapp(second) == set()


def test_a_service_that_starts_the_zipapp_has_the_compiled_modules_too(
    workspace: Workspace,
) -> None:
    workspace.task(0, start=("-IS",))

    said = workspace.task(1, "-v", start=("-IS",))

    assert loaded_of_the_zipapp(said) == set()
    assert len(workspace.kept()) == 1


def test_every_compiled_module_can_be_imported(workspace: Workspace) -> None:
    """Each module of a job, with what stands for `typing` in it: that is not imported even once."""
    workspace.task()
    (kept,) = workspace.kept()
    code = """
import marshal, sys
with open(sys.argv[1], "rb") as stream:
    codes = marshal.load(stream)
own = {"__name__": "own"}
exec(marshal.loads(codes["__main__"]), own)
sys.meta_path.insert(0, own["Kept"](codes, sys.argv[2]))
from runspec_agent.base.task_identity import TaskIdentity, seat
assert seat(TaskIdentity("7", 5, 0, 1), {"nodes": 1, "elastic": {"min": 1, "max": 4}}) == ("7", 1, 1, 1)
from runspec_agent.store.manifest import Manifest
assert Manifest() == Manifest(**Manifest()._asdict())
assert "typing" not in sys.modules
for name in codes:
    if "." in name and name != "inside.sh":
        __import__(name)
print(len(codes))
"""
    line = [sys.executable, "-IS", "-c", code, str(kept), str(workspace.zipapp)]
    said = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)

    assert (said.returncode, said.stderr) == (0, "")
    assert int(said.stdout) > 90


def test_the_compiled_modules_are_whole_and_nobody_elses(workspace: Workspace) -> None:
    workspace.task()

    (kept,) = workspace.kept()
    assert kept.name.startswith(f"{workspace.zipapp.stem}.{sys.implementation.cache_tag}-")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert sorted(workspace.zipapp.parent.iterdir()) == sorted([kept, workspace.zipapp])


@pytest.mark.parametrize("content", [b"", b"half of it", b"\xe3"])
def test_damaged_bytecode_is_compiled_again(workspace: Workspace, content: bytes) -> None:
    """As a machine leaves it that loses its power."""
    workspace.task()
    (kept,) = workspace.kept()
    whole = kept.read_bytes()
    kept.write_bytes(content or whole[:-100])

    workspace.task(1)

    assert kept.read_bytes() == whole


def test_where_nothing_can_be_kept_the_job_runs(workspace: Workspace) -> None:
    """Such as in a container that sees the workspace read-only; a folder is in the way of root, too."""
    workspace.task()
    (kept,) = workspace.kept()
    kept.unlink()
    kept.mkdir()

    workspace.task(1)

    assert workspace.kept() == [kept]


def test_a_zipapp_of_another_name_keeps_nothing(workspace: Workspace) -> None:
    """Its content may change under its name."""
    other = workspace.zipapp.with_name("inside.pyz")
    other.write_bytes(workspace.zipapp.read_bytes())

    workspace.task(0, program=other)

    assert workspace.kept() == []


@pytest.mark.parametrize("home", ["", "/somewhere"])
def test_a_program_knows_whose_it_is_where_nobody_has_logged_in(
    workspace: Workspace, home: str
) -> None:
    """What is said already stays."""
    script = 'echo "$HOME $USER $LOGNAME"'
    record = {**RECORD, "argv": ["/bin/sh", "-c", script]}
    (workspace.folder / "runs/r/record.json").write_text(json.dumps(record))
    owner = pwd.getpwuid(os.getuid())

    workspace.task(prints=f"{home or owner.pw_dir} {owner.pw_name} {owner.pw_name}\n", HOME=home)


def test_a_traceback_shows_the_lines_of_what_is_kept(workspace: Workspace) -> None:
    workspace.task()
    broken = {name: value for name, value in RECORD.items() if name != "mounts"}
    (workspace.folder / "runs/r/record.json").write_text(json.dumps(broken))

    with pytest.raises(subprocess.CalledProcessError) as failed:
        workspace.task(1)

    assert 'in self.record["mounts"]:' in failed.value.stderr


def test_mpirun_is_given_a_remote_shell_out_of_what_is_kept(
    workspace: Workspace, fake_mpirun: str
) -> None:
    """It is a script that leads to the zipapp, which a module knows by its own place."""
    record = {**RECORD, "launch": "mpi", "argv": ["/bin/echo", "a rank"]}
    (workspace.folder / "runs/r/record.json").write_text(json.dumps(record))

    for number in range(2):
        workspace.task(number, prints="a rank\n", PATH=fake_mpirun)


def test_a_task_in_a_folder_reads_nothing_of_a_network(workspace: Workspace) -> None:
    """Its start is what an array pays a thousand times: see bench/README.md."""
    workspace.task()
    said = workspace.task(1, "-X", "importtime")

    names = {
        line.rpartition("|")[2].strip() for line in said.splitlines() if "import time:" in line
    }
    assert {
        "runspec_agent.base.process",
        "runspec_agent.transfer.output_saver",
    } <= names  # of the batch process, and of the agent
    assert names & NOT_READ == set()


def loaded_of_the_zipapp(said: str) -> set[str]:
    """Give the modules that `python -v` says were read out of a zip."""
    return {
        line.split()[1].strip("'")
        for line in said.splitlines()
        if line.startswith("import 'runspec_agent") and "zipimporter" in line
    }


def test_a_package_in_the_package_is_found(tmp_path: Path) -> None:
    """With the modules in it, and their lines."""
    app = tmp_path / "inside.pyz"
    app.write_bytes(pack_agent())
    codes = bytecode_cache.made(str(app), str(tmp_path / "kept"))
    importer = zipapp_main.Kept(codes, str(app))

    specs = {name: importer.find_spec(name) for name in codes}

    packages = {
        name for name, spec in specs.items() if spec and spec.submodule_search_locations is not None
    }
    assert {"runspec_agent", "runspec_agent.elastic"} < packages
    source = importer.get_source("runspec_agent.elastic.policy")
    assert source is not None and "def decide" in source
