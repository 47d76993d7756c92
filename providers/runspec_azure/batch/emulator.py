"""Start the emulators for `runspec rehearse`: Azure Batch and Blob storage on this machine, and a profile for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_images.image_plan import REHEARSED
from runspec_jobs.provider import Unavailable
from runspec_jobs.provider.types import Emulation

ACCOUNT = "rehearsal"
# Settings that an incomplete profile may lack.
SETTINGS: Mapping[str, Any] = {"container": "rehearsal"}
# Settings of real accounts, which are ignored.
OWN = (
    "pool batch_url batch_key batch_account storage_account storage_key blob_url identity "
    "vault subscription resource_group arm_url subnet public_addresses start_task"
).split()
BELOW = ", and absolute paths of the spec lie below the job's folder"
VAULT = "RUNSPEC_REHEARSAL_VAULT"  # replaces the secrets of key vaults, which are not read
BATCH_KEY, STORAGE_KEY = "RUNSPEC_REHEARSAL_BATCH_KEY", "RUNSPEC_REHEARSAL_STORAGE_KEY"


@contextlib.contextmanager
def stage(options: Mapping[str, Any], folder: Path, engine: str | None) -> Iterator[Emulation]:
    """Start Azurite and the emulator of Azure Batch; yield how to reach them."""
    from runspec_emulators.azure_batch.emulator import AzureBatch
    from runspec_emulators.azure_services.blob import INSTALL, Blobs
    from runspec_emulators.frame.containers import confinement_notes
    from runspec_emulators.frame.settings import rehearsed_secrets

    kept = portable(options)
    with contextlib.ExitStack() as stack:
        try:
            blobs = Blobs(folder / "blobs")
        except RuntimeError as exc:
            raise Unavailable(
                f"cannot start Azurite, which runspec rehearse needs: {exc}", INSTALL
            ) from exc
        stack.callback(blobs.close)
        settings = {**SETTINGS, **kept, "images": REHEARSED}
        settings["secrets"] = {
            name: f"env:{VAULT}_{i}" if where.startswith("azure-kv:") else where
            for i, (name, where) in enumerate(dict(kept.get("secrets", {})).items())
        }
        blobs.make_container(str(settings["container"]))
        # Tasks with an image may be processes here, which have no root folder where no namespace is allowed.
        confined, notes = confinement_notes(folder, "" if engine == "podman" else BELOW)
        below = {} if engine == "podman" or confined else {"RUNSPEC_BELOW": "."}
        near = stack.enter_context(
            AzureBatch(
                folder / "batch",
                ACCOUNT,
                engine=engine or "process",
                machine_env=below,
                own_root=confined,
            )
        )
        env = {
            **near.env,
            BATCH_KEY: near.key,
            STORAGE_KEY: blobs.key,
            **rehearsed_secrets(settings),
        }
        if options.get("start_task"):
            notes.append("start_task is not rehearsed")
        if options.get("vault"):
            notes.append("vault is not rehearsed: secrets are variables of the job")
        yield Emulation(env, settings | ways(near.url, blobs.url, blobs.account), tuple(notes))


def portable(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that hold for emulators, too; an image of a gallery is replaced by the default one."""
    gallery = str(options.get("image", "")).startswith("/")
    ignored = {*OWN, *(("image", "node_agent") if gallery else ())}
    return {k: v for k, v in options.items() if k not in ignored}


def ways(batch: str, blobs: str, account: str) -> dict[str, Any]:
    """Return the options for emulators at these URLs."""
    return {
        "batch_url": batch,
        "batch_account": ACCOUNT,
        "batch_key": f"env:{BATCH_KEY}",
        "storage_account": account,
        "storage_key": f"env:{STORAGE_KEY}",
        "blob_url": blobs,
    }


def fill(stage: Emulation, container: str, folder: Path) -> None:
    """Make the public *container*, in the place of one of another owner, with the files of *folder*."""
    from azure.storage.blob import ContainerClient, PublicAccess

    login = {
        "account_name": str(stage.options["storage_account"]),
        "account_key": stage.env[STORAGE_KEY],
    }
    with ContainerClient(str(stage.options["blob_url"]), container, login) as client:
        client.create_container(public_access=PublicAccess.CONTAINER)
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            client.upload_blob(path.relative_to(folder).as_posix(), path.read_bytes())
