"""What to write for the words of other tools' job files."""

from __future__ import annotations

import re
from collections.abc import Mapping

BUILD = "write container: {build: {context: ./, file: Dockerfile}}, without arguments of the build"
ENTRY = (
    "write command: [program, argument] or run, or for the ENTRYPOINT of an image "
    "container: {image: NAME:TAG, entrypoint: image, args: [argument]}"
)
GPUS = "write cluster: {gpus: 8, gpu_type: A100}"
MOUNT = "write mounts: [{name: data, source: ./data, target: /job/data}]"
CODE = "write mounts: [{name: code, source: ., target: /job/code}]"
IMAGE = "write container: {image: REPOSITORY:TAG}"
LIMIT = "write timeout: 2h"
ATTEMPTS = "write retry: {attempts: 3}"
MACHINE = "write cluster: {cpus: 4, memory: 16GiB}, or name a machine under providers"
NODES = "write cluster: {nodes: 2}"
NEEDS = "write needs: [NAME], with the jobs in one file"
PROCESSES = "write launch: mpi or torchrun, and processes_per_node: 8"
PLACES = "name one region under providers; the zones are those of the networks in the profile"
DISK = "write cluster: {disk: {size: 100GiB, tier: high}}, with the tier low, medium, high or best"
SETTING = "write it under providers, or in the profile"

# By the word in lower case, without "-" and "_".
WORDS: Mapping[str, str] = {
    **dict.fromkeys(("accelerators", "accelerator", "gpu", "gres", "gpusperreplica"), GPUS),
    **dict.fromkeys(("filemounts", "volumes", "volumemounts", "inputs", "files", "datasets"), MOUNT),
    **dict.fromkeys(("workdir", "workingdir", "code", "repo", "repos"), CODE),
    **dict.fromkeys(("imageid", "docker", "dockerimage", "containerimage"), IMAGE),
    **dict.fromkeys(("time", "timelimit", "walltime", "maxduration", "activedeadlineseconds"), LIMIT),
    **dict.fromkeys(("maxretries", "retries", "backofflimit", "maxrestarts", "restarts"), ATTEMPTS),
    **dict.fromkeys(("instancetype", "machinetype", "vmsize", "instance", "compute"), MACHINE),
    **dict.fromkeys(("numnodes", "instancecount", "replicas", "numreplicas", "nnodes", "workers"), NODES),
    **dict.fromkeys(("dependson", "dependencies", "after", "dependency"), NEEDS),
    **dict.fromkeys(("ntasks", "ntaskspernode", "nprocpernode", "distribution"), PROCESSES),
    **dict.fromkeys(("entrypoint", "cmd", "commands", "script", "steps"), ENTRY),
    **dict.fromkeys(("envs", "environment", "environmentvariables"), "write env: {NAME: value}"),
    **dict.fromkeys(("port", "expose"), "write ports: [8888]"),
    **dict.fromkeys(("array", "matrix", "strategy", "searchspace"), "write sweep: {lr: [0.1, 0.01]}"),
    **dict.fromkeys(("parallelism", "maxconcurrenttrials", "concurrency"), "write max_parallel: 4"),
    **dict.fromkeys(("vcpus", "cores", "cpuspertask"), "write cluster: {cpus: 4}"),
    **dict.fromkeys(("mem", "ram", "mempercpu"), "write cluster: {memory: 16GiB}"),
    **dict.fromkeys(("disksize", "ephemeralstorage", "tmp"), "write cluster: {disk: 100GiB}"),
    **dict.fromkeys(("partition", "queue", "qos", "account", "region", "zone", "cloud"), SETTING),
    **dict.fromkeys(("regions", "zones", "availabilityzone", "availabilityzones"), PLACES),
    **dict.fromkeys(("disktier", "disktype", "volumetype", "storagetype"), DISK),
    "resources": "write cluster: {nodes: 1, cpus: 4, memory: 16GiB, gpus: 1}",
    "limits": "write cluster: {cpus: 4, memory: 16GiB, gpus: 1}",
    **dict.fromkeys(("preexec", "preparation", "setupcommands"), "write setup: |, and the script below it"),
    "shmsize": "write container: {shm: 8GiB}",
    **dict.fromkeys(("dockerfile", "containerfile", "buildargs"), BUILD),
    "schedule": "remove it: cron can run runspec apply",
}  # fmt: skip
GOALS: Mapping[str, str] = {
    "minimize": "min",
    "minimise": "min",
    "maximize": "max",
    "maximise": "max",
}


def suggest(word: str, above: object = None) -> str | None:
    """Return what to write for *word* of another tool, within the field *above* if it stands there, or None.

    >>> suggest("num_nodes"), suggest("numNodes", "cluster"), suggest("colour")
    ('write cluster: {nodes: 2}', 'write nodes: 2', None)
    """
    hint = WORDS.get(word.lower().replace("_", "").replace("-", ""))
    inner = re.match(rf"write {re.escape(str(above))}: \{{(.*)\}}", hint or "")
    return f"write {inner[1]}" if inner else hint
