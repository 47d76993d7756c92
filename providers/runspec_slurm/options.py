"""The settings of the Slurm provider."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from runspec_agent.base import limits
from runspec_jobs.provider.registry_login import RegistryOptions
from runspec_jobs.provider.settings import Anyone, Bytes, Key, Seconds, Truth, User, Word, text_like

# Neither an option of ssh nor a character that a shell interprets.
HOST = r"^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$"
SSH_OPTION = r"^[A-Za-z]+=.+$"  # as after `ssh -o`: https://man.openbsd.org/ssh_config
# Options by which runspec keeps one connection and prompts for nothing, or that run commands on this machine.
# https://man.openbsd.org/ssh_config
SSH_MANAGED = (
    "batchmode controlmaster controlpath controlpersist escapechar forkafterauthentication include "
    "knownhostscommand localcommand match permitlocalcommand pkcs11provider proxycommand remotecommand "
    "requesttty securitykeyprovider sendenv sessiontype setenv stdinnull xauthlocation"
).split()
# No comma and no colon: container engines take lists of SOURCE:TARGET with commas between them.
FOLDER = r"^(?!.*/\.{1,2}(/|$))/([A-Za-z0-9._+@=-]+/)*[A-Za-z0-9._+@=-]+$"
WORKSPACE = r"^(?!.*/\.{1,2}(/|$))~?/([A-Za-z0-9._+@=-]+/)*[A-Za-z0-9._+@=-]+$"
NAMED = r"^[A-Za-z0-9_][A-Za-z0-9_.+@-]*$"
PARTITIONS = rf"^{NAMED[1:-1]}(?:,{NAMED[1:-1]})*$"
PROGRAM = r"^[A-Za-z0-9_./][A-Za-z0-9_./+-]*$"
PODMAN_OPTION = r"^--[a-z][a-z0-9-]*(=.*)?$"
# https://slurm.schedmd.com/sbatch.html#OPT_dependency
# https://slurm.schedmd.com/sbatch.html#OPT_gres; the spec requests GPUs
GRES = r"^(?!gpu(:|$))(?!.*:0+[KMGTkmgt]?$)[A-Za-z0-9_]+(:[A-Za-z0-9_][A-Za-z0-9_.+-]*)?(:[1-9][0-9]*[KMGTkmgt]?)?$"
AFTER = (
    r"^(singleton|((after|afterany|afterburstbuffer|aftercorr|afternotok|afterok):)?"
    r"[0-9]+(_[0-9]+)?)$"
)
# A list of hosts, as `scontrol show hostnames` takes it, but no file of hosts, which would have a "/".
HOST_RANGE = (
    r"[A-Za-z0-9_][A-Za-z0-9_.-]*(\[[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*\][A-Za-z0-9_.-]*)*"
)
HOSTS = rf"^{HOST_RANGE}(,{HOST_RANGE})*$"
# https://slurm.schedmd.com/sbatch.html#OPT_constraint
CONSTRAINT = r"^[A-Za-z0-9_(\[][A-Za-z0-9_.&|,*()\[\]:=-]*$"
LICENSE = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(@[A-Za-z0-9_.-]+)?(:[1-9][0-9]{0,8})?$"
DATE = r"([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{6}|[0-9]{2}/[0-9]{2}(/[0-9]{2})?)"
CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?"
# https://slurm.schedmd.com/sbatch.html#OPT_begin, without spaces
BEGIN = (
    r"^(now(\+[0-9]+(seconds?|minutes?|hours?|days?|weeks?)?)?|today|tomorrow|midnight|noon|fika|teatime"
    rf"|{CLOCK}(AM|PM)?|{DATE}(T{CLOCK})?)$"
)
MAIL = r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*(@[A-Za-z0-9][A-Za-z0-9.-]*)?$"
COMMENT = r"^[^\x00-\x1f\x7f]{1,1000}$"


def _unmanaged(option: str) -> str:
    """Return *option*, or raise the error of an option of ssh that a profile must not set."""
    name = option.partition("=")[0]
    if name.lower() in SSH_MANAGED:
        hint = "set it in ~/.ssh/config, for that host"
        facts = {"what": f"{name} cannot be set in a profile", "hint": hint}
        raise PydanticCustomError("runspec", "{what}", facts)
    return option


Host = Annotated[
    str,
    *text_like(HOST, "a host of ssh", "write HOST, USER@HOST or a name of ~/.ssh/config"),
]
SshOption = Annotated[
    str,
    AfterValidator(_unmanaged),
    *text_like(SSH_OPTION, "an option of ssh", "write Port=2222 or IdentityFile=~/.ssh/id"),
]
Folder = Annotated[
    str,
    *text_like(FOLDER, "a folder of the cluster", "write an absolute path of plain names"),
]
Workspace = Annotated[
    str,
    *text_like(
        WORKSPACE, "a folder of the cluster", "write ~/NAME or an absolute path of plain names"
    ),
]
Named = Annotated[
    str, *text_like(NAMED, "a name in Slurm", "write one name, without commas and spaces")
]
Partitions = Annotated[  # Slurm uses the one that can start the job first
    str, *text_like(PARTITIONS, "a partition, or several", "write one name, or several as a,b")
]
Program = Annotated[str, *text_like(PROGRAM, "a program", "write python3 or an absolute path")]
PodmanOption = Annotated[
    str,
    *text_like(PODMAN_OPTION, "an option of podman run", "write --name=value, in one word"),
]
After = Annotated[
    str, *text_like(AFTER, "a dependency", "write '123', 'afterany:123' or 'singleton'")
]

Gres = Annotated[
    str,
    *text_like(
        GRES, "a generic resource", "write 'nvme:1' or 'NAME:TYPE:2'; GPUs are cluster.gpus"
    ),
]
Hosts = Annotated[
    str, *text_like(HOSTS, "a list of nodes", "write names and ranges: 'node[01-04],gpu1'")
]
Constraint = Annotated[
    str,
    *text_like(CONSTRAINT, "a constraint", "write features of nodes: ib, 'intel&gpu' or '[a|b]'"),
]
License = Annotated[str, *text_like(LICENSE, "a license", "write 'matlab', or 'matlab:2' for two")]
Begin = Annotated[
    str,
    *text_like(
        BEGIN, "a time in Slurm", "write 'now+2hours', '18:00', tomorrow or 2026-12-24T18:00:00"
    ),
]
Mail = Annotated[str, *text_like(MAIL, "an address of mail", "write one: me@example.org")]
Comment = Annotated[
    str, *text_like(COMMENT, "a comment", "write one line of 1,000 characters at most")
]


def _to_upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


MailType = Annotated[
    Literal[
        "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT",
        "TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS",
    ],
    BeforeValidator(_to_upper),
]  # fmt: skip


class SlurmOptions(RegistryOptions):
    """Settings of `slurm`, under `providers` in a profile. A spec may set the fields marked `anyone`."""

    # The setting with the name of a reservation of Slurm, which is another thing on some clusters.
    reserved: ClassVar[tuple[str, ...]] = ("reservation",)
    places: ClassVar[str | None] = (
        "remove it, or write providers: {slurm: {partition: NAME}}, which says what nodes there are"
    )

    host: User[Host | None] = Field(
        default=None,
        description="Login node, as ssh names it. Without it, runspec calls Slurm's commands on this "
        "machine.",
    )
    ssh_options: User[tuple[SshOption, ...]] = Field(
        default=(),
        description="Options for `ssh -o`, such as `[Port=2222]`. Put all others into ~/.ssh/config.",
    )
    workspace: User[Workspace] = Field(
        default="~/.runspec",
        description="Folder for the files of jobs, on a file system that the login node and all nodes "
        "share.",
    )
    partition: Anyone[Partitions | None] = Field(
        default=None,
        description="Partition, or several as `a,b`; the default is the cluster's own.",
    )
    spot_partition: Anyone[Partitions | None] = Field(
        default=None, description="Partition for `capacity: spot`, or several as `a,b`."
    )
    # A stranger's job must not spend the hours of another project of yours.
    account: User[Named | None] = Field(
        default=None, description="Account that is charged for the job (`sbatch --account`)."
    )
    # Administrators say which ones an account may use, so this is a choice like that of a partition.
    qos: Anyone[Named | None] = Field(
        default=None, description="Quality of service (`sbatch --qos`)."
    )
    # Whole machines: no more than a job can ask for with `cpus` and `memory: all`.
    exclusive: Anyone[Truth] = Field(
        default=False, description="Share nodes with no other job (`sbatch --exclusive`)."
    )
    # These three narrow down which nodes of a partition a job gets, which gives it no further right.
    constraint: Anyone[Constraint | None] = Field(
        default=None,
        description="Features that the nodes must have (`sbatch --constraint`): `ib`, or `intel&gpu`.",
    )
    nodelist: Anyone[Hosts | None] = Field(
        default=None,
        description="Nodes that the job must have (`sbatch --nodelist`): `node[01-02]`. It has further "
        "ones if it needs more.",
    )
    exclude: Anyone[Hosts | None] = Field(
        default=None,
        description="Nodes that the job must not have (`sbatch --exclude`): `node[03-04],gpu1`.",
    )
    # The administrators say who may use one. Like a partition, it is a place for jobs, and costs the same account.
    reservation: Anyone[Named | None] = Field(
        default=None, description="Reservation that the job runs in (`sbatch --reservation`)."
    )
    # Counted by the cluster for all users, as generic resources are.
    licenses: Anyone[tuple[License, ...]] = Field(
        default=(),
        description="Licenses that the job needs while it runs (`sbatch --licenses`): `['matlab:2']`.",
    )
    # A job that begins later costs nothing more.
    begin: Anyone[Begin | None] = Field(
        default=None,
        description="When the job may begin at the earliest (`sbatch --begin`), by the clock of the cluster: "
        "`now+2hours`, `18:00` or `2026-12-24T18:00:00`.",
    )
    # Only seen by who may see the job.
    comment: Anyone[Comment | None] = Field(
        default=None,
        description="A comment, which `squeue` and `sacct` can show (`sbatch --comment`).",
    )
    # Without an address, Slurm's mail goes to the user of the job, and so a job file may ask for it.
    mail_type: Anyone[tuple[MailType, ...]] = Field(
        default=(),
        description="Events after which Slurm sends mail (`sbatch --mail-type`): `[END, FAIL]`, or "
        "`ARRAY_TASKS` for a mail of each task.",
    )
    # A stranger's job must not write to others in your name.
    mail_user: User[Mail | None] = Field(
        default=None,
        description="Who gets the mail of `mail_type`; the default is the user on the cluster.",
    )
    gpu_request: Anyone[Literal["gres", "gpus-per-node"]] = Field(
        default="gres",
        description="How GPUs are requested: `gres` for `--gres=gpu:N`, which every Slurm accepts, or "
        "`gpus-per-node` for `--gpus-per-node=N`, which needs `select/cons_tres`.",
    )
    gpu_types: Anyone[Mapping[Word, Named]] = Field(
        default={},
        description="The cluster's name for a `gpu_type`, if it differs: `{V100: tesla}`.",
    )
    gpu_memory: Anyone[Mapping[Word, Bytes]] = Field(
        default={},
        description="The memory of one GPU, by the cluster's name of its type, which Slurm does not know: "
        "`{a100: 80GiB}`. `cluster.gpu_memory` needs it.",
    )
    gres: Anyone[tuple[Gres, ...]] = Field(
        default=(),
        description="Generic resources that each node needs in addition to GPUs: `['nvme:1']`.",
    )
    memory: Anyone[Literal["spec", "all"]] = Field(
        default="spec",
        description="How much memory is requested: what `cluster.memory` says (`spec`), or `all` memory "
        "of the node (`--mem=0`).",
    )
    mpi: Anyone[Literal["mpirun", "srun", "auto"]] = Field(
        default="mpirun",
        description="What starts the ranks of `launch: mpi`. `mpirun`: the mpirun of the job's own "
        "environment, which needs nothing from the cluster. `srun`: `srun --mpi=...`. "
        "`auto`: srun if the cluster has the plugin for the MPI that "
        "`container.requirements` names, else mpirun.",
    )
    mpi_type: Anyone[Named | None] = Field(
        default=None,
        description="MPI plugin for `mpi: srun`; the default is pmix if the cluster has it, else pmi2.",
    )
    container: Anyone[Literal["auto", "podman", "apptainer", "pyxis", "none"]] = Field(
        default="auto",
        description="What runs container images; `auto` uses what the cluster has. With `none`, the "
        "packages of `container.requirements` are installed on the node instead.",
    )
    images: User[Word | None] = Field(
        default=None,
        description="Repository to which images of `container.build` are pushed, such as "
        "`registry.example.org/team/jobs`, and from which the nodes pull them.",
    )
    podman: User[tuple[PodmanOption, ...]] = Field(
        default=("--cgroups=disabled",),
        description="Further options of `podman run`. The default keeps the container in the cgroup that "
        "Slurm gave the job, for which podman needs crun; write `[]` where it has runc.",
    )
    python: User[Program] = Field(
        default="python3", description="Python of the nodes that starts jobs; 3.6 or newer."
    )
    environment: Anyone[Literal["login", "clean"]] = Field(
        default="login",
        description="Environment variables that a job starts with: those that a login on its node sets, "
        "such as modules (`login`), or only PATH and HOME (`clean`), which starts faster. A "
        "job never gets the environment of the person who applies it.",
    )
    scratch: User[Folder | None] = Field(
        default=None, description="Folder on the local disk of each node, instead of its TMPDIR."
    )
    grace: Anyone[Seconds] = Field(
        default=limits.SERVICE_GRACE_S,
        description="Time between SIGTERM and SIGKILL when a job is stopped.",
    )
    shared: User[Mapping[Key, Folder]] = Field(
        default={},
        description="Folders behind `shared://NAME`, which all nodes have at that path.",
    )
    after: Anyone[tuple[After, ...]] = Field(
        default=(),
        description="Slurm jobs to wait for: `['123']` until the job has succeeded, `['afterany:123']` "
        "until it has ended.",
    )
    sbatch: User[tuple[Word, ...]] = Field(
        default=(),
        description="Further options of sbatch, one word each: `[--nice=10, --mem-bind=local]`.",
    )


# Settings that are words of Slurm's own, by their options of sbatch.
OWN_WORDS = (
    "constraint",
    "nodelist",
    "exclude",
    "licenses",
    "begin",
    "comment",
    "mail-type",
    "mail-user",
)


def split_partitions(named: str | None) -> tuple[str, ...]:
    """Return the partitions that the setting *named* lists.

    >>> split_partitions("short,long"), split_partitions(None)
    (('short', 'long'), ())
    """
    return tuple(named.split(",")) if named else ()


def list_own_words(options: SlurmOptions) -> Iterator[str]:
    """Yield the options of sbatch for those settings that are only passed on."""
    if options.exclusive:
        yield "--exclusive"
    for name in (*OWN_WORDS, *options.reserved):
        value = getattr(options, name.replace("-", "_"))
        if value:
            yield f"--{name}={value if isinstance(value, str) else ','.join(value)}"


def count_hosts(hosts: str) -> int:
    """Return how many names are in a list of hosts.

    >>> count_hosts("gpu1"), count_hosts("node[01-04,7],gpu1"), count_hosts("r[1-2]n[1-3]")
    (1, 6, 6)
    """
    total = 0
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", hosts):
        count = 1
        for ranges in re.findall(r"\[([^\]]*)\]", part):
            ends = (numbers.partition("-") for numbers in ranges.split(","))
            count *= sum(max(0, int(last or first) - int(first) + 1) for first, _, last in ends)
        total += count
    return total


# The profile that `runspec init --provider slurm` writes, to be filled in.


PROFILE_TEMPLATE = """\
# Settings of your cluster, which job files do not contain.
providers:
  slurm:
    # The login node, as ssh names it; remove this line if Slurm's commands are on this machine:
    host: login.example.org
    # ssh_options: [User=me, IdentityFile=~/.ssh/id_ed25519]
    # A folder that the login node and all nodes share, for all files of jobs:
    workspace: ~/.runspec
    # partition: gpu                  # instead of the cluster's default; sinfo -s lists them
    # spot_partition: preemptible     # for capacity: spot
    # account: my-project
    # qos: normal
    # gpu_types: {V100: tesla}        # the cluster's own name of a GPU type
    # What runs images: podman, apptainer or pyxis; auto uses the one that the cluster has:
    # container: auto
    # python: python3                 # Python of the nodes, 3.6 or newer
    # secrets: {hf: env:HF_TOKEN}
    # A registry that needs a login to pull images; without registry, it is Docker Hub:
    # registry: nvcr.io
    # registry_user: $oauthtoken
    # registry_password: env:NGC_API_KEY
    # shared: {data: /data}           # shared://data/... is this folder on every node
    # constraint: ib                  # features of the nodes
    # mail_user: me@example.org       # who gets the mail of mail_type: [END, FAIL]
    # sbatch: [--nice=10]             # more options of sbatch, one word each
"""
