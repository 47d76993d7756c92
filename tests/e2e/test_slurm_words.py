"""Slurm's own words in a job file reach a real Slurm, which does what they say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_emulators.slurm import Cluster
from runspec_jobs.api import cleanup
from tests.support.requirements import need
from tests.support.slurm.project import Project, project as project  # a fixture
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
SENT = '#!/bin/sh\nprintf "%s\\n" "$*" >>"${0%/*}/sent"\n'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give two nodes with a feature of their own each, a license, a reservation, and a program for mail."""
    need(*PROGRAMS)
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "mail").write_text(SENT)
    (folder / "mail").chmod(0o755)
    more = {"Licenses": "tool:2", "MailProg": str(folder / "mail")}
    with Cluster(folder, 2, more=more, prolog=True, address_in="RUNSPEC_HOST") as found:
        for node, feature in (("node1", "fast"), ("node2", "ib")):
            found.run("scontrol", "update", f"NodeName={node}", f"Features={feature}")
        found.run(
            *"scontrol create reservation Reservation=night StartTime=now Duration=60 Nodes=node2".split(),
            f"Users={found.user}",
        )
        yield found


def test_a_job_says_where_when_and_how_it_runs(project: Project) -> None:
    words = {
        "exclusive": True,
        "constraint": "ib|fast",
        "nodelist": "node2",
        "exclude": "node1",
        "reservation": "night",
        "licenses": ["tool:1"],
        "begin": "now+1seconds",
        "comment": 'it\'s "mine" $HOME `x` #1',
        "mail_type": ["END"],
    }
    project.profile(mail_user="me@example.org")

    found = project.ended("echo on $SLURMD_NODENAME", providers={"slurm": words})
    number = project.jobs("%i")[0]
    shown = project.cluster.run("scontrol", "show", "job", number)

    assert (found["state"], project.log()) == ("succeeded", "on node2\n")
    assert project.jobs("%k") == [words["comment"]]
    for said in ("Licenses=tool:1", "Features=ib|fast", "ReqNodeList=node2", "ExcNodeList=node1"):
        assert said in shown
    assert "Reservation=night" in shown
    assert "OverSubscribe=NO" in shown
    assert "NumCPUs=2" in shown
    sent = project.cluster.places.folder / "sent"
    project.until(lambda: sent.exists() and "me@example.org" in sent.read_text())


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ({"constraint": "none"}, "change option constraint"),
        ({"licenses": ["none:1"]}, "scontrol show licenses"),
        ({"exclude": "node9"}, "options nodelist and exclude"),
        ({"reservation": "none"}, "scontrol show reservations"),
    ],
)
def test_an_option_that_the_cluster_lacks_is_refused_with_a_hint(
    project: Project, words: dict[str, object], hint: str
) -> None:
    code, _, err = project.said("apply", project.write("true", providers={"slurm": words}))

    assert (code, hint in err) == (69, True), err


def test_a_job_file_sends_no_mail_to_others(project: Project, tmp_path: Path) -> None:
    words = {"mail_type": ["END"], "mail_user": "other@example.org"}

    code, _, err = project.said("apply", project.write("true", providers={"slurm": words}))

    assert code == 2
    assert "mail_user" in err and "profile" in err


def test_a_run_with_a_ttl_goes_with_its_files_some_time_after_its_end(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = [{"name": "out", "path": "/job/out"}]
    project.ended("echo x >${outputs.out}/x", ttl="1h", outputs=outputs)
    run = project.workspace / "runs"
    real, later = cleanup.destroy_expired, time.time() + 3_700

    project.said("list")
    assert len([*run.iterdir()]) == 1
    monkeypatch.setattr(cleanup, "destroy_expired", lambda: real(later))
    code, _, err = project.said("list")

    assert code == 0
    assert "its ttl of 1 h is over: destroyed" in err
    assert [*run.iterdir()] == []
