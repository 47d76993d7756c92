"""Jobs as Azure Batch starts them: by the lines in docs/agent.md, with its variables, and no number of the try."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.retry.failure_count import AGAIN
from runspec_agent.store.base import Bucket
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.provider.payload import pack_agent
from tests.support.agent.breakable_stores import Way
from tests.support.agent.process_nodes import fake_mpirun as fake_mpirun
from tests.support.process_table import marked
from tests.support.root import ROOT
from tests.support.wait import until
from tests.unit.runspec_agent.job.test_agent import MODEL, RECORD, sh

pytestmark = pytest.mark.slow
DOC = ROOT / "docs" / "agent.md"
SINGLE, EVERY, COORDINATION, APPLICATION, NODES = [
    line
    for block in re.findall(
        r"```text\n(.*?)```", DOC.read_text().partition("## On Azure Batch")[2], re.DOTALL
    )
    for line in block.splitlines()
]
HOSTS = ("127.0.0.11", "127.0.0.12", "127.0.0.13")


@pytest.fixture
def kind() -> str:
    return "blob"


class Service:
    """Runs tasks with their folders and variables, and writes their streams to files.

    https://learn.microsoft.com/en-us/azure/batch/batch-compute-node-environment-variables
    https://learn.microsoft.com/en-us/azure/batch/batch-mpi
    """

    def __init__(self, bucket: Bucket, folder: Path, **env: str) -> None:
        self.bucket, self.folder, self.more = bucket, folder, env
        self.started: list[subprocess.Popen[bytes]] = []

    def puts(self, **record: Any) -> None:
        self.bucket.put("runs/r/record.json", json.dumps({**RECORD, **record}).encode())

    def starts(
        self, line: str, node: int = 0, main: int = 0, hosts: str = "", **env: str
    ) -> subprocess.Popen[bytes]:
        """Start *line* on *node*; what an earlier try has said there is overwritten."""
        at = self.folder / f"node {node}"
        for name in ("wd", "shared"):
            (at / name).mkdir(parents=True, exist_ok=True)
            if not (at / name / "inside.pyz").exists():  # others may be reading it
                (at / name / "inside.pyz").write_bytes(pack_agent())
        whole = {
            "PATH": os.environ["PATH"],
            "RUNSPEC_RUN": "r",
            "RUNSPEC_STORE": os.environ["RUNSPEC_STORE"],
            "RUNSPEC_BLOB_URL": os.environ["RUNSPEC_BLOB_URL"],
            "RUNSPEC_SAS": os.environ["RUNSPEC_SAS"],
            "RUNSPEC_TASK": "7",
            "RUNSPEC_WORDS": f"{EVERY} {NODES}",
            "RUNSPEC_BELOW": str(at / "root"),
            "AZ_BATCH_JOB_ID": "r",
            "AZ_BATCH_NODE_ID": f"tvm-{node}",
            "AZ_BATCH_TASK_DIR": str(at),
            "AZ_BATCH_TASK_WORKING_DIR": str(at / "wd"),
            "AZ_BATCH_TASK_SHARED_DIR": str(at / "shared"),
            "AZ_BATCH_NODE_MOUNTS_DIR": str(self.folder / "mounts"),
            "TMPDIR": str(self.folder),
            **self.more,
            **env,
        }
        whole = {name: value for name, value in whole.items() if value}
        if hosts:
            whole["AZ_BATCH_HOST_LIST"] = hosts
            whole["AZ_BATCH_MASTER_NODE"] = f"{hosts.split(',')[main]}:6000"
            whole["AZ_BATCH_IS_CURRENT_NODE_MASTER"] = str(node == main).lower()
        with (at / "stdout.txt").open("ab" if line == APPLICATION else "wb") as log:
            child = subprocess.Popen(
                shlex.split(line),
                cwd=at / "wd",
                env=whole,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(child)
        return child

    def runs(self, **env: str) -> int:
        return self.starts(SINGLE, 0, 0, "", **env).wait(60)

    def runs_on(self, nodes: int, main: int = 0) -> int:
        """Run a multi-instance task once; give the code of its application command."""
        hosts = ",".join(HOSTS[:nodes])
        begun = [self.starts(COORDINATION, n, main, hosts) for n in range(nodes)]
        assert [child.wait(60) for child in begun] == [0] * nodes
        return self.starts(APPLICATION, main, main, hosts).wait(90)

    def ends_all(self) -> None:
        """As the service ends what it started on other nodes, when the main node's command has ended."""
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)

    def kept(self, rank: int = 0, number: int = 1, ending: str = "txt") -> str:
        return (self.bucket.get(f"runs/r/logs/7/{rank}/{number}.{ending}") or b"").decode()

    def said(self, node: int = 0) -> str:
        return (self.folder / f"node {node}" / "stdout.txt").read_text()

    def left(self) -> list[int]:
        """Give the agents that still run."""
        return marked(f"AZ_BATCH_NODE_MOUNTS_DIR={self.folder}/mounts")

    def close(self) -> None:
        self.ends_all()
        for child in self.started:
            child.wait()


@pytest.fixture
def service(bucket: Bucket, tmp_path: Path, fake_mpirun: str) -> Iterator[Service]:
    found = Service(bucket, tmp_path, PATH=fake_mpirun)
    yield found
    found.close()


def test_a_task_runs_what_its_record_says(service: Service) -> None:
    service.puts(argv=[*sh('echo "$RUNSPEC_TASK $RUNSPEC_ATTEMPT <$1>"'), "sh", "a 'b\" $HOME"])

    assert (service.runs(), service.said()) == (0, "7 1 <a 'b\" $HOME>\n")


def test_the_program_gets_no_signature_of_the_service(service: Service) -> None:
    """It sees the contract, and no signature."""
    service.puts(argv=["env"])

    service.runs()

    found = {line.partition("=")[0] for line in service.said().splitlines()}
    others = "SAS WORDS LOG SHARED NODE_NAMES MAIN IS_MAIN NODE_ID".split()
    assert "RUNSPEC_ATTEMPT" in found
    assert found.isdisjoint(f"RUNSPEC_{name}" for name in others)


def test_tries_are_numbered_and_counted(service: Service) -> None:
    service.puts(argv=[*sh("echo try $RUNSPEC_ATTEMPT; exit 4")], attempts=3)

    codes = [service.runs() for _ in range(3)]

    assert codes == [AGAIN, AGAIN, 4]
    assert service.kept(number=1) == "try 1\nrunspec: failed with 4; this was attempt 1 of 3\n"
    assert service.kept(number=2) == "try 2\nrunspec: failed with 4; this was attempt 2 of 3\n"
    assert service.kept(number=3) == "try 3\n"
    indexes = [service.kept(number=n, ending="times").splitlines() for n in (1, 2, 3)]
    assert [int(lines[-1].split()[0]) for lines in indexes] == [
        len(service.kept(number=n)) for n in (1, 2, 3)
    ]
    assert (service.folder / "node 0" / "wd" / "stdout.times").read_text() == service.kept(
        number=3, ending="times"
    )


def test_a_try_after_a_machine_that_went_has_the_next_number(service: Service) -> None:
    """And goes on from what was saved; it counts as no failure."""
    script = 'cat "$RUNSPEC_OUTPUT_MY_MODEL/f"; echo $RUNSPEC_ATTEMPT | tee "$RUNSPEC_OUTPUT_MY_MODEL/f"; '
    output = {**MODEL, "sync_s": 0.1}
    service.puts(argv=[*sh(script + "sleep 60")], outputs=[output])
    first = service.starts(SINGLE)
    until(lambda: service.bucket.get("runs/r/outputs/my-model/7/0/.runspec/manifest.json"))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    service.puts(argv=[*sh(script)], outputs=[output])

    assert (service.runs(), service.said()) == (0, "1\n2\n")


def test_an_ended_signature_is_one_clear_line(service: Service, blobs: Blobs) -> None:
    service.puts(argv=["true"])

    code = service.runs(RUNSPEC_SAS=blobs.sas("inside", lasts_s=-60))

    why = "runspec: the store rejects the signature of this run (RUNSPEC_SAS): it expired at "
    assert (code, service.said()[: len(why)], service.said().count("\n")) == (77, why, 1)
    assert "sig=" not in service.said()


def test_outputs_of_a_container_lie_on_the_large_disk(service: Service, tmp_path: Path) -> None:
    """Its own root does not."""
    words = {"RUNSPEC_WORDS": f"{EVERY} RUNSPEC_DISK=AZ_BATCH_TASK_WORKING_DIR"}
    (tmp_path / "image").mkdir()
    output = {**MODEL, "path": f"{tmp_path}/image/job/model"}
    script = 'pwd -P; echo x >"$RUNSPEC_OUTPUT_MY_MODEL/f"; env | grep DISK'
    service.puts(argv=[*sh(f'cd "$RUNSPEC_OUTPUT_MY_MODEL"; {script}')], outputs=[output])

    code = service.runs(RUNSPEC_BELOW="", **words)

    large = tmp_path / "node 0" / "wd"
    assert (code, service.said()) == (1, f"{large}{tmp_path}/image/job/model\n")  # of grep
    assert (tmp_path / "image" / "job").is_symlink()
    assert service.bucket.get("runs/r/outputs/my-model/7/0/f") == b"x\n"


def test_a_shared_file_system_is_where_the_machine_has_it(service: Service, tmp_path: Path) -> None:
    mount = {"name": "all", "target": "/in/all", "kind": "folder", "path": "fs/mine"}
    service.puts(argv=[*sh('echo x >"$RUNSPEC_MOUNT_ALL/f"')], mounts=[mount])

    assert service.runs() == 0
    assert (tmp_path / "mounts/fs/mine/f").read_text() == "x\n"


# Several nodes


@pytest.mark.parametrize("main", [0, 1])
def test_the_program_runs_on_every_node_and_the_first_waits(service: Service, main: int) -> None:
    """Each knows all of them; the log of each is kept, to its last line."""
    script = (
        '[ $RUNSPEC_RANK = 0 ] || sleep 1; echo "$RUNSPEC_RANK $RUNSPEC_ATTEMPT $RUNSPEC_HOST $RUNSPEC_LEADER"; '
        'cat "$RUNSPEC_HOSTFILE"'
    )
    service.puts(shape="nodes", nodes=3, argv=[*sh(script)])

    assert service.runs_on(3, main) == 0

    hosts = [HOSTS[main], *(h for h in HOSTS if h != HOSTS[main])]
    file = "".join(f"{host} slots=1\n" for host in hosts)
    for rank, host in enumerate(hosts):
        assert service.kept(rank) == f"{rank} 1 {host} {hosts[0]}\n{file}"


def test_the_log_of_a_node_is_kept_before_the_first_hears_of_its_end(
    service: Service, way: Way
) -> None:
    """The service ends it then."""
    service.puts(shape="nodes", nodes=2, argv=[*sh("echo $RUNSPEC_RANK; sleep 0.5")])
    way.breaks("503", "PUT", "logs/7/1/", times=2)

    assert service.runs_on(2) == 0
    service.ends_all()

    assert service.kept(1) == "1\n"
    assert service.kept(1, ending="times").startswith("2 ")


def test_a_node_that_fails_fails_the_task_and_all_try_again(service: Service) -> None:
    """With the same number on all; nothing of the first try stays."""
    script = (
        "echo $RUNSPEC_RANK $RUNSPEC_ATTEMPT; [ $RUNSPEC_RANK$RUNSPEC_ATTEMPT != 11 ] || exit 6"
    )
    service.puts(shape="nodes", nodes=2, attempts=2, argv=[*sh(script)])

    assert [service.runs_on(2), service.runs_on(2)] == [AGAIN, 0]

    assert [service.kept(r, n).splitlines()[0] for n in (1, 2) for r in (0, 1)] == [
        "0 1",
        "1 1",
        "0 2",
        "1 2",
    ]
    until(lambda: not service.left())


def test_the_failure_of_the_first_node_ends_programs_on_the_others(service: Service) -> None:
    """The service may not know of what is in the background."""
    script = (
        "[ $RUNSPEC_RANK = 0 ] && { sleep 3; exit 3; }; trap 'echo told; exit' TERM; "
        "while :; do sleep 0.1; done"
    )
    service.puts(shape="nodes", nodes=2, argv=[*sh(script)])

    assert service.runs_on(2) == 3

    until(lambda: not service.left())
    assert (
        service.kept(1) == "runspec: the first node has ended: the program is told to end\ntold\n"
    )


def test_a_launcher_finds_the_nodes(service: Service) -> None:
    script = 'echo "$RUNSPEC_RANK $RUNSPEC_HOST"'
    service.puts(shape="nodes", nodes=3, launch="mpi", argv=[*sh(script)])

    assert service.runs_on(3, main=2) == 0

    found = "".join(service.said(n) for n in range(3)).splitlines()
    assert sorted(found) == ["0 127.0.0.13", "1 127.0.0.11", "2 127.0.0.12"]


def test_a_node_that_cannot_say_that_it_is_here_fails_its_coordination(
    service: Service, way: Way
) -> None:
    """So that the task fails, and nobody waits."""
    service.puts(shape="nodes", nodes=2, argv=["true"])
    way.breaks("403", "PUT", "nodes/7/1", times=100)
    hosts = ",".join(HOSTS[:2])

    assert service.starts(COORDINATION, 1, 0, hosts).wait(60) == AGAIN
    assert "the store refuses runs/r/nodes/7/1: 403" in service.said(1)
