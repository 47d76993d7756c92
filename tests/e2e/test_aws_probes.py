"""`runspec doctor aws-batch --probe`, against a region that behaves as believed, and against one that does not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_aws import session as sessions
from runspec_aws.options import AwsOptions
from runspec_aws.probes import jobs
from runspec_aws.probes.beliefs import probes
from runspec_emulators.aws.batch import schedule
from runspec_emulators.aws.batch.jobs import Job
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.errors import ServiceError, refused
from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from runspec_jobs.errors import CredentialsError
from runspec_jobs.state import probe_leftovers
from tests.support.aws.emulated_account import Capture, calls, left, profile
from tests.support.http_server import Reply, Server
from tests.support.wait import until

pytestmark = pytest.mark.slow
ALL = {probe.id: "confirmed" for probe in probes(AwsOptions())}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PAUSE_S", 0.1)
    monkeypatch.setattr(jobs, "SPOT_S", 3.0)
    monkeypatch.setattr(probe_leftovers, "PAUSE_S", 0.1)


def probed(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    run(["doctor", "aws-batch", "--probe", "--yes", "--json", *words])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {row["id"]: row["verdict"] for row in found["probes"]}


def test_probes_confirm_true_assumptions_and_leave_nothing(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    keys = dict.fromkeys(jobs.KEYS, "x")
    reply = Reply(200, {}, json.dumps(keys).encode())
    with Server(lambda request: reply) as server:
        settings = {"credentials_uri": f"{server.url}/role", "terminate_grace_s": 60.0}
        region.control("PUT", "settings", settings)
        found = probed(capsys)

    assert verdicts(found) == ALL, found
    assert found["left"] == left(region, tmp_path) == []
    assert probe_leftovers.list_sessions("aws-batch") == []


def unconditional(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have S3 never see a condition: it writes whatever is there."""
    opened = sessions.Session.new_client

    def without(self: sessions.Session, service: str, config: Any) -> Any:
        client = opened(self, service, config)
        client.meta.events.register("before-sign.s3.PutObject", _bare, unique_id="bare")
        return client

    monkeypatch.setattr(sessions.Session, "new_client", without)


def _bare(request: Any, **_: Any) -> None:
    for header in ("If-None-Match", "If-Match"):
        del request.headers[header]


def test_s3_that_overlooks_conditions_is_seen(
    region: Region, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    unconditional(monkeypatch)

    found = probed(capsys, "--only", "aws-1,aws-2,aws-3,aws-6")

    refuted = dict.fromkeys(("aws-1", "aws-2", "aws-3"), "refuted")
    assert verdicts(found) == {**refuted, "aws-6": "confirmed"}, found
    assert left(region, tmp_path) == []


def test_a_service_that_behaves_otherwise_is_seen(
    region: Region, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    """Lists lag, what waits cannot be terminated, nothing is tried again, and SIGKILL follows SIGTERM at once."""
    settings = {"list_lag_s": 2.5, "terminate_grace_s": 0.0}
    region.control("PUT", "settings", settings)
    ending = schedule.terminate

    def terminate(world: World, job: Job, reason: str) -> None:
        if job.status in ("RUNNING", "STARTING") or reason != jobs.REASON:
            ending(world, job, reason)

    monkeypatch.setattr(schedule, "terminate", terminate)
    monkeypatch.setattr("runspec_emulators.aws.batch.retries.again", lambda *_: False)
    monkeypatch.setattr("runspec_emulators.aws.batch.environments.refused", reworded)
    monkeypatch.setattr("runspec_emulators.aws.batch.placing.takes", lambda *_: True)
    monkeypatch.setattr(jobs, "SHOWN_S", 3.0)

    only = "aws-20,aws-21,aws-22,aws-23,aws-24,aws-25,aws-27,aws-28,aws-29"
    found = probed(capsys, "--only", only)

    assert set(verdicts(found).values()) == {"refuted"}, found
    assert left(region, tmp_path) == []


def reworded(message: str) -> ServiceError:
    return refused(message.replace("already exists", "is taken"))


def test_a_probe_without_its_means_has_an_unknown_verdict(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    profile(tmp_path, subnets=[])

    found = probed(capsys, "--only", "aws-20")

    assert verdicts(found) == {"aws-20": "unknown"}, found
    assert "subnets" in found["probes"][0]["seen"]
    assert left(region, tmp_path) == []


def begun(region: Region) -> Iterator[subprocess.Popen[str]]:
    """Start probes in a process of their own; give it when its array is submitted."""
    words = ["doctor", "aws-batch", "--probe", "--yes", "--only", "aws-1,aws-20,aws-21,aws-23"]
    process = subprocess.Popen(
        [sys.executable, "-m", "runspec_jobs", *words], stderr=subprocess.PIPE, text=True
    )
    try:
        until(lambda: calls(region, "SubmitJob"))
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("way", ["probe", "gc", "elsewhere"])
def test_the_next_session_deletes_what_a_killed_one_made(
    region: Region, tmp_path: Path, capsys: Capture, way: str
) -> None:
    region.control("PUT", "settings", {"runnable_s": 3600.0})
    for process in begun(region):
        process.kill()
        process.wait()
    (session,) = probe_leftovers.list_sessions("aws-batch")
    assert os.stat(session.path).st_mode & 0o777 == 0o600
    assert left(region, tmp_path) != []

    again = ["doctor", "aws-batch", "--probe", "--yes", "--only", "aws-1"]
    words = {"probe": again, "gc": ["gc", "aws-batch", "--yes"]}
    if way == "elsewhere":  # by names and tags alone
        shutil.rmtree(session.path.parent)
        words[way] = ["gc", "aws-batch", "--yes", "--alive"]
    code = run(words[way])

    assert code == 0
    assert left(region, tmp_path) == []
    assert probe_leftovers.list_sessions("aws-batch") == []


def test_ctrl_c_ends_the_probes_and_takes_away_what_they_made(
    region: Region, tmp_path: Path
) -> None:
    region.control("PUT", "settings", {"runnable_s": 3600.0})
    for process in begun(region):
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1]

        assert process.returncode == 130, said
        assert "interrupted; deleting the resources of the probes" in said
    assert left(region, tmp_path) == []
    assert probe_leftovers.list_sessions("aws-batch") == []


def test_a_probe_prints_how_to_delete_what_it_could_not_delete(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The rights to delete are missing; with them, gc does it later."""
    refused = {"runspec_aws.client.objects.Objects.empty": denied}
    with monkeypatch.context() as patched:
        for name, by in refused.items():
            patched.setattr(name, by)
        found = probed(capsys, "--only", "aws-6")
        told = capsys.readouterr()

    (one,) = found["left"]
    assert one["by_hand"].startswith("aws s3 rm --recursive s3://jobs/"), told
    assert left(region, tmp_path) != []
    run(["gc", "aws-batch", "--yes"])
    assert left(region, tmp_path) == []


def denied(*_: object) -> None:
    raise CredentialsError("delete_objects: Access Denied")
