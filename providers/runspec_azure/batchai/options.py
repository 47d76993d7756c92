"""The settings of the Azure Batch AI provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from runspec.provider import (
    Anyone,
    Key,
    Model,
    Options,
    Positive,
    SecretName,
    Truth,
    User,
    Whole,
    Word,
    matching,
)
from runspec_azure import clouds

# The names of the official description: parameters of each path.
# https://github.com/Azure/azure-rest-api-specs/tree/main/specification/batchai
NAMED = r"^[-\w_]{1,64}$"
GROUP = r"^[-\w._]{1,90}$"
SUBSCRIPTION = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
LOCATION = r"^[a-z][a-z0-9]*$"
# https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
ACCOUNT = r"^[a-z0-9]{3,24}$"
CONTAINER = r"^(?!.*--)[a-z0-9$][a-z0-9-]{1,61}[a-z0-9]$"
PREFIX = r"^(?!(.*/)?\.{1,2}(/|$))[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$"
Toolkit = Literal[
    "chainer",
    "horovod",
    "pytorch",
    "tensorflow",
    "cntk",
    "caffe",
    "caffe2",
    "custom-mpi",
    "custom",
]


def _like(pattern: str, what: str, hint: str) -> tuple[object, object]:
    schema = WithJsonSchema({"type": "string", "pattern": pattern})
    return BeforeValidator(matching(pattern, what, hint)), schema


_NAMED = _like(NAMED, "a name of Batch AI", "use letters, digits, '_' and '-', 64 at most")
_GROUP = _like(GROUP, "a resource group", "use letters, digits, '.', '_' and '-'")
_ID = _like(SUBSCRIPTION, "a subscription", "write its id: az account show --query id")
_LOCATION = _like(LOCATION, "a location", "write one such as eastus")
_ACCOUNT = _like(ACCOUNT, "a storage account", "write 3 to 24 of a-z and 0-9, without https://")
_CONTAINER = _like(
    CONTAINER, "a container or a share", "write 3 to 63 of a-z, 0-9 and -, without https://"
)
_PREFIX = _like(PREFIX, "a prefix", "write words with / between them")

Named = Annotated[str, *_NAMED]
Group = Annotated[str, *_GROUP]
SubscriptionId = Annotated[str, *_ID]
Location = Annotated[str, *_LOCATION]
Account = Annotated[str, *_ACCOUNT]
Container = Annotated[str, *_CONTAINER]
Prefix = Annotated[str, *_PREFIX]


class Volume(Model):
    """A volume that Batch AI mounts; exactly one of `share`, `container`, `file_server` and `command`."""

    share: User[Word | None] = Field(default=None, description="An Azure Files share.")
    container: User[Word | None] = Field(default=None, description="A Blob container (blobfuse).")
    file_server: User[Word | None] = Field(
        default=None, description="The resource id of a Batch AI file server (NFS)."
    )
    command: User[Word | None] = Field(
        default=None, description="A command that mounts anything else: `mount -t nfs host:/data`."
    )
    account: User[Word | None] = Field(
        default=None, description="The storage account, where it is not that of the profile."
    )
    key: User[SecretName | None] = Field(
        default=None, description="The name, in `secrets`, of the key of that account."
    )
    url: User[Word | None] = Field(
        default=None, description="The URL of the share, where it is not that of the cloud."
    )
    folder: User[Word | None] = Field(default=None, description="The folder of a file server.")
    at: User[Word | None] = Field(
        default=None, description="Where it is mounted, below the root of mounts; its name if not."
    )
    mount_options: User[Word | None] = Field(default=None, description="Options for the mount.")
    file_mode: Anyone[Word | None] = Field(default=None, description="The mode of files: `0777`.")
    directory_mode: Anyone[Word | None] = Field(
        default=None, description="The mode of folders: `0777`."
    )
    level: Anyone[Literal["job", "cluster"]] = Field(
        default="job", description="Whether the job mounts it, or each node of the cluster."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [k for k in ("share", "container", "file_server", "command") if getattr(self, k)]
        if len(kinds) != 1:
            raise ValueError("write one of share, container, file_server and command")
        return self


class Registry(Model):
    """A registry of images that is not Docker Hub, or asks who is there."""

    server: User[Word | None] = Field(default=None, description="Its URL.")
    username: User[Word | None] = Field(default=None, description="The user.")
    password: User[SecretName | None] = Field(
        default=None, description="The password's name, in `secrets`."
    )


class Place(Model):
    """An input or output directory with Batch AI's own words for it."""

    id: Anyone[Named | None] = Field(
        default=None, description="Its id, where it is not the name in capitals."
    )
    path: Anyone[Word | None] = Field(
        default=None, description="The whole path of an input, or the prefix of an output."
    )
    suffix: Anyone[str | None] = Field(default=None, description="What an output's path ends with.")


class Setup(Model):
    """What each node does when it joins the cluster."""

    command: User[Word] = Field(description="The command line of the setup task.")
    env: User[Mapping[Word, str]] = Field(default={}, description="Its environment variables.")
    secrets: User[Mapping[Word, SecretName]] = Field(
        default={}, description="Those that are secret, by their names in `secrets`."
    )
    logs: User[Word] = Field(description="The prefix of where its stdout and stderr go.")


class MachineImage(Model):
    """The image of the machines themselves."""

    publisher: User[Word] = Field(description="Its publisher.")
    offer: User[Word] = Field(description="Its offer.")
    sku: User[Word] = Field(description="Its SKU.")
    version: User[Word | None] = Field(
        default=None, description="Its version; the newest if not given."
    )
    id: User[Word | None] = Field(
        default=None, description="The resource id of an image of one's own."
    )


class Insights(Model):
    """Performance counters of the nodes, to Application Insights."""

    component: User[Word] = Field(description="The resource id of the component.")
    key: User[SecretName | None] = Field(
        default=None, description="The name, in `secrets`, of its instrumentation key."
    )


def _free(value: Any) -> Any:
    return str(value)


class BatchAiOptions(Options):
    """`providers: {azure-batch-ai: {...}}` in a profile, and in a spec what anyone may set."""

    # The account.
    subscription: User[SubscriptionId | None] = Field(
        default=None, description="The subscription's id."
    )
    resource_group: User[Group] = Field(default="runspec", description="The group of everything.")
    location: Anyone[Location | None] = Field(
        default=None, description="Where the workspace and its clusters are: `eastus`."
    )
    cloud: User[clouds.Name | None] = Field(default=None, description=clouds.SETTING)
    workspace: Anyone[Named] = Field(default="runspec", description="The workspace.")
    experiment: Anyone[Named] = Field(
        default="runspec", description="The experiment that jobs belong to."
    )
    arm_url: User[Word | None] = Field(
        default=None,
        description="An endpoint that speaks the API; the public one ended on 31 March 2019.",
    )
    storage_account: User[Account | None] = Field(
        default=None, description="The storage account of what jobs read and write."
    )
    storage_key: User[SecretName] = Field(
        default="storage-key", description="The name, in `secrets`, of that account's key."
    )
    container: User[Container | None] = Field(
        default=None, description="The Blob container for what jobs read and keep."
    )
    file_share: User[Container | None] = Field(
        default=None,
        description="The Azure Files share for what jobs print: it can be read while they run.",
    )
    prefix: User[Prefix] = Field(
        default="runspec", description="All in the container lies below it."
    )
    blob_url: User[Word | None] = Field(
        default=None, description="The blob endpoint, where it is not that of the cloud."
    )
    # The machines.
    cluster: Anyone[Named | None] = Field(
        default=None, description="A cluster that is there already, used as it is."
    )
    vm_size: Anyone[Word | None] = Field(
        default=None, description="The size of the machines, instead of the smallest that fits."
    )
    scale: Anyone[Literal["auto", "manual"]] = Field(
        default="auto", description="Whether the cluster grows and shrinks by itself, or is fixed."
    )
    min_nodes: Anyone[Annotated[Whole, Field(ge=0)]] = Field(
        default=0, description="The fewest nodes; 0 costs nothing while nothing runs."
    )
    max_nodes: Anyone[Positive | None] = Field(
        default=None, description="The most nodes; those of one job if not given."
    )
    initial_nodes: Anyone[Annotated[Whole, Field(ge=0)] | None] = Field(
        default=None, description="The nodes that an autoscaled cluster begins with."
    )
    deallocation: Anyone[Literal["requeue", "terminate", "waitforjobcompletion"] | None] = Field(
        default=None, description="What becomes of jobs on nodes that a fixed cluster gives back."
    )
    machine_image: User[MachineImage | None] = Field(
        default=None, description="The image of the machines; Batch AI's own if not given."
    )
    admin_user: User[Word] = Field(default="runspec", description="The user for ssh to the nodes.")
    ssh_public_key: User[Word | None] = Field(default=None, description="The public key for ssh.")
    admin_password: User[SecretName | None] = Field(
        default=None, description="The name, in `secrets`, of that user's password."
    )
    subnet: User[Word | None] = Field(default=None, description="The resource id of a subnet.")
    setup: User[Setup | None] = Field(
        default=None, description="What each node does when it joins."
    )
    insights: User[Insights | None] = Field(
        default=None, description="Where performance counters of the nodes go."
    )
    # The job.
    images: Anyone[Mapping[Word, Word]] = Field(
        default={},
        description="Images of a registry that stand for those in specs: "
        "`{localhost/chainermn:7.8.1: batchaitraining/chainermn:openMPI}`.",
    )
    registry: User[Registry | None] = Field(
        default=None, description="The registry, where it is not Docker Hub or asks who is there."
    )
    toolkit: Anyone[Toolkit | None] = Field(
        default=None,
        description="The toolkit; by `launch`: custom-mpi for mpi, pytorch for torchrun, custom for "
        "none.",
    )
    toolkit_settings: Anyone[Mapping[Word, Annotated[str, BeforeValidator(_free)]]] = Field(
        default={},
        description="Further settings of the toolkit in Batch AI's own words: `communicationBackend`, "
        "`workerCount`, `parameterServerCommandLineArgs`, ...",
    )
    shared: User[Mapping[Key, Volume]] = Field(
        default={}, description="What `shared://NAME` is: a volume that Batch AI mounts."
    )
    inputs: Anyone[Mapping[Key, Place]] = Field(
        default={}, description="Ids and paths of mounts, by name, in Batch AI's own words."
    )
    results: Anyone[Mapping[Key, Place]] = Field(
        default={}, description="Ids, prefixes and suffixes of outputs, by name."
    )
    logs: Anyone[Word | None] = Field(
        default=None, description="The prefix of what jobs print; the file share if not given."
    )
    preparation: Anyone[Word | None] = Field(
        default=None, description="A command line that each node runs before the job."
    )
    priority: Anyone[Literal["low", "normal", "high"] | None] = Field(
        default=None, description="The priority among jobs of a cluster."
    )
    contract: Anyone[Truth] = Field(
        default=True, description="Whether jobs get the RUNSPEC_* variables that can be given."
    )
