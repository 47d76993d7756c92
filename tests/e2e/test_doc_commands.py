"""The blocks of commands of the pages, run line by line as they stand: on this machine, or against emulators."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
from runspec_jobs.state import run_record
from tests.support.azure import emulated_account
from tests.support.azure.emulated_account import blobs as blobs  # a fixture
from tests.support.doc_blocks import RUN, SHELL, blocks
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.root import ROOT
from tests.support.slurm.project import cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
# The doctor of the emulated account finds what it lacks: its roles, subnets and quotas.
LACKS = dict.fromkeys(("runspec doctor aws-batch", "runspec doctor aws-batch job.yaml"), 69)
OUTPUTS = [{"name": "model", "path": "/job/model"}]
MADE = 'echo "loss $RUNSPEC_RUN"; echo 1 > "${outputs.model}/a"'


def write(name: str, provider: str = "local", path: str = "job.yaml", **fields: Any) -> str:
    """Write a small job, which takes the place of the one that a page speaks of."""
    own = {"providers": {"local": {"engine": "process"}}} if provider == "local" else {}
    spec = {"apiVersion": "runspec/v1", "name": name, "provider": provider, "run": MADE, **own}
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**spec, "outputs": OUTPUTS, **fields}))
    return path


def applied(*words: str) -> None:
    assert run(["apply", *words]) == 0


def write_chain() -> None:
    """Write the chain of the page, which is its first block."""
    Path("mnist.yaml").write_text(next(blocks("docs/chains.md")).text)


@dataclass(frozen=True)
class World:
    """What is there before a block is run, and what differs in it.

    *before* is called before the line that begins with its key; *words* replaces words that stand for others;
    *codes* are the exit codes of lines that do not end with 0.
    """

    prepare: Callable[[], object] = lambda: None
    fixture: str | None = None
    before: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    words: Callable[[], Mapping[str, str]] = dict
    codes: Mapping[str, int] = field(default_factory=dict)


def sweep() -> None:
    applied(
        write(
            "search",
            sweep={"lr": [1, 2]},
            run='echo "loss=${sweep.lr}"',
            outputs=[],
            metric={"name": "loss", "goal": "min", "pattern": "loss=([0-9.]+)"},
        )
    )


def checkout() -> None:
    for name in ("docs", "specs"):
        Path(name).symlink_to(ROOT / name)


def elastic_costs() -> None:
    checkout()
    page = (ROOT / "docs" / "elastic-costs.md").read_text()
    (spec,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    Path("job.yaml").write_text(spec)


def of_another_machine() -> None:
    """Have a run in the store that has no record here."""
    here = os.environ["RUNSPEC_HOME"]
    os.environ["RUNSPEC_HOME"] = f"{here}-other"
    applied(write("mnist", "aws-batch"))
    Path("name").write_text(next(iter(run_record.list_all())).run)
    os.environ["RUNSPEC_HOME"] = here


def editor() -> None:
    """Have an editor that fills the profile in: it writes the settings of the emulated account."""
    script = Path("bin/editor")
    script.write_text(f'#!/bin/sh\ncp {shlex.quote(str(own_profile()))} "$1"\n')
    script.chmod(0o755)


def fill_in() -> None:
    """Fill in the profile that init wrote."""
    Path("runspec-profile.yaml").write_text(own_profile().read_text())


def write_program() -> None:
    Path("train.py").write_text("print('trained')\n")


WORLDS: Mapping[str, World] = {
    "README.md: .venv/bin/runspec status mnist-chainer": World(
        lambda: applied(write("mnist-chainer"))
    ),
    "README.md: .venv/bin/runspec rehearse specs/mnist-chainer.yaml --provider a": World(
        lambda: write("mnist-chainer", path="specs/mnist-chainer.yaml"), "region"
    ),
    "README.md: runspec init train.py": World(write_program),
    "docs/adopt.md: runspec list --remote": World(
        of_another_machine, "region", words=lambda: {"mnist-7k2m9p": Path("name").read_text()}
    ),
    "docs/aws-batch.md: pip install 'runspec-jobs[aws]'": World(
        # The subnet that is filled in is none of the account.
        fixture="region",
        before={"runspec trust": fill_in},
        codes={**LACKS, "runspec setup aws-batch": 69},
    ),
    "docs/chains.md: runspec apply mnist.yaml --until search": World(write_chain),
    "docs/chains.md: runspec validate mnist.yaml": World(write_chain),
    "docs/azure-batch.md: pip install 'runspec-jobs[azure]'": World(
        fixture="account", before={"runspec trust": fill_in}
    ),
    "docs/doctor.md: runspec doctor job.yaml": World(
        lambda: write("job"), "region", codes={**LACKS, "runspec doctor": 69}
    ),
    "docs/exit-codes.md: runspec explain 75": World(),
    "docs/init.md: runspec init train.py": World(write_program),
    "docs/json.md: runspec status mnist --json | jq -r .state": World(
        lambda: applied(write("mnist"))
    ),
    "docs/logs.md: runspec logs job": World(lambda: applied(write("job"))),
    "docs/machines.md: runspec status mnist": World(lambda: applied(write("mnist"))),
    "docs/networks.md: export AWS_CA_BUNDLE=/etc/ssl/certs/company.pem": World(),
    "docs/params.md: runspec apply job.yaml --param size=13b --param rate=0.01": World(
        lambda: Path("job.yaml").write_text(next(blocks("docs/params.md")).text)
    ),
    "docs/profile.md: runspec init --provider aws-batch": World(editor, "region", codes=LACKS),
    "docs/profile.md: runspec trust": World(
        lambda: run(["init", "--provider", "slurm"]),
        words=lambda: {"FILE": "runspec-profile.yaml"},
    ),
    "docs/profile.md: runspec trust /home/me/checkout/runspec-profile.yaml": World(
        lambda: run(["init", "--provider", "slurm"]),
        words=lambda: {"/home/me/checkout/runspec-profile.yaml": "runspec-profile.yaml"},
    ),
    "docs/report.md: runspec report search": World(sweep),
    "docs/slurm.md: runspec init --provider slurm": World(
        fixture="project", before={"runspec trust": fill_in}
    ),
    "docs/troubleshooting.md: runspec explain 75": World(),
    "docs/troubleshooting.md: runspec status job": World(lambda: applied(write("job"))),
    **{
        block.name: World(elastic_costs if "elastic-costs" in block.page else checkout)
        for block in SHELL
        if re.match(r"runspec (simulate|report --points)", block.text)
    },
}


@pytest.fixture
def account(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    yield from emulated_account.prepared(blobs, tmp_path, monkeypatch)


def carried_out(line: str) -> int:
    """Carry out a line: in this process if it is a command of runspec alone, else by a shell."""
    words = shlex.split(line)
    if words[0].endswith("runspec") and not {"|", "&&"} & {*words} and "$" not in line:
        return run(words[1:])
    return subprocess.run(["sh", "-ec", line], check=False).returncode


def test_every_block_that_is_said_to_run_has_a_world() -> None:
    assert WORLDS.keys() == RUN


@pytest.mark.parametrize("name", sorted(RUN), ids=lambda name: name[:60])
def test_the_commands_of_a_page_do_what_they_say(
    name: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = WORLDS[name]
    if world.fixture:
        request.getfixturevalue(world.fixture)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "editor")
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{commands(tmp_path)}:{os.environ['PATH']}")
    world.prepare()
    if "| jq " in name:
        need("jq")
    (block,) = [block for block in SHELL if block.name == name]

    ended = {}
    for written in block.lines():
        for begins, act in world.before.items():
            if written.startswith(begins):
                act()
        line = written
        for word, other in world.words().items():
            line = line.replace(word, other)
        ended[line] = carried_out(line)

    assert ended == {line: world.codes.get(line, 0) for line in ended}, capsys.readouterr().err


def commands(folder: Path) -> Path:
    """Make a folder of commands: runspec, and a pip that installs nothing, because everything is installed."""
    place = folder / "bin"
    place.mkdir()
    for name, text in {
        "runspec": f'exec {shlex.quote(sys.executable)} -m runspec_jobs "$@"',
        "pip": "exit 0",
    }.items():
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)
    return place
