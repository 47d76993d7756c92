"""Start the emulators for `runspec rehearse`: Batch AI and Blob storage on this machine, and a profile for them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_batchai.discover import NO_MPIRUN
from runspec_jobs.provider import Unavailable, UsageError, did_you_mean
from runspec_jobs.provider.types import Emulation

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
# Settings that an incomplete profile may lack.
SETTINGS: Mapping[str, Any] = {
    "location": "eastus",
    "container": "rehearsal",
    "file_share": "logs",
    "ssh_public_key": "ssh-ed25519 AAAA rehearsal",
}
# Settings of a real account, which are ignored.
OWN = "subscription arm_url blob_url cluster subnet".split()
KEY = "RUNSPEC_REHEARSAL_STORAGE_KEY"


@contextlib.contextmanager
def stage(options: Mapping[str, Any], folder: Path, engine: str | None) -> Iterator[Emulation]:
    """Start Azurite and the emulator of Batch AI; yield how to reach them."""
    from runspec_emulators.azure_services.blob import INSTALL, Blobs
    from runspec_emulators.batch_ai import BatchAI
    from runspec_emulators.frame.containers import confinement_notes
    from runspec_emulators.frame.settings import rehearsed_secrets

    wanted = {**SETTINGS, **{k: v for k, v in options.items() if k not in OWN}}
    account = str(wanted.get("storage_account", "rehearsal"))
    confined, notes = confinement_notes(folder)
    with contextlib.ExitStack() as stack:
        try:
            blobs = Blobs(folder / "blobs", account)
        except RuntimeError as exc:
            raise Unavailable(
                f"cannot start Azurite, which runspec rehearse needs: {exc}", INSTALL
            ) from exc
        stack.callback(blobs.close)
        for container in containers(wanted):
            try:
                blobs.make_container(container)
            except RuntimeError as exc:
                what = f"'{container}' in the profile is not a valid name of a container"
                raise UsageError(what, "write 3 to 63 characters of a-z, 0-9 and -") from exc
        settings: dict[str, Any] = {
            "blob_url": blobs.url.replace(account, "{account}"),
            "accounts": {account: blobs.key},
        }
        near = stack.enter_context(
            BatchAI(
                folder / "batchai",
                engine=engine or "process",
                own_root=confined,
                **settings,
            )
        )
        yield Emulation(
            {**near.env, **lacks(engine), KEY: blobs.key, **rehearsed_secrets(wanted)},
            wanted | ways(near.url, blobs, wanted),
            tuple(notes),
        )


def fill(stage: Emulation, container: str, folder: Path) -> None:
    """Copy the files of *folder* into *container* of the emulated account."""
    from azure.storage.blob import ContainerClient

    known = containers(stage.options)
    if container not in known:
        what = f"the job has no container '{container}'"
        raise UsageError(what, did_you_mean(container, known) or f"there are: {', '.join(known)}")
    login = {"account_name": str(stage.options["storage_account"]), "account_key": stage.env[KEY]}
    with ContainerClient(str(stage.options["blob_url"]), container, login) as client:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            with path.open("rb") as file:
                client.upload_blob(path.relative_to(folder).as_posix(), file, overwrite=True)


def lacks(engine: str | None) -> dict[str, str]:
    """Return the variable that says that jobs have no mpirun: without images they use the PATH of this machine."""
    bare = engine in (None, "process")
    return {NO_MPIRUN: "1"} if bare and shutil.which("mpirun") is None else {}


def containers(options: Mapping[str, Any]) -> list[str]:
    """Return the names of the containers in the profile."""
    shared = [dict(volume) for volume in dict(options.get("shared", {})).values()]
    named = [volume["container"] for volume in shared if "container" in volume]
    return list(dict.fromkeys(str(name) for name in (options["container"], *named)))


def ways(arm: str, blobs: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for emulators: of Batch AI at the URL *arm*, and of *blobs*."""
    name = str(options.get("storage_key", "storage-key"))
    return {
        "arm_url": arm,
        "subscription": SUBSCRIPTION,
        "storage_account": blobs.account,
        "blob_url": blobs.url,
        "secrets": {**dict(options.get("secrets", {})), name: f"env:{KEY}"},
    }
