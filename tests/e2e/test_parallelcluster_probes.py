"""`runspec doctor parallelcluster --probe`, on a Slurm of this machine behind programs that stand in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.slurm import Cluster
from runspec_jobs.cli.app import run
from runspec_jobs.state import probe_leftovers
from runspec_parallelcluster import probes
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm import fake_pcluster
from tests.support.slurm.shared_cluster import slurm as slurm
from tests.support.wait import until

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]
DESCRIBED = {
    "clusterName": "mine",
    "clusterStatus": "CREATE_COMPLETE",
    "computeFleetStatus": "RUNNING",
    "headNode": {"privateIpAddress": "127.0.0.1"},
    "tags": [],
}
# What an lfs of FSx for Lustre would say, by its documentation, of a file whose state lies beside it.
LFS = """#!/bin/sh
case $1 in
hsm_archive) echo '(0x00000009) exists archived, archive_id:1' >"$2.state" ;;
hsm_state)
  if [ ! -e "$2.state" ]; then echo "$2: (0x00000000)"
  elif [ "$2" -nt "$2.state" ]; then echo "$2: (0x0000000b) exists dirty archived, archive_id:1"
  else echo "$2: $(cat "$2.state")"; fi ;;
esac
"""
STAT = '#!/bin/sh\n[ "$*" = "-f -c %T ." ] && exec echo lustre\nexec /usr/bin/stat "$@"\n'
SUDO = '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n'
ALL = {probe.id: "confirmed" for probe in probes.probes()}


@pytest.fixture
def head(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of the head node's programs."""
    need("node")
    programs = fake_pcluster.install(tmp_path / "bin")
    for name, text in (("lfs", LFS), ("stat", STAT), ("sudo", SUDO)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (programs / "clusters").mkdir()
    (programs / "clusters" / "mine.json").write_text(json.dumps(DESCRIBED))
    own = {
        "region": "us-east-1",
        "cluster": "mine",
        "manage": False,
        "workspace": str(tmp_path / "workspace"),
        "python": sys.executable,
    }
    own_profile().write_text(json.dumps({"providers": {"parallelcluster": own}}))
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(probes, "PAUSE_S", 0.2)
    monkeypatch.setattr(probe_leftovers, "PAUSE_S", 0.1)
    monkeypatch.chdir(tmp_path)
    return programs


def probed(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    run(["doctor", "parallelcluster", "--probe", "--yes", "--json", *words])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {row["id"]: row["verdict"] for row in found["probes"]}


def test_probes_confirm_true_assumptions_and_leave_nothing(
    head: Path, tmp_path: Path, capsys: Capture
) -> None:
    found = probed(capsys)

    assert verdicts(found) == ALL, [r for r in found["probes"] if r["verdict"] != "confirmed"]
    assert found["left"] == []
    assert [p for p in (tmp_path / "workspace").rglob("*") if p.is_file()] == []
    assert probe_leftovers.list_sessions("parallelcluster") == []


def test_a_head_node_that_behaves_otherwise_is_seen(
    head: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """No fleet, no sudo, an old python, words of sacct that nobody expects, and an lfs that archives nothing."""
    cluster = {key: value for key, value in DESCRIBED.items() if key != "computeFleetStatus"}
    (head / "clusters" / "mine.json").write_text(json.dumps(cluster))
    for name, text in (
        ("sudo", "#!/bin/sh\n[ $2 = lfs ] && exit 0\necho a password is required >&2; exit 1\n"),
        ("sacct", "#!/bin/sh\necho no such thing; exit 1\n"),
        ("scontrol", "#!/bin/sh\nexit 127\n"),
    ):
        (head / name).write_text(text)
        (head / name).chmod(0o755)
    monkeypatch.setattr(probes, "ARCHIVED_S", 0.5)

    found = probed(capsys, "--only", ",".join(sorted(ALL)[:-1]))

    assert set(verdicts(found).values()) == {"refuted"}, found
    assert found["left"] == []


def test_probes_without_a_cluster_have_an_unknown_verdict(head: Path, capsys: Capture) -> None:
    (head / "clusters" / "mine.json").unlink()

    found = probed(capsys)

    assert set(verdicts(found).values()) == {"unknown"}, found
    assert found["left"] == []


@pytest.mark.parametrize("way", ["probe", "gc"])
def test_the_next_session_deletes_what_a_killed_one_made(
    head: Path, tmp_path: Path, way: str
) -> None:
    workspace, only = tmp_path / "workspace", ["--probe", "--yes", "--only"]
    probing = [
        sys.executable,
        "-m",
        "runspec_jobs",
        "doctor",
        "parallelcluster",
        *only,
        "pcluster-6",
    ]
    process = subprocess.Popen(probing, stderr=subprocess.PIPE)
    try:
        until(lambda: list(workspace.glob("runs/probe-*/log")))
    finally:
        process.kill()
        process.communicate()

    again = ["doctor", "parallelcluster", *only, "pcluster-2"]
    code = run(again if way == "probe" else ["gc", "parallelcluster", "--yes"])

    assert code == 0
    assert [p for p in workspace.rglob("*") if p.is_file()] == []
    jobs = subprocess.run(["squeue", "-h", "-o", "%j"], capture_output=True, text=True, check=True)
    assert "probe-" not in jobs.stdout
    assert probe_leftovers.list_sessions("parallelcluster") == []
