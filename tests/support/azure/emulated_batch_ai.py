"""A stand-in for Batch AI without a Blob service, and a profile for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from runspec_emulators.batch_ai import BatchAI
from tests.support.profiles import own_profile

KEY = "a-key-of-the-account"


@contextmanager
def subscription(
    folder: Path,
    patch: pytest.MonkeyPatch,
    path: Path | None = None,
    stands: Mapping[str, Any] = MappingProxyType({}),
    **settings: Any,
) -> Iterator[BatchAI]:
    """Give a subscription in *folder*, which is the working directory as well; *path* has its mpirun.

    *stands* are settings of the stand-in, *settings* those of the profile.
    """
    if path is not None:
        patch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    with BatchAI(folder / "cloud", accounts={"acct": KEY}, **stands) as found:
        for name, value in found.env.items():
            patch.setenv(name, value)
        patch.setenv("STORAGE_KEY", KEY)
        patch.chdir(folder)
        profile = {
            "arm_url": found.url,
            "subscription": found.env["AZURE_SUBSCRIPTION_ID"],
            "location": "eastus",
            "storage_account": "acct",
            "file_share": "logs",
            "ssh_public_key": "ssh-ed25519 AAAA",
            **settings,
        }
        profile["secrets"] = {"storage-key": "env:STORAGE_KEY", **settings.get("secrets", {})}
        text = json.dumps({"providers": {"azure-batch-ai": profile}})
        own_profile().write_text(text)
        yield found


def write(**fields: Any) -> str:
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "azure-batch-ai", **fields}
    Path("job.yaml").write_text(json.dumps(spec))
    return "job.yaml"


def operations(stand: BatchAI) -> list[str]:
    return [call["operation"] for call in stand.control("GET", "calls")]
