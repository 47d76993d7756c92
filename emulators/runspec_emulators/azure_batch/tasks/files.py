"""Files of tasks and nodes: HEAD, GET with ranges, lists, as they are on the node's disk now."""

from __future__ import annotations

import datetime
import mimetypes
import os
import re
import shutil
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runspec_emulators.azure_batch.api import listing
from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.errors import ServiceError
from runspec_emulators.azure_batch.nodes import lifecycle
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.azure_batch.world import World
from runspec_emulators.frame.folders import list_below

RANGE = re.compile(r"bytes=(\d+)-(\d*)")
READABLE = ("idle", "running", "waitingforstarttask", "starttaskfailed", "offline")


def root(world: World, request: Request) -> tuple[Path, str]:
    """Return the folder that files are asked of, and the URL of its files."""
    if "task_id" in request.path:
        return of_task(world, request)
    node = lifecycle.find(world, request.path)
    if node.state not in READABLE:
        codes = {"unusable": "NodeStateUnusable", "creating": "NodeBeingCreated"}
        code = codes.get(node.state, "OperationNotValidOnNode")
        raise ServiceError(code, f"The node is in state {node.state}.")
    return node.root, f"{world.pool_url(node.pool)}/nodes/{node.id}/files"


def of_task(world: World, request: Request) -> tuple[Path, str]:
    """Return a task's folder on the node where its primary ran last.

    While a task has not been placed: OperationInvalidForCurrentState. When the node is away, the
    files are too: NodeNotFound. Of both only the codes are documented, not when they are used.
    """
    task = world.task(request.path)
    if not task.attempts or task.state in ("active", "preparing"):
        raise ServiceError(
            "OperationInvalidForCurrentState",
            "The specified operation is not valid for the current state of the resource.",
            Reason=f"The task is in state {task.state}",
        )
    attempt = task.attempts[-1]
    node = attempt.nodes[0]
    if node.id not in node.pool.nodes or world.pools.get(node.pool.id.lower()) is not node.pool:
        raise ServiceError("NodeNotFound", "The specified node does not exist.")
    if node.state not in READABLE:
        raise ServiceError(
            "TaskFilesUnavailable", "The files of the specified task are unavailable."
        )
    return attempt.folder(node), f"{world.task_url(task)}/files"


def find_file(world: World, request: Request) -> tuple[Path, str]:
    base, url = root(world, request)
    name = request.path["file_path"]
    path = base / name
    parts = Path(name).parts
    if name.startswith("/") or ".." in parts or not path.exists():
        raise ServiceError("FileNotFound", "The specified file does not exist.", FilePath=name)
    return path, f"{url}/{quote(name, safe='')}"


def stamp(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def headers(path: Path, url: str) -> dict[str, str]:
    """Return the properties of a file as headers: those that the SDK's models cannot do without."""
    stat = path.stat()
    return {
        "Last-Modified": format_datetime(stamp(stat.st_mtime), usegmt=True),
        "ocp-creation-time": format_datetime(stamp(stat.st_ctime), usegmt=True),
        "ocp-batch-file-isdirectory": str(path.is_dir()),
        "ocp-batch-file-url": url,
        "ocp-batch-file-mode": f"{stat.st_mode:o}",
    }


def head(world: World, request: Request) -> Response:
    path, url = find_file(world, request)
    size = 0 if path.is_dir() else path.stat().st_size
    own = {"Content-Type": world.settings.file_type, "Content-Length": str(size)}
    return Response(200, None, {**headers(path, url), **own})


def get(world: World, request: Request) -> Response:
    """Return a file, or the range that ocp-range asks for.

    "ocp-range: The byte range to be retrieved. The default is to retrieve the entire file. The
    format is bytes=startRange-endRange." The only status that the description has is 200, and the
    SDK takes no other; a range that begins beyond the end is InvalidRange.
    """
    path, url = find_file(world, request)
    if path.is_dir():
        raise ServiceError("OperationInvalidForCurrentState", "The path names a directory.")
    size = path.stat().st_size
    asked = request.headers.get("ocp-range")
    first, last = 0, size - 1
    if asked is not None:
        match = RANGE.fullmatch(asked)
        if match is None:
            raise ServiceError(
                "InvalidHeaderValue",
                "The value provided for one of the HTTP headers was not in the correct format.",
                HeaderName="ocp-range",
                HeaderValue=asked,
            )
        first = int(match[1])
        last = min(int(match[2]) if match[2] else last, last)
        if first >= size or last < first:
            message = "The range specified is invalid for the current size of the resource."
            raise ServiceError("InvalidRange", message)
    with path.open("rb") as file:
        file.seek(first)
        data = file.read(last - first + 1)
    own = {"Content-Type": world.settings.file_type}
    return Response(200, data, {**headers(path, url), **own})


def listed(world: World, request: Request) -> Response:
    """List files; "recursive: Whether to list children of the Task directory".

    "This parameter can be used in combination with the filter parameter": startswith(name, '...').
    """
    base, url = root(world, request)
    recursive = request.query.get("recursive", "false").lower() == "true"
    paths = sorted(list_below(base) if recursive else base.glob("*"))
    shown = [described(p, p.relative_to(base).as_posix(), url) for p in paths if os.path.exists(p)]
    kept = [s for s in shown if listing.kept(s, request)]
    return listing.cut(world, request, kept, "files")


def described(path: Path, name: str, url: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "url": f"{url}/{quote(name, safe='')}"}
    entry["isDirectory"] = path.is_dir()
    if not path.is_dir():
        stat = path.stat()
        entry["properties"] = {
            "contentLength": str(stat.st_size),
            "lastModified": stamp(stat.st_mtime).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "creationTime": stamp(stat.st_ctime).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "contentType": mimetypes.guess_type(path.name)[0] or "application/octet-stream",
            "fileMode": headers(path, url)["ocp-batch-file-mode"],
        }
    return entry


def delete(world: World, request: Request) -> Response:
    """ "recursive: [...] If recursive is false then the directory must be empty"."""
    path, _url = find_file(world, request)
    if path.is_dir():
        if request.query.get("recursive", "false").lower() != "true" and any(path.iterdir()):
            raise ServiceError("OperationInvalidForCurrentState", "The directory is not empty.")
        shutil.rmtree(path)
    else:
        path.unlink()
    return Response(200)
