"""The files of a cluster's configuration, as text: slurm.conf(5), gres.conf(5), cgroup.conf(5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# slurmd always loads a cgroup plugin. Without this line it exits where no cgroup file system is mounted, or both
# versions are; with this line it needs none. Observed with 22.05.
CGROUP = "CgroupPlugin=cgroup/v1\n"


@dataclass(frozen=True)
class Node:
    name: str
    port: int
    address: str
    host: str = ""  # "": the host of the cluster
    state: str = "UNKNOWN"  # or CLOUD: slurmctld starts the node when a job needs it


@dataclass(frozen=True)
class Machine:
    """This machine, as Slurm knows it: what is before the first dot of its name, and its address.

    *bound*: its name resolves to that address, so the daemons can be told to listen there only.
    """

    host: str
    address: str = "127.0.0.1"
    bound: bool = False


@dataclass(frozen=True)
class Partition:
    """A partition, by default of all nodes; *minutes* is its time limit, None: there is none."""

    name: str
    minutes: int | None = None
    nodes: tuple[str, ...] = ()
    more: Mapping[str, str | int] | None = None


@dataclass(frozen=True)
class Places:
    """The folders of a cluster: *folder* for files that are read afterwards, *near* for sockets.

    The path of a Unix socket has at most 107 bytes (unix(7)), so *near* is short.
    """

    folder: Path
    near: Path

    @property
    def slurm_conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def munge(self) -> Path:
        return self.near / "munge"

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def pid(self, node: str) -> Path:
        return self.near / f"{node}.pid"


@dataclass(frozen=True)
class Shape:
    """The resources of the machines of a cluster, according to its configuration."""

    cpus: int = 2
    memory_mb: int | None = 2000  # None: Slurm does not divide memory among jobs
    gpus: int = 0
    gpu_types: tuple[str, ...] = ()  # a node has *gpus* of each type
    disk_mb: int = 0


def slurm_conf(
    places: Places,
    machine: Machine,
    user: str,
    port: int,
    nodes: Iterable[Node],
    partitions: Iterable[Partition],
    shape: Shape,
    more: Mapping[str, str | int],
) -> str:
    """Return the content of slurm.conf; *more* are settings that are added or replaced."""
    settings = {**BASE, **memory(shape), **paths(places, user), **where(machine, port), **more}
    if shape.gpus:
        settings["GresTypes"] = "gpu"
    nodes = list(nodes)
    lines = [f"{name}={value}" for name, value in settings.items()]
    lines += [node_line(node, machine.host, shape) for node in nodes]
    everyone = tuple(node.name for node in nodes)
    lines += [partition_line(p, everyone, first=not i) for i, p in enumerate(partitions)]
    return "\n".join(lines) + "\n"


BASE: Mapping[str, str | int] = {
    "ClusterName": "rehearsal",
    "AuthType": "auth/munge",
    "CredType": "cred/munge",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "MpiDefault": "none",
    "SelectType": "select/cons_tres",
    "JobCompType": "jobcomp/filetxt",
    "AccountingStorageType": "accounting_storage/none",
    "EnforcePartLimits": "ALL",  # otherwise jobs that can never run are accepted and wait for ever
    "SlurmdParameters": "config_overrides",  # nodes may have more than this machine
    "SchedulerParameters": "sched_interval=2,bf_interval=2,batch_sched_delay=0,"
    "default_queue_depth=1000,sched_min_interval=100000",
    "ReturnToService": 2,
    "SlurmdTimeout": 10,
    "KillWait": 3,
    "MinJobAge": 3600,  # keep showing jobs that have ended
    "MaxArraySize": 10001,
    "MaxJobCount": 20000,
}


def memory(shape: Shape) -> Mapping[str, str | int]:
    if shape.memory_mb is None:
        return {"SelectTypeParameters": "CR_CPU"}
    # So that several jobs without a request for memory fit on a node.
    each = max(1, shape.memory_mb // shape.cpus // 4)
    return {"SelectTypeParameters": "CR_CPU_Memory", "DefMemPerCPU": each}


def where(machine: Machine, port: int) -> Mapping[str, str | int]:
    """Return the settings with the controller's address, as a number, so that no name is looked up."""
    settings: dict[str, str | int] = {
        "SlurmctldHost": f"{machine.host}({machine.address})",
        "SlurmctldPort": port,
    }
    if machine.bound:
        settings["CommunicationParameters"] = "NoInAddrAny,NoCtldInAddrAny"
    return settings


def paths(places: Places, user: str) -> Mapping[str, str | int]:
    return {
        "SlurmUser": user,
        "SlurmdUser": user,
        # A requeued job starts only when the credentials of its previous start have expired.
        "AuthInfo": f"socket={places.munge},cred_expire=5",
        "StateSaveLocation": f"{places.folder}/state",
        "SlurmdSpoolDir": f"{places.near}/%n",
        "TmpFS": f"{places.near}/%n.tmp",  # PMIx servers meet here; without this, all nodes would share /tmp
        "SlurmctldPidFile": f"{places.pid('slurmctld')}",
        "SlurmdPidFile": f"{places.pid('%n')}",
        "SlurmctldLogFile": f"{places.log('slurmctld')}",
        "SlurmdLogFile": f"{places.log('%n')}",
        "JobCompLoc": f"{places.folder}/jobcomp.txt",
    }


def node_line(node: Node, host: str, shape: Shape) -> str:
    """Return the line of a node; its address is a number, so that no name is looked up."""
    real = "" if shape.memory_mb is None else f" RealMemory={shape.memory_mb}"
    gpus = ",".join(
        f"gpu:{f'{kind}:' if kind else ''}{shape.gpus}" for kind in shape.gpu_types or ("",)
    )
    gres = f" Gres={gpus}" if shape.gpus else ""
    disk = f" TmpDisk={shape.disk_mb}" if shape.disk_mb else ""
    return (
        f"NodeName={node.name} NodeHostname={node.host or host} NodeAddr={node.address} "
        f"Port={node.port} CPUs={shape.cpus}{real}{disk}{gres} State={node.state}"
    )


def partition_line(partition: Partition, everyone: tuple[str, ...], *, first: bool) -> str:
    options = {
        "PartitionName": partition.name,
        "Nodes": ",".join(partition.nodes or everyone),
        "Default": "YES" if first else "NO",
        "MaxTime": "INFINITE" if partition.minutes is None else partition.minutes,
        "State": "UP",
        **(partition.more or {}),
    }
    return " ".join(f"{name}={value}" for name, value in options.items())


def devices(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield the type of each GPU, "" if GPUs have no types, and the name of its device file."""
    for kind in shape.gpu_types or ("",):
        for i in range(shape.gpus):
            yield kind, f"{kind or 'gpu'}-{i}"


def gres_conf(shape: Shape, folder: Path) -> str:
    """Return the content of gres.conf; the device files are in *folder*."""
    lines = []
    for kind, name in devices(shape):
        typed = f"Type={kind} " if kind else ""
        lines.append(f"Name=gpu {typed}File={folder / name}\n")
    return "".join(lines)
