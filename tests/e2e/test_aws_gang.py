"""Several nodes on AWS Batch, rehearsed: as a multi-node job, and as an array on spot machines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import Capture, ended, jobs, write
from tests.support.aws.log_following import until

pytestmark = pytest.mark.slow


def test_nodes_on_spot_meet_through_the_store(region: Region, capsys: Capture) -> None:
    job = write(
        "echo ready",
        cluster={"nodes": 2, "capacity": "spot"},
    )

    assert run(["apply", job]) == 0

    captured = capsys.readouterr()
    assert "multi-node jobs do not run on spot machines" in captured.err
    assert sorted(captured.out.splitlines()) == ["[node 0] ready", "[node 1] ready"]


@pytest.mark.parametrize("capacity", ["on-demand", "spot"])
def test_every_node_knows_the_others(region: Region, capsys: Capture, capacity: str) -> None:
    job = write(
        'echo "$RUNSPEC_HOST of $(cut -d" " -f1 "$RUNSPEC_HOSTFILE" | tr "\\n" " ")led by $RUNSPEC_LEADER"',
        cluster={"nodes": 2, "capacity": capacity},
    )

    assert run(["apply", job]) == 0

    said = sorted(
        re.findall(r"\[node \d\] (\S+) of (\S+ \S+) led by (\S+)", capsys.readouterr().out)
    )
    assert len(said) == 2
    assert {hosts for _, hosts, _ in said} == {said[0][1]}
    assert {leader for _, _, leader in said} == {said[0][1].split()[0]}


def test_a_gang_ends_when_all_of_it_has_ended_and_fails_with_any_of_it(
    region: Region, capsys: Capture
) -> None:
    job = write('[ "$RUNSPEC_RANK" = 0 ] || { sleep 1; exit 6; }', cluster={"nodes": 3})

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 6)


def test_cancel_waits_for_every_node(region: Region, tmp_path: Path) -> None:
    """The job is over for its service as soon as its main node is."""
    stubborn = f"""
        if [ "$RUNSPEC_RANK" = 0 ]; then exec sleep 60; fi
        trap "" TERM; touch {tmp_path}/on; sleep 60"""
    assert run(["apply", write(stubborn, cluster={"nodes": 2}), "--detach"]) == 0
    until((tmp_path / "on").exists)

    assert run(["cancel", "job"]) == 0

    assert not any(job["running"] for job in jobs(region))


def test_a_gang_whose_second_node_fails_succeeds_by_its_next_attempt(
    region: Region, capsys: Capture
) -> None:
    """The main node waits for the others, and the service takes no action when one of them dies."""
    fails = '[ "$RUNSPEC_RANK$RUNSPEC_ATTEMPT" != 11 ] || exit 7; sleep 2'
    job = write(fails, cluster={"nodes": 2}, retry={"attempts": 3})

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("succeeded", 0)
