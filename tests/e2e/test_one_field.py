"""One file, one changed field: the same job on this machine and on each cloud, rehearsed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from tests.e2e.test_launch import mpi as mpi  # a fixture
from tests.e2e.test_slurm_nodes import TORCHRUN
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.root import ROOT
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow

CLOUDS = ("aws-batch", "azure-batch", "azure-batch-ai", "kubernetes", "parallelcluster", "slurm")
# The names that docs/inside.md promises; those of a mount, an output and a parameter as in the spec below.
TABLE = (ROOT / "docs" / "inside.md").read_text().partition("Names are in capitals")[0]
PROMISED = "\n".join(row for row in TABLE.splitlines() if "not set in every job" not in row)
CONTRACT = {
    *re.findall(r"`(RUNSPEC_[A-Z_]+)`", PROMISED),
    "RUNSPEC_MOUNT_CODE",
    "RUNSPEC_MOUNT_SET_1",
    "RUNSPEC_OUTPUT_FOUND",
    "RUNSPEC_SWEEP_LR",
    "RUNSPEC_PARAM_ODD",
}
# What a program sees of its job, on every node; addresses, folders and the run's id are the machine's own.
LOOK = """
import hashlib, json, os, sys, tempfile
own = {k: v for k, v in os.environ.items() if k.startswith("RUNSPEC_")}
rows = [line.split() for line in open(own["RUNSPEC_HOSTFILE"])]
hosts = [row[0] for row in rows]
found = {
    "names": sorted(set(own) & set(os.environ["CONTRACT"].split())),
    "counted": {k: own["RUNSPEC_" + k] for k in ("RANK", "NODES", "SLOTS", "ATTEMPT", "TASK")},
    "swept": own["RUNSPEC_SWEEP_LR"],
    "batch": own["RUNSPEC_GLOBAL_BATCH"],
    "run": own["RUNSPEC_RUN"].startswith("look-"),
    "hosts": len(set(hosts)),
    "slots": [row[1] for row in rows],
    "leader first": hosts[0] == own["RUNSPEC_LEADER"],
    "own place": hosts[int(own["RUNSPEC_RANK"])] == own["RUNSPEC_HOST"],
    "mount": sorted(os.listdir(own["RUNSPEC_MOUNT_CODE"])),
    "modes": [os.access(own["RUNSPEC_MOUNT_CODE"] + "/" + name, os.X_OK) for name in ("look.py", "tool")],
    "set": sorted(
        [os.path.relpath(os.path.join(at, name), own["RUNSPEC_MOUNT_SET_1"]),
         hashlib.sha256(open(os.path.join(at, name), "rb").read()).hexdigest()]
        for at, _, names in os.walk(own["RUNSPEC_MOUNT_SET_1"]) for name in names
    ),
    "words": [sys.argv[1:3] == [own["RUNSPEC_MOUNT_CODE"], own["RUNSPEC_OUTPUT_FOUND"]], *sys.argv[3:]],
    "signals": [line for line in open("/proc/self/status") if line.startswith(("SigBlk", "SigIgn"))],
    "umask": os.umask(0o22),
    "folders": [os.access(".", os.W_OK), os.access(tempfile.gettempdir(), os.W_OK)],
    "odd": [os.environ[name] for name in ("ODD", "RUNSPEC_PARAM_ODD", "OF_PARAM")],
    "output": os.path.isdir(own["RUNSPEC_OUTPUT_FOUND"]),
    "env": os.environ["GREETING"],
}
place = [own["RUNSPEC_RANK"], *(os.environ[name] for name in os.environ["WORLD"].split())]
path = os.path.join(own["RUNSPEC_OUTPUT_FOUND"], "-".join(place) + ".json")
open(path, "w").write(json.dumps(found))
"""


WORDS = [
    "-${sweep.lr}-",
    "${params.odd}${params.two}",
    "$${sweep.lr}",
    "a  b",
    "",
    "*",
    "$HOME `id` \\\"'",
    "é 日\n",
]
ODD = ' two\nlines\t$HOME `id` \\ "q" ${sweep} %s é日 '

# A folder of data, larger than what is sent in one piece, and with names that are no words.
DATA = {"a/deep/é x": b"1" * 3_000_000, "a/empty": b"", "b": bytes(range(256))}
PARAM = 'it\'s $(id) `id` \\ "q" é日'
ENV = {
    "OF_PARAM": "${params.odd}",
    "WORLD": "",
    "GREETING": "it's 3.10",
    "ODD": ODD,
    "CONTRACT": " ".join(sorted(CONTRACT)),
}


def spec(provider: str, **more: Any) -> str:
    found = {
        "apiVersion": "runspec/v1",
        "name": "look",
        "provider": provider,
        "cluster": {"nodes": "${params.two}"},
        "params": {"odd": PARAM, "two": 2},
        "sweep": {"lr": ["0.10"]},
        "global_batch": 60,
        "env": ENV,
        "mounts": [
            {"name": "code", "source": "./code", "target": "/job/code"},
            {"name": "set-1", "source": "./data", "target": "/job/data"},
        ],
        "outputs": [{"name": "found", "path": "/job/found"}],
        "command": [
            "python3",
            "${mounts.code}/look.py",
            "${mounts.code}",
            "${outputs.found}",
            *WORDS,
        ],
        # There nothing but mpirun starts a command on every node.
        "providers": {
            "azure-batch-ai": {} if "launch" in more else {"toolkit": "custom-mpi"},
            "local": {"engine": "process"},
        },
        **more,
    }
    path = Path(f"{provider}.yaml")
    path.write_text(json.dumps(found))
    return str(path)


# What no rehearsal can do without is the place of a cluster.
PROFILE = """
providers:
  parallelcluster: {region: us-east-1, key_pair: my-key, subnets: [subnet-0123456789abcdef0]}
"""


def seen(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> dict[str, Any]:
    """Give what the program of each node saw, by the name of its file."""
    (tmp_path / "code").mkdir(exist_ok=True)
    (tmp_path / "code" / "look.py").write_text(LOOK)
    (tmp_path / "code" / "tool").touch(0o755)
    for name, data in DATA.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    monkeypatch.chdir(tmp_path)
    own_profile().write_text(PROFILE)
    kept = tmp_path / provider
    if provider == "local":
        monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))
        assert run(["apply", spec("local", **more)]) == 0
        assert run(["fetch", "look", str(kept / "outputs")]) == 0
    else:
        assert run(["rehearse", spec(provider, **more), "--folder", str(kept)]) == 0
        monkeypatch.delenv("RUNSPEC_PROFILE", raising=False)
    return told(kept / "outputs")


def otherwise(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Give what programs saw elsewhere in another way than on this machine: by provider, process and what it is."""
    here = found["local"]
    wanted = {(one, what) for one in here for what in here[one]}
    return {
        f"{name} {one} {what}": (there.get(one, {}).get(what), here.get(one, {}).get(what))
        for name, there in found.items()
        for one, what in wanted | {(one, what) for one in there for what in there[one]}
        if there.get(one, {}).get(what) != here.get(one, {}).get(what)
    }


def told(outputs: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in outputs.rglob("*.json")}


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_a_program_sees_the_same_wherever_it_runs(
    mpi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same names, and what is counted is equal: no program has to know where it is."""
    need("azurite", *PROGRAMS)
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")
    found = {name: seen(name, tmp_path, monkeypatch) for name in ("local", *CLOUDS)}

    assert set(found["local"]) == {"0.json", "1.json"}
    assert set(found["local"]["0.json"]["names"]) == CONTRACT
    assert [one.pop("modes") for one in found["local"].values()] == [[False, True]] * 2
    modes = {name: [one.pop("modes") for one in found[name].values()] for name in CLOUDS}
    assert modes == {  # blobs have none
        name: [[False, name != "azure-batch-ai"]] * 2 for name in CLOUDS
    }
    assert otherwise(found) == {}


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_a_rank_of_mpi_sees_the_same_wherever_it_runs(
    mpi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On each node, and whoever has started it there: the ranks of one world, two on each node in their order."""
    need("azurite", *PROGRAMS)
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")
    world = "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE"
    found = launched("mpi", world, ("local", *CLOUDS), tmp_path, monkeypatch)

    for one in found.values():
        for rank in one.values():
            rank.pop("modes")
    assert set(found["local"]) == WORLD_OF_4
    assert set(found["local"]["1-2-4.json"]["names"]) == CONTRACT
    assert otherwise(found) == {}


def test_a_process_of_torchrun_sees_the_same_wherever_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torchrun is a stand-in, for torch is 200 MB. Batch AI starts it by itself, without our contract."""
    need("azurite", *PROGRAMS)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "torchrun").write_text(TORCHRUN)
    (programs / "torchrun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    clouds = [name for name in CLOUDS if name != "azure-batch-ai"]
    found = launched("torchrun", "RANK WORLD_SIZE", ("local", *clouds), tmp_path, monkeypatch)

    assert set(found["local"]) == WORLD_OF_4
    assert set(found["local"]["1-2-4.json"]["names"]) == CONTRACT
    assert otherwise(found) == {}


def test_the_limits_of_a_process_are_the_same_wherever_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the spec, below what this machine allows. Batch AI and Kubernetes refuse them."""
    need("azurite", *PROGRAMS)
    script = 'printf "[%s, %s]" "$(ulimit -n)" "$(ulimit -s)" > "${outputs.found}/0.json"'
    more = {
        "cluster": {"nodes": 1},
        "ulimits": {"nofile": 1234, "stack": "4MiB"},
        "command": ["sh", "-c", script],
    }
    clouds = [name for name in CLOUDS if name not in ("azure-batch-ai", "kubernetes")]
    found = {name: seen(name, tmp_path, monkeypatch, **more) for name in ("local", *clouds)}

    assert found == {name: {"0.json": [1234, 4096]} for name in ("local", *clouds)}


def test_a_rank_of_srun_sees_the_same_wherever_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm's own srun starts the ranks there, and the agent elsewhere. Batch AI refuses them."""
    need("azurite", *PROGRAMS)
    clouds = [name for name in CLOUDS if name != "azure-batch-ai"]
    world = "SLURM_PROCID SLURM_NTASKS"
    found = launched("srun", world, ("local", *clouds), tmp_path, monkeypatch)

    assert set(found["local"]) == WORLD_OF_4
    assert set(found["local"]["1-2-4.json"]["names"]) == CONTRACT
    assert otherwise(found) == {}


WORLD_OF_4 = {"0-0-4.json", "0-1-4.json", "1-2-4.json", "1-3-4.json"}


def launched(
    launch: str,
    world: str,
    providers: Iterable[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, dict[str, Any]]:
    """Give what each process of two nodes saw, at each of *providers*; the variables of *world* name it."""
    env = {**ENV, "PATH": os.environ["PATH"], "WORLD": world}
    more = {"launch": launch, "env": env, "processes_per_node": 2}
    return {name: seen(name, tmp_path, monkeypatch, **more) for name in providers}
