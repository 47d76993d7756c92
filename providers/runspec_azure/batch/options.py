"""The settings of the Azure Batch provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from runspec.provider import (
    Anyone,
    Key,
    LocalSecret,
    Options,
    Positive,
    Seconds,
    User,
    Word,
    matching,
)
from runspec_azure import clouds

# Plain http on this machine alone: keys, signatures and secrets of jobs go over it.
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
SHARED = r"^(files:[a-z0-9]{3,24}/[a-z0-9-]+|nfs:[^/:\s]+:/\S*|blob:[a-z0-9]{3,24}/[a-z0-9-]+)$"


def _text(pattern: str, what: str, hint: str) -> object:
    return BeforeValidator(matching(pattern, what, hint))


def _schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


BATCH_URL = "write https://ACCOUNT.REGION.batch.azure.com"
Url = Annotated[str, _text(URL, "a URL of an account", BATCH_URL), _schema(URL)]
Account = Annotated[
    str,
    _text(
        ACCOUNT, "the name of a storage account", "write 3 to 24 of a-z and 0-9, without https://"
    ),
    _schema(ACCOUNT),
]
Container = Annotated[
    str,
    _text(
        CONTAINER, "the name of a container", "write 3 to 63 of a-z, 0-9 and -, without https://"
    ),
    _schema(CONTAINER),
]
Prefix = Annotated[
    str, _text(PREFIX, "a prefix of blobs", "write words with / between them"), _schema(PREFIX)
]
Image = Annotated[
    str,
    _text(IMAGE, "an image of machines", "write publisher:offer:sku:version, or an id"),
    _schema(IMAGE),
]
Subnet = Annotated[
    str,
    _text(SUBNET, "a subnet", "write its id, /subscriptions/.../subnets/NAME"),
    _schema(SUBNET),
]
Identity = Annotated[
    str,
    _text(
        IDENTITY,
        "the id of a user-assigned identity",
        "write /subscriptions/.../resourceGroups/.../providers/Microsoft.ManagedIdentity/"
        "userAssignedIdentities/NAME",
    ),
    _schema(IDENTITY),
]
Shared = Annotated[
    str,
    _text(
        SHARED,
        "a shared file system",
        "write files:ACCOUNT/SHARE, nfs:HOST:/PATH or blob:ACCOUNT/CONTAINER",
    ),
    _schema(SHARED),
]


class BatchOptions(Options):
    """`providers: {azure-batch: {...}}` in a profile, and in a spec what anyone may set."""

    subscription: User[Word | None] = Field(
        default=None,
        description="The subscription: `doctor` looks at its quotas, and plans at the machines it may have.",
    )
    resource_group: User[Word | None] = Field(
        default=None, description="Its resource group that the Batch account is in: see `identity`."
    )
    cloud: User[clouds.Name | None] = Field(default=None, description=clouds.SETTING)
    arm_url: User[Url | None] = Field(
        default=None,
        description="The Resource Manager, where it is not that of the cloud.",
    )
    batch_url: User[Url | None] = Field(
        default=None,
        description="The Batch account: `https://ACCOUNT.REGION.batch.azure.com`, or the like in another cloud.",
    )
    batch_account: User[Word | None] = Field(
        default=None, description="Its name, where the URL does not begin with it."
    )
    batch_key: User[LocalSecret | None] = Field(
        default=None,
        description="Where its key lives, as `env:NAME`; without it, whoever azure-identity finds.",
    )
    storage_account: User[Account | None] = Field(
        default=None, description="The storage account for what jobs read and write."
    )
    storage_key: User[LocalSecret | None] = Field(
        default=None,
        description="Where its key lives, as `env:NAME`; without it, whoever azure-identity finds.",
    )
    container: User[Container | None] = Field(
        default=None, description="The container of all blobs; it is there already."
    )
    prefix: User[Prefix] = Field(default="runspec", description="All blobs begin with it.")
    blob_url: User[Url | None] = Field(
        default=None,
        description="The account's blobs, where that is not `https://ACCOUNT.blob.core.windows.net` or what it is "
        "in the cloud.",
    )
    pool_allocation: Anyone[Literal["batch-service", "user-subscription"] | None] = Field(
        default=None,
        description="The pool allocation mode of the Batch account: `user-subscription` has spot "
        "machines; what `batch-service` had instead, low priority, was retired in 2025.",
    )
    pool: Anyone[Word | None] = Field(
        default=None,
        description="A pool that is there already, used as it is. Without it, pools are made and "
        "shared by jobs of equal needs.",
    )
    vm_size: Anyone[Word | None] = Field(
        default=None,
        description="The size of the machines, instead of the smallest that fits: `Standard_D2s_v5`.",
    )
    image: User[Image] = Field(
        default="microsoft-dsvm:ubuntu-hpc:2204:latest",
        description="What the machines run: `publisher:offer:sku:version` or the id of an image.",
    )
    node_agent: User[Word] = Field(
        default="batch.node.ubuntu 22.04", description="The node agent that goes with `image`."
    )
    max_nodes: Anyone[Positive] = Field(
        default=16, description="The most machines that each pool has at once."
    )
    spot_wait: Anyone[Seconds] = Field(
        default=600,
        description="How long tasks wait for spot machines before `spot-then-on-demand` asks for "
        "others: 5m to 1h.",
    )
    subnet: User[Subnet | None] = Field(default=None, description="The subnet of the machines.")
    identity: User[Identity | None] = Field(
        default=None,
        description="The id of a user-assigned identity: pools that are made get it, by way of the "
        "Resource Manager (`subscription`, `resource_group`), a `pool` has it already. Batch and "
        "jobs reach blobs by it, and nothing is signed.",
    )
    registry: User[Word | None] = Field(
        default=None, description="The registry that images are got from: `mine.azurecr.io`."
    )
    registry_user: User[Word | None] = Field(default=None, description="Who gets them.")
    registry_password: User[LocalSecret | None] = Field(
        default=None, description="Where the password for it lives, as `env:NAME`."
    )
    signed_for: Anyone[Seconds] = Field(
        default=7 * 86_400,
        description="How long jobs can reach their blobs: the wait for machines and the job "
        "together; 7d at most where there is no storage_key.",
    )
    files: Anyone[Literal["agent", "signed"]] = Field(
        default="agent",
        description="How jobs reach their blobs: `agent`, by a signature of the container and python3 in the "
        "image, or `signed`, by a signed URL for each thing: any image with a POSIX sh, tar, and curl, GNU wget "
        "or python3; one node, no `sync`.",
    )
    shared: User[Mapping[Key, Shared]] = Field(
        default={},
        description="What `shared://NAME` is: `files:ACCOUNT/SHARE` (Azure Files), "
        "`nfs:HOST:/PATH`, or `blob:ACCOUNT/CONTAINER` (blobfuse).",
    )
    account_keys: User[Mapping[Account, LocalSecret]] = Field(
        default={}, description="Where the keys of the other storage accounts in `shared` live."
    )
    priority: Anyone[Annotated[int, Field(ge=-1000, le=1000)] | None] = Field(
        default=None, description="The priority among jobs of one pool."
    )
    tags: Anyone[Mapping[Word, Word]] = Field(
        default={}, description="Metadata for the pools and jobs that are made."
    )
