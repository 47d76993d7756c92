"""The spec, version 1: what a user may write in a job file, as frozen models.

The types and limits of single fields are here; rules between fields are in `rules`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    Tag,
)

from runspec_jobs.spec.metric import Metric, Sizes
from runspec_jobs.spec.models.container import Container, Ulimits
from runspec_jobs.spec.models.files import Mount, Output
from runspec_jobs.spec.models.machines import Cluster
from runspec_jobs.spec.models.retry import Retry, Signal
from runspec_jobs.spec.needs import Needs
from runspec_jobs.spec.sweep import Sweep
from runspec_jobs.spec.types import (
    Argument,
    EnvValue,
    Free,
    Key,
    Model,
    Name,
    Param,
    Ports,
    Positive,
    Seconds,
    Secrets,
    Variable,
    Word,
)


class Launch(StrEnum):
    """The launcher, which starts the processes of a job on its nodes."""

    NONE = "none"
    MPI = "mpi"
    HOROVOD = "horovod"
    TORCHRUN = "torchrun"
    SRUN = "srun"


Program = Annotated[
    Annotated[Word, Tag("script")] | Annotated[tuple[Free, ...], Field(min_length=1), Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "script"),
]
UNBUFFERED = "PYTHONUNBUFFERED"
PARAM = "RUNSPEC_PARAM_"


def _count_processes(fields: Mapping[str, Any]) -> int:
    """Return the default of `processes_per_node`: torchrun's workers have a GPU each."""
    cluster, launch = fields.get("cluster"), fields.get("launch")
    return (cluster.gpus or 1) if cluster and launch is Launch.TORCHRUN else 1


class Spec(Model):
    """One job."""

    apiVersion: Literal["runspec/v1"] = Field(description="Version of the spec format.")
    name: Name = Field(description="Name of the job. The name of every run begins with it.")
    provider: Name = Field(
        description="Where the job runs. Change this one field to run the job elsewhere."
    )
    needs: Needs = Field(
        default={},
        description="Jobs of the same file that must have ended before this one starts: a list of names, which must "
        "have succeeded, or a mapping such as `{prepare: succeeded, train: ended}`, with `succeeded`, `failed` or "
        "`ended`. A mount of `run://JOB/OUTPUT` needs its job, too.",
    )
    cluster: Cluster = Field(default=Cluster(), description="The machines that the job needs.")
    container: Container = Field(
        default=Container(), description="The image or the packages that the job runs in."
    )
    mounts: tuple[Mount, ...] = Field(default=(), description="Data that the job reads.")
    outputs: tuple[Output, ...] = Field(
        default=(), description="Folders that the job writes and that are saved."
    )
    env: Mapping[Variable, EnvValue] = Field(
        default={},
        description="Environment variables. A value reaches the job exactly as it is written: `3.10` "
        "stays `3.10`. runspec adds `PYTHONUNBUFFERED=1`, so that Python prints a line when the program does; "
        '`PYTHONUNBUFFERED: ""` has Python collect its output instead. '
        "`{from: caller}` is the value in the shell that calls `plan` or `apply`.",
    )
    env_file: Word | None = Field(
        default=None,
        description="A file beside the spec with more variables, a line `NAME=VALUE` for each, as in files for compose "
        'and dotenv: a value in single quotes is taken as it is, and double quotes know `\\n`, `\\t`, `\\"` and '
        "`\\$`. Nothing is replaced: `$NAME` outside of single quotes is an error. Plans and records have them as they "
        "have `env`, whose values come first: it is no place for secrets.",
    )
    secrets: Secrets = Field(
        default={},
        description="Environment variables whose values are secret: the name of a variable, and the name "
        "under which the profile says where its value is stored, or `{from: caller}` for the value in the shell "
        "that calls `apply`.",
    )
    params: Mapping[Key, Param] = Field(
        default={},
        description="Parameters and their defaults: `{size: 7b, epochs: 3, mixed: true}`. `--param size=13b` "
        "gives one another value, of the kind of its default: a number, `true` or `false`, or text. "
        "`${params.NAME}` is its value in all fields but `apiVersion`, `name`, `provider` and `secrets`; a field "
        "that is only that keeps its type. A shell's script reads it from the job's variable `RUNSPEC_PARAM_NAME`.",
    )
    launch: Launch = Field(
        default=Launch.NONE,
        description="How processes are started: `none` starts the command once on every node, `mpi` "
        "starts it with mpirun, `horovod` with Horovod's Gloo launcher, `torchrun` with torchrun. `srun` starts "
        "processes without MPI: with srun on Slurm, elsewhere and in images by runspec, with the variables of srun.",
    )
    processes_per_node: Positive = Field(
        default_factory=_count_processes,
        description="Number of processes on each node, for every `launch` but `none`. The default is 1, "
        "and with torchrun one for each GPU of the node.",
    )
    global_batch: Positive | None = Field(
        default=None,
        description="Number of samples in one step of the whole job, however many processes share them. "
        "The job finds it as `RUNSPEC_GLOBAL_BATCH`.",
    )
    command: tuple[Argument, ...] | None = Field(
        default=None,
        min_length=1,
        description="The program and its arguments. No shell reads them. Write either `command` or `run`.",
    )
    run: Word | None = Field(
        default=None,
        description="A script, instead of `command`: for /bin/sh, or for the interpreter that its first "
        "line names, as in `#!/bin/bash`.",
    )
    setup: Program | None = Field(
        default=None,
        description="What runs once on every node in each attempt, before `command` or its launcher: a script as in "
        "`run`, or a program and its arguments. It has the environment, the folder, the mounts and the outputs of the "
        "job, and its time counts in `timeout`. What it exports is gone afterwards. The job starts if it ends with "
        "exit code 0, with a launcher once the setup of all nodes has.",
    )
    smoke: Program | None = Field(
        default=None,
        description="A test that `apply --smoke` runs on every node before the job: a program and its "
        "arguments, or a script as in `run`. The job starts if the test ends with exit "
        "code 0. The test is a job of its own, `NAME-smoke`, with one attempt and half an hour at most.",
    )
    ports: Ports = Field(
        default={},
        description="Ports of the first node at which the job listens: `[8888]`, or with names, "
        "`{notebook: 8888}`. `apply` opens a tunnel to each of them at 127.0.0.1 while it follows the run.",
    )
    sweep: Sweep = Field(
        default={},
        description="Parameters and their values. The job has one task for each combination; "
        "`${sweep.NAME}` in the command is the task's value. The n-th values of the "
        "parameters under `list` go together. The values of those under `random` are drawn "
        "at random.",
    )
    max_parallel: Positive | None = Field(
        default=None, description="Largest number of tasks of a sweep that run at the same time."
    )
    max_failed: Positive | None = Field(
        default=None,
        description="Number of tasks of a sweep after whose failure the sweep ends: no other task starts, and those "
        "that run are told to end. A task has failed when no attempt of it follows. Without it, all tasks run.",
    )
    metric: Metric | None = Field(
        default=None,
        description="The number by which `runspec report` ranks the tasks of a sweep, or compares "
        "the sizes of `scaling`.",
    )
    scaling: Sizes | None = Field(
        default=None,
        description="Numbers of nodes to compare: `[1, 2, 4]`, or `{nodes, batch, data, software}`, with `processes` "
        "instead of `nodes` for numbers of processes on one node. `apply` starts one run for each, `NAME-n1`, "
        "`NAME-n2` and so on (`NAME-p1` for processes); `runspec report NAME` compares them.",
    )
    retry: Retry = Field(
        default=Retry(),
        description="How many attempts the job may make, counted by failures and by lost machines.",
    )
    ulimits: Ulimits = Field(
        default=Ulimits(),
        description="Limits of each process, such as `{memlock: unlimited, nofile: 65536}`. A job does not start its "
        "program where the node allows less.",
    )
    timeout: Seconds | None = Field(
        default=None, description="Longest time that one attempt may run; runspec then stops it."
    )
    signal: Signal | None = Field(
        default=None,
        description="A signal that processes of the program get some time before `timeout` if they have a handler for "
        "it: `{name: USR1, before: 2m}`.",
    )
    ttl: Seconds | None = Field(
        default=None,
        description="How long a run and its outputs stay after its end, such as `7d`. The next command of runspec on "
        "the machine that applied it then destroys the run, as `runspec destroy` does.",
    )
    providers: Mapping[Name, Mapping[str, Any]] = Field(
        default={},
        description="Settings of single providers, by name. They override those of the profile.",
    )

    @property
    def processes_chosen(self) -> bool:
        """Whether `processes_per_node` is another number than its default."""
        fields = {"cluster": self.cluster, "launch": self.launch}
        return self.processes_per_node != _count_processes(fields)

    @property
    def program_env(self) -> dict[str, str]:
        """The environment of the command: parameters, and `env`, with Python's output unbuffered unless that sets it.

        https://docs.python.org/3/using/cmdline.html#envvar-PYTHONUNBUFFERED
        """
        unbuffered = {} if UNBUFFERED in self.secrets else {UNBUFFERED: "1"}
        return {**unbuffered, **self.param_env, **self.env}

    @property
    def param_env(self) -> dict[str, str]:
        """The variables of the parameters: `RUNSPEC_PARAM_NAME`."""
        return {
            f"{PARAM}{name.upper().replace('-', '_')}": value for name, value in self.params.items()
        }
