"""What no example asks of Batch AI: rows of test_plans."""

from __future__ import annotations

from typing import Any

PROFILE = {
    "subscription": "00000000-0000-0000-0000-000000000000",
    "location": "eastus",
    "storage_account": "jobs",
    "container": "jobs",
    "file_share": "logs",
    "ssh_public_key": "ssh-ed25519 AAAA",
    "images": {"localhost/chainermn:7.8.1": "batchaitraining/chainermn:openMPI"},
}


ACCOUNTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "pool": (
        "hello",
        {"cluster": {"capacity": "pool:night"}},
        {"pools": {"night": {"cluster": "night"}}},
    ),
}
