"""A rehearsal of Slurm is a Slurm of this machine, on which the plan of any profile finds what it names."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from runspec_emulators import slurm
from runspec_jobs.provider import Unavailable
from runspec_slurm.emulator import stage
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

PROFILE = {
    "host": "me@login.example",
    "workspace": "/fsx/me",
    "partition": "efa,long",
    "spot_partition": "cheap",
    "account": "lab",
    "qos": "high",
    "gpu_types": {"A100": "ampere"},
    "shared": {"data": "/fsx/data"},
    "sbatch": ["--constraint=ib", "--exclusive", "-Cib", "--reservation=r"],
    "grace": 5,
    "constraint": "ib",
    "nodelist": "gpu7",
    "begin": "tomorrow",
    "licenses": ["matlab"],
    "mail_user": "me@example.org",
    "exclusive": True,
}


class Unstarted(slurm.Cluster):
    """A cluster with its configuration and without its daemons."""

    def _start(self) -> None: ...


def sbatch(env: dict[str, str], cwd: Path, *words: str) -> str:
    done = subprocess.run(
        ["sbatch", "--wait", "--parsable", "--output=log", *words, "--wrap=env"],
        env={**os.environ, **env},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return (cwd / "log").read_text()


@pytest.mark.slow
def test_the_rehearsed_cluster_has_what_the_profile_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(*PROGRAMS)
    monkeypatch.setenv("SSL_CERT_FILE", "/the way/$out's")

    with stage(PROFILE, tmp_path, None) as found:
        options = dict(found.options)
        asked = [f"--partition={options['spot_partition']},{options['partition']}", "--qos=high"]
        asked += ["--account=lab", "--gres=gpu:ampere:8", "--tmp=1T", "--mem=500G", "--nodes=32"]
        log = sbatch(
            dict(found.env), tmp_path, *asked, *options["sbatch"], "--export-file=/dev/null"
        )

    assert "SSL_CERT_FILE=/the way/$out's\n" in log
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\n" in log
    assert "RUNSPEC_HOST=127.77.0.2\n" in log  # that of node1
    assert options["sbatch"] == ["--exclusive"]
    assert options["container"] == "none"
    assert options["grace"] == 5
    assert Path(options["shared"]["data"]).is_dir()
    assert Path(options["workspace"]).parent == tmp_path
    real = {"host", "constraint", "nodelist", "begin", "licenses", "mail_user"}
    assert not real & set(options)
    assert options["exclusive"] is True


@pytest.mark.process
def test_tasks_get_the_way_out_of_this_machine_and_the_address_of_their_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what Slurm runs before each task: https://slurm.schedmd.com/prolog_epilog.html"""
    need(*PROGRAMS)
    monkeypatch.setenv("SSL_CERT_FILE", "/the way/$out's")
    monkeypatch.setattr(slurm, "Cluster", Unstarted)

    with stage(PROFILE, tmp_path, None) as found:
        lines = Path(found.env["SLURM_CONF"]).read_text()
        (program,) = re.findall("^TaskProlog=(.+)$", lines, re.MULTILINE)
        variables = {"SLURMD_NODENAME": "node3", "CUDA_VISIBLE_DEVICES": "8,9"}
        done = subprocess.run([program], env=variables, capture_output=True, text=True, check=True)

    told = set(done.stdout.splitlines())
    assert "export SSL_CERT_FILE=/the way/$out's" in told
    assert {"export RUNSPEC_HOST=127.77.0.4", "export CUDA_VISIBLE_DEVICES=0,1"} <= told


@pytest.mark.process
def test_a_machine_without_slurm_gets_the_packages_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)

    with pytest.raises(Unavailable) as caught, stage({}, tmp_path, None):
        pass

    packages = "slurmctld slurmd slurm-client munge"
    assert (
        str(caught.value)
        == f"runspec rehearse needs Slurm on this machine: missing packages: {packages}"
    )
    assert caught.value.hint is not None
    assert f"apt-get install {packages}" in caught.value.hint
