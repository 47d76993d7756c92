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
IMAGE = "write container: {image: python:3.11}"
LIMIT = "write timeout: 2h"
ATTEMPTS = "write retry: {attempts: 3}"
MACHINE = "write cluster: {cpus: 4, memory: 16GiB}, or name a machine under providers"
NODES = "write cluster: {nodes: 2}"
NEEDS = "write needs: [prepare], the name of another job of the same file"
PROCESSES = "write launch: mpi or torchrun, and processes_per_node: 8"
ALTERNATIVES = (
    "write cluster: {gpus: 1, gpu_type: [H100, A100], capacity: spot-then-on-demand}, "
    "with types in order of preference"
)
NO_SERVICE = "a job ends: write ports: [8888] to reach what it serves meanwhile"
ENDS = "remove it: machines end with the job, and ttl: 7d removes what it has stored"
COSTS = "write runspec apply --max-usd 20"
LABEL = "remove it, or write tags under providers"
RANDOM = "write sweep: {random: {trials: 20, draw: {lr: {uniform: [0.01, 0.9]}}}}"
TASKS = "write sweep: {index: 0..9}"
IMPORT = "runspec import FILE makes specs of such files: see runspec docs import"
SERVICE = "write provider: NAME; runspec providers lists them"
OF_ROLES = "write run with case $RUNSPEC_RANK in, or several jobs in one file with needs"
ONE_SCRIPT = "write setup: |, and the line in the script below it"
TRACKED = "write metric: {name: loss, goal: min, pattern: 'loss=([0-9.]+)'}"
FAILED = "write retry: {attempts: 3, on: [{exit_codes: [42], action: stop}]}"
SAVED = "write outputs: [{name: results, path: /job/results}]"
LOGGED = "remove it: runspec logs prints and saves what a job prints"
REGIONS = "name one region under providers; the zones are those of the networks in the profile"
DISK = "write cluster: {disk: {size: 100GiB, tier: high}}, with the tier low, medium, high or best"
AT_ONCE = "write max_parallel: 4, for the tasks of a sweep"
SETTING = "write it under providers, or in the profile"

# Where machines are, for which each provider has its own hint.
PLACES = "region regions zone zones location locations availabilityzone availabilityzones".split()
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
    **dict.fromkeys(("parallelism", "maxconcurrenttrials", "concurrency"), AT_ONCE),
    **dict.fromkeys(("vcpus", "cores", "cpuspertask"), "write cluster: {cpus: 4}"),
    **dict.fromkeys(("mem", "ram", "mempercpu"), "write cluster: {memory: 16GiB}"),
    **dict.fromkeys(("disksize", "ephemeralstorage", "tmp"), "write cluster: {disk: 100GiB}"),
    **dict.fromkeys(("partition", "queue", "qos", "account", "cloud"), SETTING),
    **dict.fromkeys(PLACES, REGIONS),
    **dict.fromkeys(("disktier", "disktype", "volumetype", "storagetype"), DISK),
    "resources": "write cluster: {nodes: 1, cpus: 4, memory: 16GiB, gpus: 1}",
    "limits": "write cluster: {cpus: 4, memory: 16GiB, gpus: 1}",
    **dict.fromkeys(("preexec", "preparation", "setupcommands"), "write setup: |, and the script below it"),
    "shmsize": "write container: {shm: 8GiB}",
    **dict.fromkeys(("dockerfile", "containerfile", "buildargs"), BUILD),
    "schedule": "remove it: cron can run runspec apply",
    **dict.fromkeys(("anyof", "ordered", "spotpolicy"), ALTERNATIVES),
    **dict.fromkeys(("autostop", "idleminutestoautostop", "autodown", "idleduration"), ENDS),
    **dict.fromkeys(("maxprice", "maxhourlycost"), COSTS),
    **dict.fromkeys(("service", "services", "gateway", "healthcheck", "probes"), NO_SERVICE),
    **dict.fromkeys(("label", "labels", "displayname", "experimentname", "annotations"), LABEL),
    **dict.fromkeys(("samplingalgorithm", "maxtotaltrials", "sweeper"), RANDOM),
    **dict.fromkeys(("objective", "primarymetric"), TRACKED),
    **dict.fromkeys(("completions", "arrayproperties"), TASKS),
    **dict.fromkeys(("kind", "metadata", "spec", "template", "type", "jobs", "trial", "hydra", "defaults"), IMPORT),
    **dict.fromkeys(("backends", "executor", "scheduler", "launcher", "infra"), SERVICE),
    **dict.fromkeys(("roles", "groups", "replicatedjobs"), OF_ROLES),
    **dict.fromkeys(("modules", "module", "beforescript"), ONE_SCRIPT),
    **dict.fromkeys(("errorstrategy", "restartpolicy", "podfailurepolicy", "evaluateonexit", "requeue"), FAILED),
    **dict.fromkeys(("publishdir", "outputfiles", "artifacts"), SAVED),
    **dict.fromkeys(("error", "stdout", "stderr", "logs"), LOGGED),
    **dict.fromkeys(("resourcefiles", "applicationpackages"), MOUNT),
    **dict.fromkeys(("targetdedicatednodes", "numberofinstances", "multiinstancesettings"), NODES),
    **dict.fromkeys(("maxforks", "maxconcurrent", "arrayparallelism"), AT_ONCE),
    **dict.fromkeys(("priority", "exclusive", "constraint", "nodelist", "mailtype", "mailuser", "wckey"), SETTING),
    **dict.fromkeys(("reservation", "licenses", "begin", "exclude", "nodeselector", "poolinfo"), SETTING),
    **dict.fromkeys(("serviceaccountname", "jobrolearn", "identity"), "remove it: the profile has the job's identity"),
    **dict.fromkeys(("ttlsecondsafterfinished", "retentiontime"), "write ttl: 7d"),
    **dict.fromkeys(("restart", "maxtaskretrycount"), ATTEMPTS),
    "earlytermination": "write max_failed: 3 in a sweep, for tasks that fail",
    "tolerations": "remove it: machines with GPUs and spot machines take the job without it",
    "networks": "write cluster: {nodes: 2}: the nodes of a job reach each other",
    "tty": "write runspec shell RUN for a terminal in a running job",
    "ide": "write runspec shell --new for a machine to work on",
}  # fmt: skip
TARGET = "write target: /job/data, the path in the job"
# The same, within an entry of a list.
ENTRIES: Mapping[str, Mapping[str, str]] = {
    "mounts": {
        **dict.fromkeys(("path", "mountpath", "destination", "dst", "containerpath", "to"), TARGET),
        **dict.fromkeys(("src", "from", "url", "uri", "local", "hostpath", "bucket"), "write source: ./data"),
        **dict.fromkeys(("readonly", "ro"), "write mode: ro"),
    },
    "outputs": {
        **dict.fromkeys(("files", "patterns", "glob", "paths"), "write include: ['*.pt']"),
        **dict.fromkeys(("dir", "folder", "directory", "source", "src", "local"), "write path: /job/out"),
        **dict.fromkeys(
            ("destination", "dst", "url", "uri", "to", "bucket"), "write target and the address in a store"
        ),
    },
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
    >>> suggest("mountPath", "mounts")
    'write target: /job/data, the path in the job'
    """
    key = _simplify(word)
    hint = ENTRIES.get(str(above), {}).get(key) or WORDS.get(key)
    if hint is IMPORT and above is not None:
        return None  # such words mean something only at the top of a file
    inner = re.match(rf"write {re.escape(str(above))}: \{{(.*)\}}", hint or "")
    return f"write {inner[1]}" if inner else hint


def is_place(word: str) -> bool:
    """Return whether *word* names regions or zones.

    >>> is_place("availability-zones"), is_place("place")
    (True, False)
    """
    return _simplify(word) in PLACES


def _simplify(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
