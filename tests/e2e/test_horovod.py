"""What Horovod's own code does with the nodes of a job: its host discovery and its launcher; nothing of it is built."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.conftest import REAL_CACHE
from tests.support.agent.elastic_nodes import Elastic
from tests.support.agent.process_nodes import Nodes
from tests.support.saved_outputs import saved

pytestmark = pytest.mark.slow

HOROVOD = "0.28.1"
# Modules that its discovery imports by the way, and asks for nothing here.
UNUSED = {"psutil.py": "net_if_addrs = None\n", "cloudpickle.py": ""}
# Reads the script as `horovodrun --host-discovery-script` does, and is done when it is alone after others were there.
PROGRAM = """\
import json, os, sys, time
from horovod.runner.elastic.discovery import HostDiscoveryScript, HostManager


def main():
    manager = HostManager(HostDiscoveryScript(os.environ["RUNSPEC_DISCOVERY"], slots=7))
    manager.update_available_hosts()
    found = manager.current_hosts.host_slots
    own = os.path.join(os.environ["RUNSPEC_OUTPUT_OWN"], os.environ["RUNSPEC_GENERATION"])
    with open(own, "w") as file:
        json.dump([int(os.environ["RUNSPEC_NODES"]), found], file)
    if not os.path.exists(sys.argv[1]):
        time.sleep(600)


if __name__ == "__main__":  # Horovod starts the script by multiprocessing
    main()
"""


@pytest.fixture(scope="module")
def horovod() -> Path:
    """A folder with Horovod's sources, got once by pip: 3.5 MB.

    pip asks its setup.py for its name and version, which takes a setuptools that still has pkg_resources.
    """
    made = Path(REAL_CACHE) / "runspec-tests" / f"horovod-{HOROVOD}"
    made.mkdir(parents=True, exist_ok=True)
    with (made / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "horovod").exists():
            bound = made / "bound.txt"
            bound.write_text("setuptools<81\n")
            pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
            words = ["--no-deps", "--no-binary", ":all:", "-d", str(made), f"horovod=={HOROVOD}"]
            env = {**os.environ, "PIP_CONSTRAINT": str(bound)}
            subprocess.run([*pip, *words], check=True, env=env)
            _unpack(made)
    return made


def _unpack(made: Path) -> None:
    for name, text in UNUSED.items():
        (made / name).write_text(text)
    top = f"horovod-{HOROVOD}/"
    wanted = (f"{top}horovod/runner", f"{top}horovod/common")
    with tarfile.open(made / f"horovod-{HOROVOD}.tar.gz") as archive:
        for member in archive:
            # Python 3.11.2 has no filter to unpack with: only the content of regular files is taken.
            if member.isfile() and member.name.startswith(wanted):
                _write(made / "new" / member.name, archive.extractfile(member))
    (made / "new" / top / "horovod" / "__init__.py").touch()
    os.rename(made / "new" / top / "horovod", made / "horovod")


def _write(path: Path, content: IO[bytes] | None) -> None:
    assert content is not None, "BUG: a regular file has content"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.read())


@pytest.fixture
def job(horovod: Path, tmp_path: Path) -> Iterator[Elastic]:
    (tmp_path / "program.py").write_text(PROGRAM)
    argv = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "enough")]
    outputs = [{"name": "own", "path": "/own", "sync_s": 0.5, "from": "all"}]
    found = Elastic(tmp_path, argv, 1, 2, slots=2, outputs=outputs)
    found.env["PYTHONPATH"] = str(horovod)
    yield found
    found.close()


def test_horovod_finds_the_nodes_that_there_are(job: Elastic, tmp_path: Path) -> None:
    """Two with two processes each; and when one is lost, the other."""
    job.start(0, 1)
    job.until(lambda: sorted(job.seats()) == [0, 1], "two run")
    both = tmp_path / "store/runs" / job.run.name / "outputs/own/0"
    two = str(job.state()["generation"])
    job.until(lambda: all(two in saved(both / str(seat)) for seat in (0, 1)), "both look")

    job.kill(0)
    (tmp_path / "enough").touch()

    assert job.ended(1) == 0
    hosts = {"127.0.0.1": 2, "127.0.0.2": 2}
    assert [json.loads(saved(both / str(seat))[two]) for seat in (0, 1)] == [[2, hosts]] * 2
    last = str(job.state()["generation"])
    assert json.loads(saved(both / "1")[last]) == [1, {"127.0.0.2": 2}]


# The launcher: Horovod's own Gloo launcher, and ranks that need nothing of Horovod.

SAYS = """\
import json, os, sys, time
names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "HOSTNAME", "GLOO_IFACE")
found = {name: os.environ["HOROVOD_" + name] for name in names}
place = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], os.environ["RUNSPEC_RANK"], os.environ["TOKEN"]
shown = b""
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        mine = os.environ["RUNSPEC_RUN"].encode() in open(f"/proc/{pid}/environ", "rb").read()
        shown += open(f"/proc/{pid}/cmdline", "rb").read() if mine else b""
    except OSError:  # it has ended
        pass
told = os.environ["TOKEN"].encode() in shown
open("said-" + os.environ["HOROVOD_RANK"], "w").write(json.dumps([found, place, told]))
if os.environ["HOROVOD_RANK"] == sys.argv[1]:
    sys.exit(7)
if len(sys.argv) > 2:
    time.sleep(600)
"""
SECRET = "canary-1b2c"


@pytest.fixture
def nodes(horovod: Path, tmp_path: Path) -> Iterator[Nodes]:
    """Two nodes of two slots, whose Python finds Horovod's sources."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "horovodrun").touch(0o755)
    words = {"RUNSPEC_LAUNCH": "horovod", "RUNSPEC_SLOTS": "2", "RUNSPEC_GRACE_S": "1"}
    more = {"PYTHONPATH": str(horovod), "TOKEN": SECRET}
    (tmp_path / "says.py").write_text(SAYS)
    found = Nodes(tmp_path, 2, {**words, **more}, f"{programs}:{os.environ['PATH']}")
    yield found
    found.close()


def test_horovods_launcher_starts_the_ranks_of_all_nodes_without_ssh(
    nodes: Nodes, tmp_path: Path
) -> None:
    """Each in its own node's folder and with its variables, none of which is in a command line."""
    nodes.start_all(["python3", str(tmp_path / "says.py"), "none"])

    assert nodes.codes(120) == [0, 0], [nodes.said(rank) for rank in range(2)]
    assert nodes.left() == []
    for rank in range(4):
        node = rank // 2
        found, place, told = json.loads((nodes.home(node) / f"said-{rank}").read_text())
        assert place == ["127.0.0.1", str(node), SECRET]
        assert not told
        assert found == {
            "RANK": str(rank),
            "SIZE": "4",
            "LOCAL_RANK": str(rank % 2),
            "LOCAL_SIZE": "2",
            "CROSS_RANK": str(node),
            "HOSTNAME": f"node-{node}",
            "GLOO_IFACE": "lo",
        }


@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_of_horovod_that_fails_ends_all_nodes(
    nodes: Nodes, tmp_path: Path, rank: int
) -> None:
    """With its code; the other ranks wait for ever."""
    nodes.start_all(["python3", str(tmp_path / "says.py"), str(rank), "wait"])

    assert nodes.codes(120) == [7, 7], [nodes.said(rank) for rank in range(2)]
    assert nodes.left() == []


def test_an_image_without_horovod_is_told(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "bin" / "horovodrun").unlink()

    nodes.start_all(["true"])

    assert nodes.codes(120) == [127, 127]
    assert "launch: horovod needs horovodrun on PATH" in nodes.said(0)
