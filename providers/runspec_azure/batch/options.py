"""The settings of the Azure Batch provider."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from runspec_azure.session import clouds
from runspec_jobs.provider.registry_login import RegistryOptions
from runspec_jobs.provider.settings import (
    Anyone,
    Key,
    LocalSecret,
    Positive,
    Seconds,
    Truth,
    User,
    Word,
    text_like,
)

# Plain http only on this machine, since requests contain keys, signatures and secrets of jobs.
URL = r"^(https://[A-Za-z0-9.-]+|http://(127\.[0-9.]+|localhost))(:[0-9]+)?(/[A-Za-z0-9._-]+)*/?$"
# https://learn.microsoft.com/en-us/azure/storage/common/storage-account-overview#storage-account-name
ACCOUNT = r"^[a-z0-9]{3,24}$"
# https://learn.microsoft.com/en-us/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
CONTAINER = r"^(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$"
PREFIX = r"^(?!(.*/)?\.{1,2}(/|$))[A-Za-z0-9!_.*'()-]+(/[A-Za-z0-9!_.*'()-]+)*$"
IMAGE = r"^([^:/\s]+:[^:/\s]+:[^:/\s]+:[^:/\s]+|/subscriptions/.+)$"
SUBNET = r"^/subscriptions/.+/subnets/[^/]+$"
# https://learn.microsoft.com/rest/api/batchmanagement/pool/create#batchpoolidentity
IDENTITY = (
    r"^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.ManagedIdentity/"
    r"userAssignedIdentities/[^/]+$"
)
VAULT = r"^https://[A-Za-z0-9.-]+(:[0-9]+)?/?$"
SHARED = r"^(files:[a-z0-9]{3,24}/[a-z0-9-]+|nfs:[^/:\s]+:/\S*|blob:[a-z0-9]{3,24}/[a-z0-9-]+)$"


BATCH_URL = "write https://ACCOUNT.REGION.batch.azure.com"
Url = Annotated[str, *text_like(URL, "a URL of an account", BATCH_URL)]
Account = Annotated[
    str,
    *text_like(
        ACCOUNT, "the name of a storage account", "write 3 to 24 of a-z and 0-9, without https://"
    ),
]
Container = Annotated[
    str,
    *text_like(
        CONTAINER, "the name of a container", "write 3 to 63 of a-z, 0-9 and -, without https://"
    ),
]
Prefix = Annotated[
    str, *text_like(PREFIX, "a prefix of blob names", "write words with / between them")
]
Image = Annotated[
    str,
    *text_like(IMAGE, "an operating system image", "write publisher:offer:sku:version, or an id"),
]
Subnet = Annotated[
    str,
    *text_like(SUBNET, "a subnet", "write its id, /subscriptions/.../subnets/NAME"),
]
Identity = Annotated[
    str,
    *text_like(
        IDENTITY,
        "the id of a user-assigned identity",
        "write /subscriptions/.../resourceGroups/.../providers/Microsoft.ManagedIdentity/"
        "userAssignedIdentities/NAME",
    ),
]
Vault = Annotated[
    str, *text_like(VAULT, "the URL of a key vault", "write https://VAULT.vault.azure.net")
]
Shared = Annotated[
    str,
    *text_like(
        SHARED,
        "a shared file system",
        "write files:ACCOUNT/SHARE, nfs:HOST:/PATH or blob:ACCOUNT/CONTAINER",
    ),
]


class BatchOptions(RegistryOptions):
    """Settings of `azure-batch`, under `providers` in a profile. A spec may set the fields marked `anyone`."""

    places: ClassVar[str | None] = (
        "remove it: the machines are in the region of the Batch account that batch_url of the profile names"
    )
    subscription: User[Word | None] = Field(
        default=None,
        description="Id of the Azure subscription. `doctor` reads its quotas, and `plan` the machine "
        "sizes that it may use.",
    )
    resource_group: User[Word | None] = Field(
        default=None, description="Resource group of the Batch account, which `identity` needs."
    )
    cloud: User[clouds.Name | None] = Field(default=None, description=clouds.SETTING)
    arm_url: User[Url | None] = Field(
        default=None,
        description="Endpoint of the Azure Resource Manager, if it is not the default one of the cloud.",
    )
    batch_url: User[Url | None] = Field(
        default=None,
        description="URL of the Batch account: `https://ACCOUNT.REGION.batch.azure.com`, or the "
        "equivalent in another cloud.",
    )
    batch_account: User[Word | None] = Field(
        default=None,
        description="Name of the Batch account, if `batch_url` does not begin with it.",
    )
    batch_key: User[LocalSecret | None] = Field(
        default=None,
        description="Where the key of the Batch account is stored, as `env:NAME` or `file:/path`. "
        "Without it, the login that azure-identity finds is used.",
    )
    storage_account: User[Account | None] = Field(
        default=None, description="Storage account for what jobs read and write."
    )
    storage_key: User[LocalSecret | None] = Field(
        default=None,
        description="Where the key of the storage account is stored, as `env:NAME` or `file:/path`. "
        "Without it, the login that azure-identity finds is used.",
    )
    container: User[Container | None] = Field(
        default=None, description="Existing Blob container for what jobs read and write."
    )
    prefix: User[Prefix] = Field(default="runspec", description="Prefix of all blob names.")
    blob_url: User[Url | None] = Field(
        default=None,
        description="Blob endpoint of the storage account, if it is not "
        "`https://ACCOUNT.blob.core.windows.net` or the equivalent in another cloud.",
    )
    pool_allocation: Anyone[Literal["batch-service", "user-subscription"] | None] = Field(
        default=None,
        description="Pool allocation mode of the Batch account, if it cannot be discovered. It limits the size of "
        "pools with several nodes for each task; `user-subscription` accepts no `batch_key`.",
    )
    pool: Anyone[Word | None] = Field(
        default=None,
        description="Existing pool, which is used as it is. Without it, runspec makes pools, which jobs "
        "with equal needs share.",
    )
    vm_size: Anyone[Word | None] = Field(
        default=None,
        description="Size of the machines, such as `Standard_D2s_v5`, instead of the cheapest one that "
        "is large enough.",
    )
    image: User[Image] = Field(
        default="microsoft-dsvm:ubuntu-hpc:2404:latest",
        description="Operating system image of the machines: `publisher:offer:sku:version`, or the id of "
        "an image in a gallery.",
    )
    node_agent: User[Word] = Field(
        default="batch.node.ubuntu 24.04",
        description="Node agent SKU of Azure Batch that belongs to `image`.",
    )
    max_nodes: Anyone[Positive] = Field(
        default=16, description="Largest number of machines that each pool has at the same time."
    )
    tasks_per_node: Anyone[Annotated[int, Field(ge=1, le=256)]] = Field(
        default=1,
        description="How many tasks of a sweep run on one machine at the same time; `cluster` says what each of them "
        "needs. Azure Batch sets no limits between them.",
    )
    spot_wait: Anyone[Seconds] = Field(
        default=600,
        description="How long tasks wait for spot machines, 5m to 1h, before `spot-then-on-demand` asks "
        "for on-demand machines.",
    )
    subnet: User[Subnet | None] = Field(
        default=None, description="Resource id of the subnet of the machines."
    )
    public_addresses: User[Truth] = Field(
        default=True,
        description="Whether machines have public IP addresses. Without them they need a `subnet` from which they "
        "reach Azure Batch and the storage account.",
    )
    images: User[Word | None] = Field(
        default=None,
        description="Repository to which images of `container.build` are pushed, such as "
        "`mine.azurecr.io/team/jobs`.",
    )
    start_task: User[Word | None] = Field(
        default=None,
        description="Shell script that each machine runs as root, outside of containers, before its first task.",
    )
    prefetch_image: User[Truth] = Field(
        default=False,
        description="Whether machines pull the image of the job when they start. Jobs with other images then use "
        "other pools.",
    )
    identity: User[Identity | None] = Field(
        default=None,
        description="Resource id of a user-assigned managed identity, with which Azure Batch and the "
        "jobs reach blobs, instead of signatures. Pools that runspec makes get it, through "
        "the Resource Manager, which needs `subscription` and `resource_group`. An existing "
        "`pool` must have it already.",
    )
    vault: User[Vault | None] = Field(
        default=None,
        description="URL of a key vault, such as `https://VAULT.vault.azure.net`. Secrets of this machine (of the "
        "caller's shell, `env:` and `file:`) become secrets of the run there, which the job reads with `identity`, "
        "instead of variables of the job that others can read.",
    )
    signed_for: Anyone[Seconds] = Field(
        default=7 * 86_400,
        description="How long jobs can reach their blobs, at most 7d without `storage_key`. This must "
        "cover the wait for machines and the job.",
    )
    files: Anyone[Literal["agent", "signed"]] = Field(
        default="agent",
        description="How jobs reach their blobs. `agent`: with one signature for the container, and "
        "python3 in the image. `signed`: with one signed URL for each blob, in any image "
        "that has a POSIX sh, tar, and curl, GNU wget or python3; such jobs have one node, "
        "and no `sync`.",
    )
    shared: User[Mapping[Key, Shared]] = Field(
        default={},
        description="File systems behind `shared://NAME`: `files:ACCOUNT/SHARE` (Azure Files), "
        "`nfs:HOST:/PATH`, or `blob:ACCOUNT/CONTAINER` (blobfuse).",
    )
    account_keys: User[Mapping[Account, LocalSecret]] = Field(
        default={},
        description="Where the keys of the other storage accounts in `shared` are stored, by account: "
        "`env:NAME` or `file:/path`.",
    )
    priority: Anyone[Annotated[int, Field(ge=-1000, le=1000)] | None] = Field(
        default=None, description="Scheduling priority among the jobs of a pool."
    )
    tags: Anyone[Mapping[Word, Word]] = Field(
        default={}, description="Metadata for the pools and jobs that runspec makes."
    )


# The profile that `runspec init --provider azure-batch` writes, as a template.


PROFILE_TEMPLATE = """\
# Settings of an account, by provider: no job file names them.
providers:
  azure-batch:
    batch_url: https://myaccount.westeurope.batch.azure.com
    storage_account: mystorage
    container: jobs                   # an existing container; all blob names begin with runspec/
    # Without keys, the login of this machine is used (az login, a managed identity, ...). With keys:
    # batch_key: env:AZURE_BATCH_KEY
    # storage_key: env:AZURE_STORAGE_KEY
    # subscription: 00000000-0000-0000-0000-000000000000   # for runspec doctor azure-batch
    # An existing pool is used as it is; without this, runspec makes pools, which have no machines while idle:
    # pool: my-pool
    max_nodes: 16
    # Pool allocation mode of the account (portal: Properties), if it is not the usual batch-service:
    # pool_allocation: user-subscription
    # For images without Python: files: signed, see runspec docs azure-batch.
    # registry: mine.azurecr.io
    # registry_user: mine
    # registry_password: env:REGISTRY_PASSWORD
    # secrets: {hf: env:HF_TOKEN}
    # shared: {workspace: "files:mystorage/workspace"}
"""
