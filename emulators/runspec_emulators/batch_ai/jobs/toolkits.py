"""The processes of each toolkit, and their nodes. No process is started here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

PS_PORT, WORKER_PORT = 2222, 2223  # the example of TF_CONFIG in the list of environment variables


class Task(NamedTuple):
    """One process of a job."""

    node: int
    command: str
    suffix: str = ""
    """The end of the names of its stdout and stderr files, before .txt."""
    env: Mapping[str, str] = {}
    main: bool = True
    """Whether the job goes on for as long as it does."""


def tasks(
    properties: Mapping[str, Any], addresses: Sequence[str], mpirun: Sequence[str]
) -> list[Task]:
    """Return the processes of a job on nodes that have these *addresses*."""
    for name, kit in KITS.items():
        if name in properties:
            return kit(properties[name], addresses, mpirun)
    raise AssertionError("BUG: a job without a toolkit was let in")


def custom(
    given: Mapping[str, Any], _addresses: Sequence[str], _mpirun: Sequence[str]
) -> list[Task]:
    """ "The command line to execute on the master node." """
    return [Task(0, given.get("commandLine", ""))]


def custom_mpi(
    given: Mapping[str, Any], addresses: Sequence[str], mpirun: Sequence[str]
) -> list[Task]:
    """ "The command line to be executed by mpi runtime on each compute node." """
    return [by_mpi(given, given["commandLine"], addresses, mpirun)]


def mpi_script(
    given: Mapping[str, Any], addresses: Sequence[str], mpirun: Sequence[str]
) -> list[Task]:
    """Chainer, Horovod and CNTK: the script, as many times as processCount says, by mpirun."""
    return [by_mpi(given, script(given, given.get("commandLineArgs", "")), addresses, mpirun)]


def by_mpi(
    given: Mapping[str, Any], command: str, addresses: Sequence[str], mpirun: Sequence[str]
) -> Task:
    """processCount: "The default value for this property is equal to nodeCount property".

    The command is "executed by mpi runtime": where mpirun is not there or fails, so does the job,
    whatever a shell would make of the rest of the line.
    """
    count = given.get("processCount", len(addresses))
    argv = [*mpirun, "-n", str(count), "--hostfile", '"$AZ_BATCHAI_MPI_HOST_FILE"']
    return Task(0, f"set -e; type {mpirun[0]} >/dev/null || exit 127; {' '.join(argv)} {command}")


def script(given: Mapping[str, Any], arguments: str) -> str:
    interpreter = given.get("pythonInterpreterPath", "python")
    return f"{interpreter} {given['pythonScriptFilePath']} {arguments}".rstrip()


def plain_script(
    given: Mapping[str, Any], addresses: Sequence[str], _mpirun: Sequence[str]
) -> list[Task]:
    """Caffe2: one process a node, told which by AZ_BATCHAI_TASK_INDEX."""
    command = script(given, given.get("commandLineArgs", ""))
    several = len(addresses) > 1
    return [
        Task(i, command, f"-{i}" if several else "", {"AZ_BATCHAI_TASK_INDEX": str(i)})
        for i in range(len(addresses))
    ]


def caffe(given: Mapping[str, Any], addresses: Sequence[str], mpirun: Sequence[str]) -> list[Task]:
    """A script of Python, or caffe itself with a config file."""
    arguments = given.get("commandLineArgs", "")
    if "pythonScriptFilePath" in given:
        return [by_mpi(given, script(given, arguments), addresses, mpirun)]
    command = f"caffe train -solver {given['configFilePath']} {arguments}".rstrip()
    return [by_mpi(given, command, addresses, mpirun)]


def cntk(given: Mapping[str, Any], addresses: Sequence[str], mpirun: Sequence[str]) -> list[Task]:
    """Go by languageType, which says whether it is a script of Python or a config file of BrainScript."""
    arguments = given.get("commandLineArgs", "")
    if given.get("languageType", "BrainScript") == "Python":
        return [by_mpi(given, script(given, arguments), addresses, mpirun)]
    command = f"cntk configFile={given.get('configFilePath', '')} {arguments}".rstrip()
    return [by_mpi(given, command, addresses, mpirun)]


def pytorch(
    given: Mapping[str, Any], addresses: Sequence[str], mpirun: Sequence[str]
) -> list[Task]:
    """By mpirun with the backend MPI; else a process for each of processCount, told how to meet.

    Variables, the meeting in the shared folder and stdout-0.txt are those of the service's recipe
    PyTorch-GPU-Distributed-Gloo; that TCP meets at the first node is a choice.
    """
    backend = given.get("communicationBackend", "").lower()
    command = script(given, given.get("commandLineArgs", ""))
    if backend == "mpi":
        return [by_mpi(given, command, addresses, mpirun)]
    count = given.get("processCount", len(addresses))
    tcp = f"tcp://{addresses[0]}:{PYTORCH_PORT}"
    shared = {
        "AZ_BATCHAI_PYTORCH_BACKEND": backend,
        "AZ_BATCHAI_PYTORCH_INIT_METHOD": tcp if backend == "tcp" else PYTORCH_FILE,
    }
    return [
        Task(
            i * len(addresses) // count,
            command,
            f"-{i}",
            {**shared, "AZ_BATCHAI_TASK_INDEX": str(i)},
        )
        for i in range(count)
    ]


PYTORCH_PORT = 23456
PYTORCH_FILE = "file://$AZ_BATCHAI_SHARED_JOB_TEMP/init"


def tensorflow(
    given: Mapping[str, Any], addresses: Sequence[str], _mpirun: Sequence[str]
) -> list[Task]:
    """A master, which is the first worker, workers, and parameter servers that end with them.

    TensorFlowSettings.workerCount and parameterServerCount give the defaults.
    """
    distributed = len(addresses) > 1 or {"workerCount", "parameterServerCount"} & given.keys()
    nodes = len(addresses)
    workers = given.get("workerCount", nodes) if distributed else 1
    servers = given.get("parameterServerCount", 1) if distributed else 0
    cluster = {
        "ps": [f"{addresses[i]}:{PS_PORT}" for i in range(servers)],
        "worker": [f"{addresses[i % nodes]}:{WORKER_PORT + i // nodes}" for i in range(workers)],
    }

    def env(kind: str, index: int) -> dict[str, str]:
        task = {"type": kind, "index": index}
        config = {"cluster": cluster, "task": task, "environment": "cloud"}
        return {
            "AZ_BATCHAI_PS_HOSTS": ",".join(cluster["ps"]),
            "AZ_BATCHAI_WORKER_HOSTS": ",".join(cluster["worker"]),
            "AZ_BATCHAI_TASK_INDEX": str(index),
            "TF_CONFIG": json.dumps(config, separators=(",", ":")),
        }

    master = script(given, given.get("masterCommandLineArgs", ""))
    worker = script(given, given.get("workerCommandLineArgs", ""))
    server = script(given, given.get("parameterServerCommandLineArgs", ""))
    tasks = [Task(0, master, "-wk-0", env("master", 0))]
    tasks += [Task(i % nodes, worker, f"-wk-{i}", env("worker", i)) for i in range(1, workers)]
    tasks += [Task(i, server, f"-ps-{i}", env("ps", i), main=False) for i in range(servers)]
    return tasks


Kit = Callable[[Mapping[str, Any], Sequence[str], Sequence[str]], list[Task]]

KITS: dict[str, Kit] = {
    "caffe2Settings": plain_script,
    "caffeSettings": caffe,
    "chainerSettings": mpi_script,
    "cntkSettings": cntk,
    "customMpiSettings": custom_mpi,
    "customToolkitSettings": custom,
    "horovodSettings": mpi_script,
    "pyTorchSettings": pytorch,
    "tensorFlowSettings": tensorflow,
}
