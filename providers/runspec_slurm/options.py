"""The settings of the Slurm provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from runspec_agent.base import limits
from runspec_jobs.provider.registry_login import RegistryOptions
from runspec_jobs.provider.settings import Anyone, Bytes, Key, Seconds, User, Word, text_like

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
PROGRAM = r"^[A-Za-z0-9_./][A-Za-z0-9_./+-]*$"
PODMAN_OPTION = r"^--[a-z][a-z0-9-]*(=.*)?$"
# https://slurm.schedmd.com/sbatch.html#OPT_dependency
# https://slurm.schedmd.com/sbatch.html#OPT_gres; the spec requests GPUs
GRES = r"^(?!gpu(:|$))(?!.*:0+[KMGTkmgt]?$)[A-Za-z0-9_]+(:[A-Za-z0-9_][A-Za-z0-9_.+-]*)?(:[1-9][0-9]*[KMGTkmgt]?)?$"
AFTER = (
    r"^(singleton|((after|afterany|afterburstbuffer|aftercorr|afternotok|afterok):)?"
    r"[0-9]+(_[0-9]+)?)$"
)


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


class SlurmOptions(RegistryOptions):
    """Settings of `slurm`, under `providers` in a profile. A spec may set the fields marked `anyone`."""

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
    partition: Anyone[Named | None] = Field(
        default=None, description="Partition; the default is the cluster's own."
    )
    spot_partition: Anyone[Named | None] = Field(
        default=None, description="Partition for `capacity: spot`."
    )
    account: User[Named | None] = Field(
        default=None, description="Account that is charged for the job (`sbatch --account`)."
    )
    qos: Anyone[Named | None] = Field(
        default=None, description="Quality of service (`sbatch --qos`)."
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
        description="Further options of sbatch, one word each: `[--constraint=ib, --exclusive]`.",
    )


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
    # sbatch: [--constraint=ib]       # more options of sbatch, one word each
"""
