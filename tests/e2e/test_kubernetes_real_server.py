"""A run of one node on a real API server, by the command line.

Kubernetes 1.20, which the tests build, has neither indexes of Jobs nor suspended ones: what needs these is tried on the
emulator, and on the cluster of RUNSPEC_KUBECONFIG.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kubernetes.api import Api
from tests.support.kubernetes.cluster import api, control_plane, kubernetes, namespace
from tests.support.profiles import own_profile
from tests.support.wait import until

__all__ = ["api", "control_plane", "kubernetes", "namespace"]
pytestmark = [pytest.mark.slow, pytest.mark.matrix]
# The command `runspec`, which else refuses this version: Jobs of one index that end with their first pod can be tried.
RUNSPEC = (
    "import sys; from runspec_kubernetes import session; session.LEAST = (1, 20); "
    "from runspec_jobs.__main__ import main; sys.exit(main())"
)


@pytest.fixture
def folder(
    kubernetes: Path, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Give a folder whose jobs run in the namespace of the test."""
    monkeypatch.setenv("KUBECONFIG", str(kubernetes))
    monkeypatch.chdir(tmp_path)
    profile = {"providers": {"kubernetes": {"namespace": namespace}}}
    own_profile().write_text(json.dumps(profile))
    return tmp_path


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUNSPEC, *words], capture_output=True, text=True, timeout=200
    )


def write(script: str) -> str:
    spec = {"apiVersion": "runspec/v1", "name": "real", "provider": "kubernetes", "run": script}
    Path("job.yaml").write_text(json.dumps(spec))
    return "job.yaml"


@pytest.mark.usefixtures("folder")
def test_run_succeeds(api: Api, namespace: str) -> None:
    """A run has its end, its log and its Job."""
    done = call("apply", write('echo "hello $HOME"; id -u'), "--json")

    found_run = json.loads(done.stdout)
    assert (found_run["state"], done.returncode) == ("succeeded", 0), done.stderr
    assert call("logs", found_run["run"]).stdout.splitlines() == ["hello /runspec/home", "1000"]
    jobs = api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
    assert [job["metadata"]["name"] for job in jobs] == [found_run["run"]]


@pytest.mark.usefixtures("folder")
def test_shell_of_a_run() -> None:
    """A command in the pod of a run has the environment of its program, and its exit code."""
    started = call("apply", "--detach", write("export INNER=1; sleep 60"), "--json")
    name = json.loads(started.stdout)["run"]
    until(lambda: json.loads(call("status", name, "--json").stdout)["state"] == "running")

    done = call("shell", name, "--", "sh", "-c", "echo in $RUNSPEC_RUN; exit 4")

    assert (done.stdout, done.returncode) == (f"in {name}\n", 4), done.stderr
