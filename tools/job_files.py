#!/usr/bin/env python3
"""Counts how many job files of other tools a spec says completely: tools/job_files.py FILE.

FILE is a list in YAML, with `id`, `kind` and `lost` of each job file: what a spec of version 0.2.0 could not say of it.
Nothing else of the list is read, and nothing of the job files themselves is kept here.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class Said(NamedTuple):
    """The field that says now what was lost, and a spec in our own words that proves it."""

    field: str
    spec: str
    provider: str = "local"
    engine: str = "process"  # of `local`
    kinds: frozenset[str] = frozenset()  # of files that it says; empty for all
    beside: str = ""  # a loss that the file has, too; empty for any
    options: tuple[str, ...] = ()  # of `runspec plan`
    settings: str = ""  # of a provider, as in `azure-batch: {tasks_per_node: 2}`


# Services that never end, other engines of workflows, and machines to work on by hand: runspec runs jobs that end.
OUT_OF_SCOPE = frozenset({"service", "service_job", "workflow_engine", "dev_env"})
ALTERNATIVES = "cluster: {gpus: 1, gpu_type: [H100, A100-80GB]}\ncommand: [echo, a]\n"
NEEDS = """\
outputs: [{name: data, path: /job/data}]
container: {image: "first:1"}
command: [echo, first]
---
apiVersion: runspec/v1
name: second
provider: local
needs: [first]
container: {image: "second:1"}
command: [echo, second]
"""
MI300X = """\
cluster: {gpus: 8, gpu_type: MI300X}
container: {image: "rocm/pytorch:rocm6.2.3"}
command: [echo, a]
"""
CONDA = """\
container: {image: "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04:1"}
mounts: [{name: packages, source: ./a.txt, target: /job/environment.yml}]
setup: conda env update --quiet --name base --file "${mounts.packages}"
command: [echo, a]
"""
ASSETS = """\
container: {image: "mcr.microsoft.com/azureml/curated/acpt-pytorch-2.8-cuda12.6:latest"}
mounts: [{name: cifar, source: shared://cifar, target: /job/cifar}]
command: [echo, "${mounts.cifar}"]
"""
SAID: Mapping[str, Said] = {
    "retry_by_exit_code": Said(
        "retry.on",
        "retry: {attempts: 3, on: [{exit_codes: [42, 130..145], action: stop}]}\ncommand: [echo, a]\n",
    ),
    "setup_before_launch": Said(
        "setup", "setup: pip install --user tqdm\nlaunch: torchrun\ncommand: [python3, train.py]\n"
    ),
    "init_container": Said("setup", "setup: mkdir -p out\ncommand: [echo, a]\n"),
    "file_upload": Said(
        "mounts", "mounts: [{name: rc, source: ./a.txt, target: /job/a.txt}]\nrun: cat ${mounts.rc}\n"
    ),
    "spec_parameters": Said(
        "params", "params: {size: 7b, epochs: 3}\ncommand: [echo, '${params.size}']\n"
    ),
    "image_entrypoint": Said(
        "container.entrypoint",
        'container: {image: "a:1", entrypoint: image, args: [serve]}\n',
        provider="slurm",
    ),
    "ext_data": Said(
        "mounts",
        "mounts:\n"
        "- {name: a, source: 's3://bucket/data', target: /job/a, anonymous: true}\n"
        "- {name: b, source: 'az://acct/set/data', target: /job/b, anonymous: true}\n"
        "run: echo a\n",
    ),
    "stop_all_on_failure": Said(
        "max_failed", "sweep: {n: 1..9}\nmax_failed: 1\nrun: echo a\n"
    ),
    "ttl": Said("ttl", "ttl: 2d\nrun: echo a\n"),
    "bucket_rw": Said(
        "outputs",
        "mounts: [{name: old, source: 's3://bucket/a', target: /job/old}]\n"
        "outputs: [{name: new, path: /job/new, sync: 1m, target: 's3://bucket/a'}]\nrun: echo a\n",
    ),
    "env_file": Said("env_file", "env_file: vars.env\nrun: echo $A\n"),
    "ports": Said("ports", "ports: [8888]\nrun: echo a\n"),
    "signal_before_timeout": Said(
        "signal", "timeout: 1h\nsignal: {name: USR1, before: 2m}\nrun: echo a\n"
    ),
    # Compose runs on one machine, as `local` does; on Slurm, podman, Apptainer or Pyxis pulls what `apply` has pushed.
    "image_build": Said(
        "container.build",
        "container: {build: {context: ./image}}\ncommand: [echo, a]\n",
        engine="podman",
        kinds=frozenset({"compose", "sbatch"}),
    ),
    "alt_gpu": Said("cluster.gpu_type", ALTERNATIVES),
    "gpu_memory": Said("cluster.gpu_memory", "cluster: {gpus: 1, gpu_memory: 24GiB}\nrun: echo a\n"),
    "cpu_range": Said("cluster.cpus", "cluster: {cpus: 8+}\nrun: echo a\n"),
    "srun_ranks": Said("launch", "launch: srun\nprocesses_per_node: 2\nrun: echo a\n"),
    "srun_into_container": Said(
        "launch", 'launch: srun\ncontainer: {image: "a:1"}\nprocesses_per_node: 2\nrun: echo a\n'
    ),
    "deps": Said("needs", NEEDS),
    "per_task_image": Said("needs", NEEDS),
    "multi_step": Said("needs", NEEDS),
    "disk_tier": Said(
        "cluster.disk",
        "cluster: {disk: {size: 50GiB, tier: high}}\nrun: echo a\n",
        provider="aws-batch",
    ),
    "accel_other": Said("cluster.gpu_type", MI300X, provider="azure-batch"),
    # Tasks of dstack that name no cloud: no provider had their accelerator.
    "cloud_other": Said(
        "cluster.gpu_type",
        MI300X,
        provider="azure-batch",
        kinds=frozenset({"dstack"}),
        beside="accel_other",
    ),
    "no_container": Said("run", "cluster: {nodes: 2, cpus: 8}\nrun: echo a\n", provider="azure-batch"),
    # The folder of a task is kept for seven days in any case.
    "retention": Said(
        "ttl", "ttl: 7d\nrun: echo a\n", provider="azure-batch", kinds=frozenset({"azure-batch"})
    ),
    "output_filter": Said(
        "outputs", 'outputs: [{name: o, path: /job/o, include: ["*.bam"]}]\nrun: echo a\n'
    ),
    "image_plus_conda": Said("setup", CONDA, provider="azure-batch"),
    # Environments are images of mcr.microsoft.com/azureml/curated, and the profile says where a data asset lies.
    "registry_assets": Said(
        "mounts", ASSETS, provider="azure-batch", kinds=frozenset({"azureml"})
    ),
    # As with `--multirun lr=0.1,0.01`, the values are typed.
    "hydra_multirun": Said(
        "sweep",
        "sweep: {lr: [0.1]}\nmax_parallel: 4\ncommand: [echo, '${sweep.lr}']\n",
        options=("--set", "sweep.lr=[0.1, 0.01]"),
    ),
    # Each task starts as soon as there is room for it, with more or fewer beside it.
    "partial_admission": Said(
        "max_parallel", "sweep: {n: 0..19}\nmax_parallel: 20\nrun: echo a\n"
    ),
    "task_slots": Said(
        "providers.azure-batch.tasks_per_node",
        "cluster: {cpus: 1}\nsweep: {n: 0..9}\ncommand: [echo, a]\n",
        provider="azure-batch",
        settings="azure-batch: {tasks_per_node: 2}",
    ),
    "requeue_by_script": Said("retry.attempts", "retry: {attempts: 3}\ncommand: [echo, a]\n"),
}  # fmt: skip


class Count(NamedTuple):
    """How many files there are in scope, and how many are said completely: by version 0.2.0, and now."""

    files: int = 0
    before: int = 0
    after: int = 0


def count(files: Iterable[Mapping[str, Any]]) -> dict[str, Count]:
    """Return the counts of *files* by kind.

    >>> count([{"kind": "a", "lost": ["deps"]}, {"kind": "a", "lost": ["service"]}])
    {'a': Count(files=1, before=0, after=1)}
    """
    counts: dict[str, Count] = {}
    for file in files:
        lost = set(file["lost"])
        if lost & OUT_OF_SCOPE:
            continue
        old = counts.get(file["kind"], Count())
        said = Count(1, int(not lost), int(not find_left(file)))
        counts[file["kind"]] = Count(*map(sum, zip(old, said, strict=True)))
    return dict(sorted(counts.items()))


def list_left(files: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return what is still lost in files that are in scope, with the number of files."""
    in_scope = [file for file in files if not set(file["lost"]) & OUT_OF_SCOPE]
    return Counter(loss for file in in_scope for loss in find_left(file))


def find_left(file: Mapping[str, Any]) -> set[str]:
    """Return what of *file* is still lost."""
    lost = set(file["lost"])
    said = {
        loss
        for loss, how in SAID.items()
        if (not how.kinds or file["kind"] in how.kinds) and (not how.beside or how.beside in lost)
    }
    return lost - said


def main(words: list[str]) -> int:
    if len(words) != 1:
        print("usage: tools/job_files.py FILE", file=sys.stderr)
        return 2
    files = yaml.safe_load(Path(words[0]).read_text())
    counts = count(files)
    print("| kind | files | said by 0.2.0 | said now |\n| --- | --- | --- | --- |")
    for kind, found in counts.items():
        print(f"| {kind} | {found.files} | {found.before} | {found.after} |")
    print(f"| all | {' | '.join(str(sum(c)) for c in zip(*counts.values(), strict=True))} |")
    print("\nstill lost: " + ", ".join(f"{loss} {n}" for loss, n in list_left(files).most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
