"""The volumes that Batch AI mounts, and the paths of mounts and outputs on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runspec_azure.session import clouds
from runspec_azure.store_layout import STATE
from runspec_batchai.naming import input_id, output_id
from runspec_batchai.options import BatchAiOptions, Volume
from runspec_jobs.provider import Facts, Mount, Output, Source, Spec

ROOTS = {"job": "$AZ_BATCHAI_JOB_MOUNT_ROOT", "cluster": "$AZ_BATCHAI_MOUNT_ROOT"}
STORE, LOGS = "runspec-store", "runspec-logs"  # where the profile's container and share are mounted


def credential(name: str, options: BatchAiOptions, plain: str, vault: str) -> dict[str, Any]:
    """Return the secret *name* as the field *plain*, or as the field *vault* if it is in a key vault.

    A source of a key vault is `azure-kv:RESOURCE_ID_OF_THE_VAULT#SECRET_URL`.
    """
    source = options.secrets.get(name, f"env:{name}")
    if source.startswith("azure-kv:"):
        where, _, url = source.removeprefix("azure-kv:").partition("#")
        return {vault: {"sourceVault": {"id": where}, "secretUrl": url}}
    return {plain: {"$secret": source}}


def own_volumes(options: BatchAiOptions) -> dict[str, Volume]:
    """Return the volumes for the share and the container of the profile."""
    volumes: dict[str, Volume] = {}
    if options.file_share:
        volumes[LOGS] = Volume(share=options.file_share)
    if options.container:
        volumes[STORE] = Volume(container=options.container)
    return volumes


def used(spec: Spec, options: BatchAiOptions) -> dict[str, Volume]:
    """Return the volumes that are mounted for the job of *spec*, by name."""
    shared = {m.place.partition("/")[0] for m in spec.mounts if m.scheme == "shared"}
    own = {LOGS} if options.logs is None else set()
    stored = any(m.scheme != "shared" and not _own(m.name, options.inputs) for m in spec.mounts)
    if stored or any(not _own(o.name, options.results) for o in spec.outputs):
        own.add(STORE)
    chosen = {
        name: volume
        for name, volume in options.shared.items()
        if volume.level == "job" and (name in shared or _mentioned(root(name, volume), options))
    }
    return chosen | {k: v for k, v in own_volumes(options).items() if k in own}


def _mentioned(where: str, options: BatchAiOptions) -> bool:
    """Return whether a path or command of the options uses the volume that is mounted at *where*."""
    paths = [mount.path for mount in (*options.inputs.values(), *options.results.values())]
    known = [path for path in (*paths, options.logs) if path]
    return any(f"{path}/".startswith(f"{where}/") for path in known) or (
        where in (options.preparation or "")
    )


def _own(name: str, places: Mapping[str, Any]) -> bool:
    return name in places and places[name].path is not None


def cluster_volumes(options: BatchAiOptions) -> dict[str, Volume]:
    return {name: v for name, v in options.shared.items() if v.level == "cluster"}


def mounted(volumes: Mapping[str, Volume], options: BatchAiOptions) -> dict[str, Any]:
    """Return `mountVolumes` for *volumes*."""
    mounts: dict[str, list[dict[str, Any]]] = {}
    for name, volume in volumes.items():
        kind, request = _reference(volume, options)
        mounts.setdefault(kind, []).append({**request, "relativeMountPath": volume.at or name})
    return mounts


def _reference(volume: Volume, options: BatchAiOptions) -> tuple[str, dict[str, Any]]:
    more = {"mountOptions": volume.mount_options} if volume.mount_options else {}
    if volume.command:
        return "unmanagedFileSystems", {"mountCommand": volume.command}
    if volume.file_server:
        folder = {"sourceDirectory": volume.folder} if volume.folder else {}
        return "fileServers", {"fileServer": {"id": volume.file_server}, **folder, **more}
    account = volume.account or options.storage_account or ""
    key = volume.key or options.storage_key
    request: dict[str, Any] = {
        "accountName": account,
        "credentials": credential(key, options, "accountKey", "accountKeySecretReference"),
    }
    if volume.container:
        return "azureBlobFileSystems", {**request, "containerName": volume.container, **more}
    request["azureFileUrl"] = volume.url or clouds.of(options).share_url(
        account, volume.share or ""
    )
    modes = {"fileMode": volume.file_mode, "directoryMode": volume.directory_mode}
    return "azureFileShares", {**request, **{k: v for k, v in modes.items() if v}}


def root(name: str, volume: Volume) -> str:
    """Return the path in the job at which the volume *name* is mounted."""
    return f"{ROOTS[volume.level]}/{volume.at or name}"


def folder(source: Source, options: BatchAiOptions) -> str:
    """Return the prefix of the blobs of an uploaded folder, which has one blob for each file."""
    return f"{options.prefix}/files/{source.name}"


def logs(options: BatchAiOptions) -> str:
    return options.logs or f"{ROOTS['job']}/{LOGS}"


def inputs(spec: Spec, facts: Facts) -> list[dict[str, str]]:
    return [
        {"id": input_id(mount.name, facts.options), "path": _input(mount, facts)}
        for mount in spec.mounts
    ]


def _input(mount: Mount, facts: Facts) -> str:
    options: BatchAiOptions = facts.options
    known = options.inputs.get(mount.name)
    if known and known.path:
        return known.path
    if mount.scheme == "shared":
        name, _, below = mount.place.partition("/")
        return "/".join([root(name, options.shared[name]), *([below] if below else [])])
    store = f"{ROOTS['job']}/{STORE}"
    if mount.scheme == "store":
        return f"{store}/{options.prefix}/store/{mount.place.strip('/')}"
    source = facts.sources[mount.name]
    file = f"/{mount.target.rpartition('/')[2]}" if source.is_file else ""
    return f"{store}/{folder(source, options)}{file}"


def kept(run: str, options: BatchAiOptions) -> str:
    """Return the prefix of everything that *run* writes to the container."""
    return f"{options.prefix}/runs/{run}"


def state(run: str, options: BatchAiOptions) -> str:
    """Return the name of the blob with the state of *run*, with which other machines adopt it."""
    return f"{kept(run, options)}/{STATE}"


def outputs(spec: Spec, run: str, options: BatchAiOptions) -> list[dict[str, str]]:
    return [_output(output, run, options) for output in spec.outputs]


def _output(output: Output, run: str, options: BatchAiOptions) -> dict[str, str]:
    known = options.results.get(output.name)
    request = {"id": output_id(output.name, options)}
    if known and known.path:
        request["pathPrefix"] = known.path
        return request if known.suffix is None else {**request, "pathSuffix": known.suffix}
    request["pathPrefix"] = f"{ROOTS['job']}/{STORE}/{kept(run, options)}"
    return {**request, "pathSuffix": output.name}


def keeps_in_store(spec: Spec, options: BatchAiOptions) -> bool:
    """Return whether the job writes to the profile's container."""
    return any(not _own(output.name, options.results) for output in spec.outputs)


def keys(volumes: Iterable[Volume], options: BatchAiOptions) -> list[str]:
    """Return the names of the account keys that *volumes* need."""
    needed = [v.key or options.storage_key for v in volumes if v.share or v.container]
    return list(dict.fromkeys(needed))
