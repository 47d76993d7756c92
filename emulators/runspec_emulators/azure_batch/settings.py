"""Settings of the emulator: delays, lags, what the machines have and give to tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from runspec_emulators.azure_services.entra import Cloud
from runspec_emulators.frame.settings import EmulatorSettings

Allocation = Literal["UserSubscription", "BatchService"]


@dataclass(frozen=True)
class Settings(EmulatorSettings):
    """Times are in seconds. Those of the real service stand in comments, where documented."""

    FIXED = frozenset(
        {"empty", "storage_key", "make_container", "delete_container"}
        | {"folder", "engine", "account", "key", "tokens", "podman", "api_versions", "url", "cloud"}
    )

    url: str = ""
    """By what URL clients know it, where something stands before it."""
    cloud: Cloud = "public"
    link_local: bool = False
    """Whether machines have their metadata at 169.254.169.254, like real ones, and get no other address for it."""
    account: str = "rehearsal"
    key: str = ""
    """Base64, of shared key. Empty: no shared key is taken."""
    tokens: tuple[str, ...] = ()
    """Bearer tokens that are accepted in addition to those of the token endpoint."""
    clients: Mapping[str, str] = field(default_factory=dict)
    """The clients that can get tokens at the loopback endpoint: client id -> secret."""
    token_s: float = 3600.0
    """The time for which a token of the loopback endpoint is valid."""
    api_versions: tuple[str, ...] = ("2025-06-01",)
    cores: int = 2
    """Cores of a node, of whatever size: CCP_NODES says them."""

    node_s: float = 0.05  # a node is allocated; minutes at the service
    boot_s: float = 0.02  # creating -> starting -> start task
    resize_s: float = 0.02  # the least that a resize takes
    delete_s: float = 0.05  # deleting -> gone, of pools and jobs
    active_s: float = 0.0  # how long a task stays active although a node is free
    preparing_s: float = 0.0
    wake_s: float = 0.05  # a preempted node comes back, when it may
    autoscale_s: float = 0.5  # every 5 minutes at the service, and no less
    enable_s: float = 0.0  # between two calls that enable autoscale: 30 s at the service
    sample_s: float = 0.05  # a sample every 30 s at the service
    second_s: float = 1.0
    """The duration of a second of autoscale formulas."""
    list_lag_s: float = 0.0
    """The age of the state that lists return; a get returns the present state."""
    page: int = 1000  # "A maximum of 1000 can be returned"
    file_type: str = "application/octet-stream"
    """The content type of files. The description allows this and application/json (`produces` of
    File_GetFromTask and File_GetFromComputeNode)."""

    subscription: str = "00000000-0000-0000-0000-000000000000"
    resource_group: str = "rehearsal"
    pool_allocation: Allocation = "BatchService"
    """The mode of the account: "The default is BatchService" (batchAccounts, poolAllocationMode)."""

    empty: bool = False
    """Whether the subscription has nothing: the account is there once the Resource Manager is asked to make it."""
    storage_key: str = ""
    """What listKeys of a storage account answers."""
    make_container: Callable[[str], object] | None = None
    """Makes a container where blobs are, when the Resource Manager is asked to."""
    delete_container: Callable[[str], object] | None = None
    account_quota: int = 3
    """Batch accounts of a location: https://learn.microsoft.com/azure/batch/batch-quota-limit"""
    dedicated_quota: int = 100
    low_priority_quota: int = 100
    resize_errors: Mapping[str, str] = field(default_factory=dict)
    """The errors of pools that are resized: pool id or "*" -> code, such as AllocationFailed."""
    unusable: tuple[int, ...] = ()
    """The nodes that become unusable, numbered from 0 in the order of their creation."""
    comes_back: bool = True
    """Whether preempted nodes are replaced; the service attempts it without limit."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Folders of this machine that stand for mounts: relativeMountPath -> folder.

    Others are empty folders of the node's own.
    """
