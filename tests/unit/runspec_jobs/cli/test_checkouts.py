"""Nothing that lies in a checkout is run, and no program is started there."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.provider import paths
from tests.support.profiles import own_profile

HEAD = "apiVersion: runspec/v1\nname: job\n"
PLACES = (
    *"git ssh sh bash env python python3 podman docker uv node pcluster sinfo scontrol sbatch srun".split(),
    *".venv/bin/python .venv/bin/python3 .git/hooks/post-index-change".split(),
)
MODULES = ("sitecustomize", "usercustomize", "json", "runspec_jobs", "pydantic", "yaml", "conftest")
SETTINGS = {
    ".git/config": '[core]\n\tfsmonitor = "{trap}"\n\thooksPath = hooks\n[alias]\n\tx = "!{trap}"\n',
    ".python-version": "{trap}\n",
    "uv.toml": 'python-preference = "only-managed"\ncache-dir = "{folder}/cache"\n',
    "pyproject.toml": '[tool.uv]\ncache-dir = "{folder}/cache"\n[project]\nname = "x"\nversion = "1"\n',
    ".ssh/config": "Host *\n  ProxyCommand {trap}\n",
    "containers.conf": '[engine]\nconmon_path = ["{trap}"]\n',
    ".env": "PATH={folder}\n",
    "slurm.conf": "PluginDir={folder}\n",
}


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "was-run"


@pytest.fixture
def checkout(tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which whatever might be run or read for a setting leaves the mark."""
    folder = tmp_path / "checkout"
    touch = f"touch {shlex.quote(str(mark))}"
    for name in PLACES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{touch}\n")
        path.chmod(0o755)
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    for name, text in SETTINGS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(trap=folder / "sh", folder=folder))
    monkeypatch.chdir(folder)
    return folder


SPECS = {
    "local": "container: {requirements: [six], python: '==3.7.*'}\ncommand: [echo]\n",
    "local with an image": "container: {image: 'localhost/none:1'}\ncommand: [echo]\n",
    "slurm": "command: [echo]\n",
    "slurm by ssh": "command: [echo]\n",
    "parallelcluster": "command: [echo]\n",
    "aws-batch": "command: [echo]\n",
    "azure-batch": "command: [echo]\n",
    "azure-batch-ai": "command: [echo]\n",
}


def programs(folder: Path) -> None:
    """Write programs of the user's, outside of the checkout, that answer as those of a service."""
    (folder / "venv" / "bin").mkdir(parents=True)
    for name in ("podman", "docker", "ssh", "scontrol", "sinfo", "venv/bin/pcluster"):
        (folder / name).write_text("#!/bin/sh\necho '{}'\n")
        (folder / name).chmod(0o755)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Give the programs that were started, each with the folder that it was started in."""
    programs(tmp_path / "programs")
    path = [tmp_path / "programs", tmp_path / "programs" / "venv" / "bin", os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, path)))
    found: list[tuple[str, Any]] = []
    real = subprocess.Popen.__init__

    def start(self: Any, args: Any, *rest: Any, **how: Any) -> None:
        words = [args] if isinstance(args, str | Path) else list(args)
        found.append((str(words[0]), how.get("cwd")))
        real(self, args, *rest, **how)

    monkeypatch.setattr(subprocess.Popen, "__init__", start)
    return found


def write(checkout: Path, name: str) -> str:
    provider = name.partition(" ")[0]
    text = f"{HEAD}provider: {provider}\n{SPECS[name]}"
    (checkout / "job.yaml").write_text(text)
    return "job.yaml"


@pytest.mark.process
@pytest.mark.parametrize("name", SPECS)
def test_plan_starts_no_program_in_a_checkout(
    checkout: Path, mark: Path, started: list[tuple[str, Any]], name: str
) -> None:
    host = "slurm: {host: login.example}, " if name == "slurm by ssh" else ""
    cluster = "{region: us-east-1, key_pair: k, subnets: [subnet-0123456789abcdef0]}"
    own_profile().write_text(f"providers: {{{host}parallelcluster: {cluster}}}\n")

    run(["plan", write(checkout, name)])

    outside = ("local", "slurm", "parallelcluster")
    assert bool(started) == name.startswith(outside), "the test says nothing where nothing starts"
    assert [one for one in started if one[1] is None or checkout in Path(one[1]).parents] == []
    assert {Path(one[1]) for one in started} & {checkout} == set()
    assert not mark.exists()


@pytest.mark.parametrize("name", SPECS)
def test_validate_starts_no_program_at_all(
    checkout: Path, mark: Path, started: list[tuple[str, Any]], name: str
) -> None:
    (checkout / paths.PROFILE).write_text("providers: {}\n")

    run(["validate", write(checkout, name)])

    assert started == []
    assert not mark.exists()


@pytest.mark.process
@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_the_command_itself_imports_nothing_of_a_checkout(
    checkout: Path, mark: Path, verb: str
) -> None:
    (checkout / "job.yaml").write_text(f"{HEAD}provider: local\ncommand: [echo]\n")
    command = Path(sys.executable).parent / "runspec"

    done = subprocess.run([command, verb, "job.yaml"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert not mark.exists()
