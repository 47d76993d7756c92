"""listOutputFiles: what a job has written, with links that expire."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path
from typing import Any

from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response, page
from runspec_emulators.batch_ai.errors import missing, refused
from runspec_emulators.batch_ai.jobs import environment, mounts
from runspec_emulators.batch_ai.model import OVER, Job
from runspec_emulators.batch_ai.resources import jobs
from runspec_emulators.batch_ai.storage.blob_mirror import is_text
from runspec_emulators.batch_ai.storage.volumes import CannotMount, expanded
from runspec_emulators.batch_ai.world import World

EXPIRY_MIN = 60  # linkexpiryinminutes: the default


def listed(world: World, request: Request) -> Response:
    """Return the files and folders of one folder, which is below an output directory.

    A folder that does not exist yet is empty. In the reply, each file has a download link and properties; a folder has
    neither.
    """
    job, query = jobs.job_of(world, request), request.query
    folder, live = root(world, job, query["outputdirectoryid"])
    below = Path(query.get("directory", ".").strip("/") or ".")
    if ".." in below.parts:
        raise refused(f"directory: {below} is not below the output directory", "directory")
    minutes = int(query.get("linkexpiryinminutes", EXPIRY_MIN))
    at = folder / below
    if not at.is_dir() or not (live or job.state in OVER):
        return page(world.url, request, [])
    newest = time.time() - world.settings.list_lag_s
    entries = [e for e in sorted(at.iterdir()) if is_stored(e) and e.stat().st_ctime <= newest]
    return page(world.url, request, [described(world, entry, minutes) for entry in entries])


def is_stored(entry: Path) -> bool:
    """Return whether *entry* is a file or a folder: a share has no broken links, links to folders or pipes.

    Nor has it names that are no text, or that have control characters.
    """
    return is_text(entry) and (os.path.isfile(entry) or (not entry.is_symlink() and entry.is_dir()))


def described(world: World, entry: Path, minutes: int) -> dict[str, Any]:
    if entry.is_dir():
        return {"name": entry.name, "fileType": "directory"}
    stat = entry.stat()
    when = datetime.datetime.fromtimestamp(int(stat.st_mtime), datetime.UTC)
    return {
        "name": entry.name,
        "fileType": "file",
        "downloadUrl": world.links.make(entry, minutes * world.settings.link_minute_s),
        "properties": {
            "lastModified": when.isoformat().replace("+00:00", "Z"),
            "contentLength": stat.st_size,
        },
    }


def root(world: World, job: Job, name: str) -> tuple[Path, bool]:
    """Return where an output directory really lies, and whether it is seen while the job runs.

    A container shows files when they are closed, so not the log of a job that runs.
    """
    asked = job.properties
    if name == environment.STDOUTERR:
        prefix, tail = asked["stdOutErrPathPrefix"], environment.STDOUTERR
    else:
        given = next((o for o in asked.get("outputDirectories", ()) if o["id"] == name), None)
        if given is None:
            raise missing("output directory", name)
        prefix, tail = given["pathPrefix"], f"outputs/{given.get('pathSuffix', '').strip('/')}"
    path, live = storage(world, job, prefix)
    return path / job.segment / tail, live


def storage(world: World, job: Job, prefix: str) -> tuple[Path, bool]:
    """Return the folder that stands for a path on the job's nodes, which may be gone by now."""
    cluster = job.cluster.properties if job.cluster else {}
    of_cluster = cluster.get("nodeSetup", {}).get("mountVolumes", {})
    roots = {
        "$AZ_BATCHAI_JOB_MOUNT_ROOT": job.properties.get("mountVolumes", {}),
        "$AZ_BATCHAI_MOUNT_ROOT": of_cluster,
    }
    plain = prefix.replace("${AZ_BATCHAI_JOB_MOUNT_ROOT}", "$AZ_BATCHAI_JOB_MOUNT_ROOT")
    plain = plain.replace("${AZ_BATCHAI_MOUNT_ROOT}", "$AZ_BATCHAI_MOUNT_ROOT")
    for name, asked in roots.items():
        if not plain.startswith(name + "/"):
            continue
        path = plain.removeprefix(name).strip("/")
        try:
            volumes = mounts.volumes(world, asked)
        except CannotMount:
            volumes = []
        containers = {g["relativeMountPath"] for g in asked.get("azureBlobFileSystems", ())}
        for volume in volumes:
            at = volume.at.strip("/")
            if path == at or path.startswith(f"{at}/"):
                live = volume.at not in containers
                return volume.folder / path.removeprefix(at).strip("/"), live
    if job.nodes:
        env = environment.variables(world.settings, job, job.nodes[0], job.nodes)
        return Path(expanded(prefix, env)), True
    return Path("/nonexistent"), True
