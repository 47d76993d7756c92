"""A node watches the others: who sends no heartbeat for the lease is lost."""

from __future__ import annotations

import time
from pathlib import Path

from runspec_agent.base import job_env
from runspec_agent.base.process import Signals
from runspec_agent.rendezvous.participant import Participant


def seat(folder: Path, rank: int) -> Participant:
    env = {"RUNSPEC_MEET": str(folder), "RUNSPEC_NODES": "2", "RUNSPEC_RANK": str(rank)}
    env |= {"RUNSPEC_HOST": f"node-{rank}", "RUNSPEC_LEASE_S": "0.1"}
    return Participant(job_env.read(env), Signals())


def test_a_node_whose_heartbeat_stops_is_lost_until_it_says_how_it_ended(tmp_path: Path) -> None:
    first, second = seat(tmp_path / "meet", 0), seat(tmp_path / "meet", 1)
    assert second.meeting is not None
    second.meeting.join()
    first.meet()

    assert first.watch() is None
    time.sleep(0.2)
    lost = first.watch()
    second.end(0)

    assert lost is not None and lost.code == job_env.LOST
    assert str(lost).startswith("node 1 (node-1) has sent no heartbeat for 0.1 s")
    assert first.watch() is None
