"""The figure of `launch: mpi`: the Chainer job of the specs, beside an mpirun that is typed in the same environment."""

from __future__ import annotations

import importlib
import json
import random
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.installs import ROOT, ours
from bench.measure import Command, Timing
from bench.rows import Bench, Row

SPEC = ROOT / "specs" / "mnist-chainer.yaml"
RANKS, EPOCHS, ROUNDS = 2, 250, 5
PICTURES = {
    "train": 1500,
    "test": 300,
}  # about as many as the data set `digits` of scikit-learn has
SHORT = ("--epoch", "1", "--unit", "10")
BARE, BY_TCP = "mpirun", "mpirun by TCP"
TCP = "--mca pml ob1 --mca btl tcp,self".split()  # as ranks on two nodes talk to each other
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def mpi(bench: Bench) -> Iterator[Row]:
    """Measure a training of minutes and one of a moment, each on two nodes of one process and on one node of two."""
    data = _data(bench.room / "pictures")
    # The requirements of a job lie in the checkout of its spec.
    shutil.copytree(SPEC.parent / "mnist", bench.room / "mnist")
    rounds = min(bench.rounds, ROUNDS)
    bench.in_turns(_ours(bench, data, "nodes", ("--epoch", "1")), rounds=1)  # makes the environment
    (mpirun,) = (bench.room / "home" / "local" / "envs").glob("*/bin/mpirun")
    kinds = ("nodes", "slots")
    for what, words in (("Chainer job", ("--epoch", str(EPOCHS))), ("moment of it", SHORT)):
        commands = [_ours(bench, data, kind, words) for kind in kinds]
        nodes, slots, bare, by_tcp = bench.in_turns(
            *commands,
            _bare(bench, data, mpirun, words),
            _bare(bench, data, mpirun, words, TCP),
            rounds=rounds,
            more=ONE_THREAD,
        )
        limit = 1.05 if words is not SHORT else None
        yield from _rows(f"{what}, 1 node of 2 slots", slots, BARE, bare, limit)
        yield from _rows(f"{what}, 2 nodes", nodes, BARE, bare, limit)
        yield from _rows(f"{what}, 2 nodes", nodes, BY_TCP, by_tcp, limit)


def _rows(what: str, mine: Timing, peer: str, bare: Timing, limit: float | None) -> Iterator[Row]:
    yield Row(f"{what}, wall", mine.wall_s, "s", peer, bare.wall_s, at_most=limit)
    yield Row(f"{what}, CPU", mine.cpu_s, "s", peer, bare.cpu_s, at_most=limit)
    if limit is None:
        yield Row(f"{what}, more wall", mine.wall_s - bare.wall_s, "s")
        yield Row(f"{what}, more CPU", mine.cpu_s - bare.cpu_s, "s")


def _data(folder: Path) -> Path:
    """Make pictures of noise: how long a training takes is not a matter of what they show."""
    folder.mkdir()
    sys.path.insert(0, str(SPEC.parent / "mnist"))
    prepare = importlib.import_module("prepare_data")
    dice = random.Random(1)  # noqa: S311 - no secret
    images = {
        name: prepare.Images(dice.randbytes(n * prepare.SIDE**2), bytes(k % 10 for k in range(n)))
        for name, n in PICTURES.items()
    }
    prepare.save_all(folder, images)
    return folder


def _ours(bench: Bench, data: Path, kind: str, words: Sequence[str]) -> Command:
    path = spec_file(bench.room, data, kind, words)
    return _adopted(ours(bench.room, "local").command("runspec"), "apply", "--new", str(path))


def spec_file(room: Path, data: Path, kind: str, words: Sequence[str]) -> Path:
    """Write the spec of one training into *room*, where the folder `mnist` of the specs is."""
    spec: dict[str, Any] = yaml.safe_load(SPEC.read_text())
    train = "${mounts.code}/train_mnist.py"
    command = ["python", train, "--out", "${outputs.model}", "--data", str(data), *words]
    spec.update(
        command=command,
        name=f"{kind}-{len(words)}",
        env=ONE_THREAD,  # a job does not inherit it
        providers={"local": {"engine": "process"}},
    )
    if kind == "slots":
        spec.update(cluster={"nodes": 1, "cpus": RANKS}, processes_per_node=RANKS)
    path = room / f"{spec['name']}.yaml"
    path.write_text(json.dumps(spec))  # JSON is YAML
    return path


def _bare(
    bench: Bench, data: Path, mpirun: Path, words: Sequence[str], how: Sequence[str] = ()
) -> Command:
    """The mpirun that a user types in the same environment, with the options for root and for two processors."""
    line = [str(mpirun), "--allow-run-as-root", "--oversubscribe", *how, "-n", str(RANKS)]
    line += [str(mpirun.with_name("python")), str(SPEC.parent / "mnist" / "train_mnist.py")]
    line += ["--out", str(bench.room / "bare"), "--data", str(data), *words]
    return _adopted(*line)


def _adopted(*words: str) -> Command:
    return Command((sys.executable, "-m", "bench.adopt", *words), "elapsed_time", cwd=ROOT)
