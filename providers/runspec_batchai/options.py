"""The settings of the Azure Batch AI provider."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from runspec_azure.session import clouds
from runspec_jobs.provider import Options
from runspec_jobs.provider.settings import (
    Anyone,
    Key,
    Model,
    Positive,
    SecretName,
    Truth,
    User,
    Whole,
    Word,
    text_like,
)

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


Named = Annotated[
    str, *text_like(NAMED, "a name at Batch AI", "use letters, digits, '_' and '-', 64 at most")
]
Group = Annotated[
    str, *text_like(GROUP, "the name of a resource group", "use letters, digits, '.', '_' and '-'")
]
SubscriptionId = Annotated[
    str,
    *text_like(
        SUBSCRIPTION,
        "the id of a subscription",
        "write the id that `az account show --query id` prints",
    ),
]
Location = Annotated[str, *text_like(LOCATION, "an Azure region", "write a region such as eastus")]
Account = Annotated[
    str,
    *text_like(
        ACCOUNT, "the name of a storage account", "write 3 to 24 of a-z and 0-9, without https://"
    ),
]
Container = Annotated[
    str,
    *text_like(
        CONTAINER,
        "the name of a container or share",
        "write 3 to 63 of a-z, 0-9 and -, without https://",
    ),
]
Prefix = Annotated[
    str, *text_like(PREFIX, "a prefix of blob names", "write words with / between them")
]


class Volume(Model):
    """A volume that Batch AI mounts. Write exactly one of `share`, `container`, `file_server` and `command`."""

    share: User[Word | None] = Field(default=None, description="Name of an Azure Files share.")
    container: User[Word | None] = Field(
        default=None, description="Name of a Blob container, mounted with blobfuse."
    )
    file_server: User[Word | None] = Field(
        default=None, description="Resource id of a Batch AI file server, mounted over NFS."
    )
    command: User[Word | None] = Field(
        default=None,
        description="Command that mounts any other file system: `mount -t nfs host:/data`.",
    )
    account: User[Word | None] = Field(
        default=None, description="Storage account, if it is not the one of the profile."
    )
    key: User[SecretName | None] = Field(
        default=None, description="Name, in `secrets`, of the key of `account`."
    )
    url: User[Word | None] = Field(
        default=None, description="URL of the share, if it is not the default one of the cloud."
    )
    folder: User[Word | None] = Field(default=None, description="Folder of the file server.")
    at: User[Word | None] = Field(
        default=None,
        description="Folder that the volume is mounted at, below Batch AI's folder for mounts; the "
        "default is the name of the volume.",
    )
    mount_options: User[Word | None] = Field(default=None, description="Mount options.")
    file_mode: Anyone[Word | None] = Field(
        default=None, description="Permissions of files: `0777`."
    )
    directory_mode: Anyone[Word | None] = Field(
        default=None, description="Permissions of folders: `0777`."
    )
    level: Anyone[Literal["job", "cluster"]] = Field(
        default="job",
        description="Whether the volume is mounted for the `job`, or on every node of the `cluster`.",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [k for k in ("share", "container", "file_server", "command") if getattr(self, k)]
        if len(kinds) != 1:
            raise ValueError("write one of share, container, file_server and command")
        return self


class Registry(Model):
    """A container registry that is not Docker Hub, or that needs a login."""

    server: User[Word | None] = Field(default=None, description="URL of the registry.")
    username: User[Word | None] = Field(default=None, description="User name at the registry.")
    password: User[SecretName | None] = Field(
        default=None, description="Name, in `secrets`, of the password."
    )


class Place(Model):
    """An input or output directory with Batch AI's own names."""

    id: Anyone[Named | None] = Field(
        default=None, description="Id of the directory; the default is the name in capitals."
    )
    path: Anyone[Word | None] = Field(
        default=None, description="Whole path of an input, or path prefix of an output."
    )
    suffix: Anyone[str | None] = Field(default=None, description="Path suffix of an output.")


class Setup(Model):
    """A task that each node runs when it joins the cluster."""

    command: User[Word] = Field(description="Command line of the setup task.")
    env: User[Mapping[Word, str]] = Field(
        default={}, description="Environment variables of the setup task."
    )
    secrets: User[Mapping[Word, SecretName]] = Field(
        default={},
        description="Environment variables that are secret, each with the name of its value in `secrets`.",
    )
    logs: User[Word] = Field(description="Path prefix for the task's stdout and stderr.")


class MachineImage(Model):
    """The operating system image of the machines."""

    publisher: User[Word] = Field(description="Publisher of the image.")
    offer: User[Word] = Field(description="Offer of the image.")
    sku: User[Word] = Field(description="SKU of the image.")
    version: User[Word | None] = Field(
        default=None, description="Version of the image; the default is the newest."
    )
    id: User[Word | None] = Field(default=None, description="Resource id of a custom image.")


class Insights(Model):
    """An Application Insights component for performance counters of the nodes."""

    component: User[Word] = Field(description="Resource id of the component.")
    key: User[SecretName | None] = Field(
        default=None, description="Name, in `secrets`, of its instrumentation key."
    )


def _free(value: Any) -> Any:
    return str(value)


class BatchAiOptions(Options):
    """Settings of `azure-batch-ai`, under `providers` in a profile. A spec may set the fields marked `anyone`."""

    places: ClassVar[str | None] = (
        "write providers: {azure-batch-ai: {location: eastus}}, one region, which has no zones to choose"
    )
    # The account.
    subscription: User[SubscriptionId | None] = Field(
        default=None, description="Id of the Azure subscription."
    )
    resource_group: User[Group] = Field(
        default="runspec", description="Resource group of all resources."
    )
    location: Anyone[Location | None] = Field(
        default=None, description="Azure region of the workspace and its clusters: `eastus`."
    )
    cloud: User[clouds.Name | None] = Field(default=None, description=clouds.SETTING)
    workspace: Anyone[Named] = Field(default="runspec", description="Batch AI workspace.")
    experiment: Anyone[Named] = Field(
        default="runspec", description="Batch AI experiment that the jobs belong to."
    )
    arm_url: User[Word | None] = Field(
        default=None,
        description="Endpoint that implements the API of Batch AI. Microsoft's own was shut down on 31 "
        "March 2019.",
    )
    storage_account: User[Account | None] = Field(
        default=None, description="Storage account for what jobs read and write."
    )
    storage_key: User[SecretName] = Field(
        default="storage-key", description="Name, in `secrets`, of the key of the storage account."
    )
    container: User[Container | None] = Field(
        default=None, description="Blob container for what jobs read and keep."
    )
    file_share: User[Container | None] = Field(
        default=None,
        description="Azure Files share for the output that jobs print, which can be read while they run.",
    )
    prefix: User[Prefix] = Field(
        default="runspec", description="Prefix of all blob names in the container."
    )
    blob_url: User[Word | None] = Field(
        default=None,
        description="Blob endpoint of the storage account, if it is not the default one of the cloud.",
    )
    # The machines.
    cluster: Anyone[Named | None] = Field(
        default=None, description="Existing cluster, which is used as it is."
    )
    vm_size: Anyone[Word | None] = Field(
        default=None,
        description="Size of the machines, instead of the one that runspec chooses: see runspec docs machines.",
    )
    scale: Anyone[Literal["auto", "manual"]] = Field(
        default="auto",
        description="Whether the cluster scales by itself (`auto`) or has a fixed size (`manual`).",
    )
    min_nodes: Anyone[Annotated[Whole, Field(ge=0)]] = Field(
        default=0,
        description="Smallest number of nodes. With 0 the cluster costs nothing while nothing runs.",
    )
    max_nodes: Anyone[Positive | None] = Field(
        default=None, description="Largest number of nodes; the default is the number of one job."
    )
    initial_nodes: Anyone[Annotated[Whole, Field(ge=0)] | None] = Field(
        default=None, description="Number of nodes that an autoscaled cluster starts with."
    )
    deallocation: Anyone[Literal["requeue", "terminate", "waitforjobcompletion"] | None] = Field(
        default=None,
        description="What happens to jobs on nodes that a cluster of fixed size gives back.",
    )
    machine_image: User[MachineImage | None] = Field(
        default=None,
        description="Operating system image of the machines; the default is Batch AI's own.",
    )
    admin_user: User[Word] = Field(default="runspec", description="User name for ssh to the nodes.")
    ssh_public_key: User[Word | None] = Field(
        default=None, description="Public key for ssh to the nodes."
    )
    admin_password: User[SecretName | None] = Field(
        default=None, description="Name, in `secrets`, of the password of `admin_user`."
    )
    subnet: User[Word | None] = Field(
        default=None, description="Resource id of the subnet of the nodes."
    )
    setup: User[Setup | None] = Field(
        default=None, description="Setup task that each node runs when it joins the cluster."
    )
    insights: User[Insights | None] = Field(
        default=None,
        description="Application Insights component that receives performance counters of the nodes.",
    )
    # The job.
    images: Anyone[Mapping[Word, Word]] = Field(
        default={},
        description="Images of a registry to use instead of those in specs: `{localhost/chainermn:7.8.1: "
        "batchaitraining/chainermn:openMPI}`.",
    )
    registry: User[Registry | None] = Field(
        default=None, description="Container registry, if it is not Docker Hub or needs a login."
    )
    toolkit: Anyone[Toolkit | None] = Field(
        default=None,
        description="Batch AI toolkit that starts the program. The default depends on `launch`: "
        "custom-mpi for `mpi`, pytorch for `torchrun`, custom for `none`.",
    )
    toolkit_settings: Anyone[Mapping[Word, Annotated[str, BeforeValidator(_free)]]] = Field(
        default={},
        description="Further settings of the toolkit, by Batch AI's names: `communicationBackend`, "
        "`workerCount`, `parameterServerCommandLineArgs`, ...",
    )
    shared: User[Mapping[Key, Volume]] = Field(
        default={}, description="Volumes behind `shared://NAME`, which Batch AI mounts."
    )
    inputs: Anyone[Mapping[Key, Place]] = Field(
        default={}, description="Batch AI's ids and paths of mounts, by the name of the mount."
    )
    results: Anyone[Mapping[Key, Place]] = Field(
        default={},
        description="Batch AI's ids, prefixes and suffixes of outputs, by the name of the output.",
    )
    logs: Anyone[Word | None] = Field(
        default=None,
        description="Path prefix of the output that jobs print; the default is the file share.",
    )
    preparation: Anyone[Word | None] = Field(
        default=None, description="Command line that each node runs before the job."
    )
    priority: Anyone[Literal["low", "normal", "high"] | None] = Field(
        default=None, description="Scheduling priority among the jobs of a cluster."
    )
    contract: Anyone[Truth] = Field(
        default=True,
        description="Whether jobs get those RUNSPEC_* variables that Batch AI can provide.",
    )


# The profile that `runspec init --provider azure-batch-ai` writes.


PROFILE_TEMPLATE = """\
# Azure Batch AI was retired on 31 March 2019: this is for rehearsals, exports, and endpoints with its API.
providers:
  azure-batch-ai:
    subscription: 12345678-1234-1234-1234-123456789012    # az account show --query id
    location: eastus
    resource_group: runspec
    storage_account: mystorage
    container: jobs               # inputs and outputs of jobs
    file_share: logs              # the output that jobs print
    ssh_public_key: "ssh-ed25519 AAAA..."
    secrets:
      storage-key: env:AZURE_STORAGE_KEY
"""
