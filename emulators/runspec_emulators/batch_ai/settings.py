"""Settings of the emulator: delays, quotas, storage accounts, what machines give to jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from runspec_emulators.frame.settings import EmulatorSettings, Kind

# Usages_List, official example: what a subscription had.
QUOTAS = {
    "Clusters": 20,
    "Total Cluster Dedicated Regional vCPUs": 600,
    "Total Cluster LowPriority Regional vCPUs": 150,
}


def _whole(value: Any) -> bool:
    return isinstance(value, int | None)


def _counts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(type(count) is int for count in value.values())


@dataclass(frozen=True)
class Settings(EmulatorSettings):
    """Times are in seconds."""

    FIXED = frozenset(
        "folder engine podman subscription seed url files_url blob_url tokens".split()
    )
    KINDS: ClassVar[Mapping[Any, Kind]] = {
        **EmulatorSettings.KINDS,
        int: (_whole, "no whole number"),
        int | None: (_whole, "no whole number"),
        Mapping[str, int]: (_counts, "no mapping to whole numbers"),
    }

    mpirun: tuple[str, ...] = ("mpirun",)
    """The command with which the service's own toolkits start processes."""
    subscription: str = "00000000-0000-0000-0000-000000000000"
    seed: int = 0
    accounts: Mapping[str, str] = field(default_factory=dict)
    """Storage accounts and their keys. When empty, every account is there and takes every key."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Folders that are shares or containers: "ACCOUNT/NAME" -> folder. Others lie below *folder*."""
    url: str = ""
    """The URL that clients use, if there is a proxy in front of the emulator."""
    files_url: str = ""
    """The URL of signed links, if it is not `url`; that of the service is https://ACCOUNT.file.core.windows.net."""
    blob_url: str | None = None
    """A Blob service (Azurite), "http://127.0.0.1:PORT/{account}", whose containers jobs mount."""
    unmanaged: Mapping[str, str] = field(default_factory=dict)
    """Folders that stand for unmanaged file systems: mountCommand -> folder."""

    others: tuple[str, ...] = ()
    """Resources of other services in every group: "Microsoft.Storage/storageAccounts/NAME"."""
    tokens: tuple[str, ...] = ()
    """Bearer tokens that are always valid, in addition to those of the identity endpoint."""
    token_s: float = 3600.0
    """The time for which a token of the identity endpoint is valid."""
    retry_after_s: int = 0
    """Retry-After of operations under way. In the official examples, 15."""
    operation_s: float = 0.0
    """The duration of long-running operations, which answer 202 and a Location until then."""
    resize_s: float = 0.02  # allocationState resizing -> nodes are there
    prepare_s: float = 0.02  # preparing -> idle, beside the setup task
    autoscale_s: float = 0.05  # between evaluations of autoScale
    leave_s: float = 0.02  # leaving -> gone
    idle_s: float = 0.1  # how long a node is idle before autoScale takes it away
    terminate_grace_s: float = 1.0  # terminating: SIGTERM -> SIGKILL
    link_minute_s: float = 60.0
    """The duration of a minute of linkexpiryinminutes, whose minimum is 5 minutes."""
    capacity: int | None = None
    """The number of low-priority nodes that are available to all clusters together."""
    quotas: Mapping[str, int] = field(default_factory=lambda: dict(QUOTAS))
    """By the names that usages have; a family that is not named has the regional quota."""
    mount_failures: Mapping[str, str] = field(default_factory=dict)
    """Mounts that fail: relativeMountPath -> the message."""
    throttle_files: float = 0.0
    """The share of reads by signed links that are answered with 503, chosen at random."""
    list_lag_s: float = 0.0
    """The time from the creation of a file until listOutputFiles returns it."""
