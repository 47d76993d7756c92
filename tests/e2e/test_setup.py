"""`setup` runs once on each node before the processes of a launcher, wherever a job runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from tests.e2e.test_slurm_nodes import TORCHRUN
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow

SETUP = """\
echo "$RUNSPEC_RANK $GREETING" >>"${outputs.out}/setup"
[ "$RUNSPEC_ATTEMPT" != 1 ] || [ "$RUNSPEC_RANK" = 0 ] || exit 7
"""
# Each process sees what the setup of its node has written; the first node waits for the setup of the second one.
PROGRAM = '[ -s "${outputs.out}/setup" ] && : >"${outputs.out}/process-$RANK"'


@pytest.fixture
def torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a PATH with a stand-in for torchrun."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "torchrun").write_text(TORCHRUN)
    (programs / "torchrun").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tmp_path)
    return path


def spec(provider: str, path: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "runspec/v1",
        "name": "job",
        "provider": provider,
        "cluster": {"nodes": 2},
        "launch": "torchrun",
        "processes_per_node": 2,
        "retry": {"attempts": 2},
        "env": {"GREETING": "it's", "PATH": path},
        "setup": SETUP,
        "run": PROGRAM,
        "outputs": [{"name": "out", "path": "/job/out"}],
        "providers": {"local": {"engine": "process"}},
        **more,
    }


def check(outputs: Path, names: Iterable[int] = range(4)) -> None:
    """Both nodes ran it once in each attempt, and each process ran in the second one.

    A node may have been ended before its first one, because the other had failed.
    """
    found = sorted(p.read_text().splitlines() for p in outputs.rglob("setup"))
    assert [set(lines) for lines in found] == [{"0 it's"}, {"1 it's"}]
    assert 3 <= sum(map(len, found)) <= 4
    ran = sorted(p.name for p in outputs.rglob("process-*"))
    assert ran == [f"process-{name}" for name in names]


# The first node of a rehearsed Azure Batch has a /tmp of its own, and so no stand-in for torchrun.
ALONE = {"launch": "none", "processes_per_node": 1, "run": f"RANK=$RUNSPEC_RANK\n{PROGRAM}"}


# The emulated AWS Batch may end a job with the exit code of a node that fails before the first one.
FIRST = {"setup": SETUP.replace('"$RUNSPEC_RANK" = 0', '"$RUNSPEC_RANK" = 1')}


@pytest.mark.parametrize(("provider", "more"), [("aws-batch", FIRST), ("azure-batch", ALONE)])
def test_a_setup_that_fails_on_one_node_is_tried_again_in_the_cloud(
    provider: str,
    more: dict[str, Any],
    torchrun: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    need("azurite")
    (tmp_path / "job.yaml").write_text(json.dumps(spec(provider, torchrun, **more)))

    code = run(["rehearse", "job.yaml", "--folder", str(tmp_path / "kept")])

    out, err = capfd.readouterr()
    assert code == 0, out + err
    assert "runspec: setup failed with exit code 7" in out + err
    check(tmp_path / "kept" / "outputs", range(2 if more is ALONE else 4))


def test_a_setup_that_fails_on_one_node_is_tried_again_here(
    torchrun: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_profile().write_text("providers: {local: {grace: 2s}}\n")
    (tmp_path / "job.yaml").write_text(json.dumps(spec("local", torchrun)))

    assert run(["apply", "job.yaml"]) == 0

    capsys.readouterr()
    assert run(["status", "job", "--json"]) == 0
    (first, last) = json.loads(capsys.readouterr().out)["nodes"][1]["attempts"]
    assert (first["exit_code"], first["reason"]) == (7, "setup failed with exit code 7")
    assert 0 <= first["setup_s"] < 60 and 0 <= last["setup_s"] < 60
    assert run(["fetch", "job", str(tmp_path / "kept")]) == 0
    check(tmp_path / "kept")


ELASTIC = """\
[ -z "${RUNSPEC_GENERATION-}" ] && echo "$RUNSPEC_HOST" >>"${outputs.out}/hosts"
[ ! -e fails ] || exit 5
"""


def test_nodes_of_an_elastic_job_join_after_their_setup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fields = {
        "cluster": {"nodes": {"min": 1, "max": 2}},
        "launch": "none",
        "processes_per_node": 1,
        "retry": {},
        "outputs": [{"name": "out", "path": "/job/out", "from": "all"}],
    }
    more = {**fields, "setup": ELASTIC, "run": '[ -s "${outputs.out}/hosts" ]; sleep 1'}
    (tmp_path / "job.yaml").write_text(json.dumps(spec("local", os.environ["PATH"], **more)))

    assert run(["apply", "job.yaml"]) == 0
    assert run(["fetch", "job", str(tmp_path / "kept")]) == 0

    found = sorted(path.read_text() for path in (tmp_path / "kept").rglob("hosts"))
    assert found == ["127.0.0.1\n", "127.0.0.2\n"]
    more["setup"] = ELASTIC.replace("! -e", "-e")
    (tmp_path / "job.yaml").write_text(json.dumps(spec("local", os.environ["PATH"], **more)))
    capsys.readouterr()
    assert run(["apply", "job.yaml", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["reason"].endswith("setup failed with exit code 5")


def test_a_setup_that_fails_on_one_node_is_tried_again_on_slurm(
    project: Project, torchrun: str
) -> None:
    fields = spec("slurm", torchrun)

    found = project.ended(fields.pop("run"), **fields)

    assert found["state"] == "succeeded", project.log()
    assert all(0 <= node["attempts"][1]["setup_s"] < 60 for node in project.status()["nodes"])
    log = project.log()
    assert log.count("runspec: setup begins") == 4
    files = project.fetched()
    assert {text for name, text in files.items() if name.endswith("setup")} == {
        "0 it's\n0 it's\n",
        "1 it's\n1 it's\n",
    }
    assert len([name for name in files if "process-" in name]) == 4
    last = project.ended("true", name="other", setup=["sh", "-c", "exit 3"])
    assert (last["state"], last["exit_code"]) == ("failed", 3)
    assert last["reason"] == "setup failed with exit code 3"
