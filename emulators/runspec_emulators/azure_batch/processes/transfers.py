"""Files that come to a task and go from it, over HTTP with signed URLs."""

from __future__ import annotations

import http.client
import json
import shutil
import urllib.error
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from runspec_emulators.azure_services import identity

TIMEOUT_S = 60.0
VERSION = "2021-12-02"
MACHINE = "AZURE_POD_IDENTITY_AUTHORITY_HOST"


# https://learn.microsoft.com/en-us/azure/batch/batch-task-output-files#diagnose-file-upload-errors
UPLOAD = {
    "ContainerNotFound": "One of the specified Azure container(s) was not found while attempting to upload an "
    "output file",
    "AccessDenied": "Access was denied for one of the specified Azure container(s) while attempting to upload "
    "an output file",
    "MiscError": "A miscellaneous error was encountered while uploading one of the output files",
}


class TransferError(Exception):
    """A file could not be brought or taken: a code of TaskFailureInformation says why."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details


def bare(url: str) -> str:
    """Return a URL without its query, which may be a signature."""
    return urlunsplit((*urlsplit(url)[:3], "", ""))


def opened(method: str, url: str, data: Any = None, **headers: str) -> Any:
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310
    return urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310


def bearer(entry: Mapping[str, Any], machine: Mapping[str, str], code: str) -> dict[str, str]:
    """Return the headers for a request to the blob storage that *entry* refers to, empty if it names no identity.

    They contain a token that the node gets for the identity. Raise TransferError with *code* if it gets none.

    "The reference to the user assigned identity to use to access Azure Blob Storage"; the pool has
    to have it. Blob storage takes tokens from this version on, over https alone.
    https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory
    """
    reference = entry.get("identityReference")
    if reference is None:
        return {}
    query = {
        "api-version": "2018-02-01",
        "resource": "https://storage.azure.com/",
        "msi_res_id": reference.get("resourceId", ""),
    }
    url = f"{machine.get(MACHINE, 'http://127.0.0.1:1')}{identity.MACHINE}?{urlencode(query)}"
    try:
        with opened("GET", url, Metadata="true") as answer:
            token = json.loads(answer.read())["access_token"]
    except (OSError, http.client.HTTPException) as exc:
        message = "The identity is not one of the pool's"
        raise TransferError(code, message, Identity=query["msi_res_id"]) from exc
    return {"Authorization": f"Bearer {token}", "x-ms-version": VERSION}


def fetch(file: Mapping[str, Any], into: Path, machine: Mapping[str, str]) -> None:
    """Bring what a ResourceFile names into a folder; raise TransferError.

    *machine* are variables of the node: by its identities it gets what names one.

    https://learn.microsoft.com/en-us/azure/batch/resource-files
    """
    if "httpUrl" in file:
        headers = bearer(file, machine, "BlobAccessDenied")
        download(file["httpUrl"], into / file["filePath"], file.get("fileMode"), "Blob", headers)
        return
    headers = bearer(file, machine, "ResourceContainerAccessDenied")
    url = file["storageContainerUrl"]
    folder = into / file.get("filePath", ".")
    for name in listed(url, file.get("blobPrefix", ""), headers):
        source, mode = inside(url, name), file.get("fileMode")
        download(source, folder / name, mode, "ResourceContainer", headers)


def inside(container: str, name: str) -> str:
    """Return the URL of a blob in a container, with the container's signature."""
    split = urlsplit(container)
    path = f"{split.path.rstrip('/')}/{quote(name)}"
    return urlunsplit((split.scheme, split.netloc, path, split.query, ""))


def download(url: str, file: Path, mode: str | None, what: str, headers: Mapping[str, str]) -> None:
    """ "If the file mode is not specified [...] then a default value of 0770 is applied"."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with opened("GET", url, **headers) as answer, file.open("wb") as out:
            shutil.copyfileobj(answer, out)
    except (OSError, http.client.HTTPException) as exc:
        raise failed(exc, url, what) from exc
    file.chmod(int(mode or "0770", 8))


def failed(exc: Exception, url: str, what: str) -> TransferError:
    """Return why a download failed. Codes of the documentation, "Job Task Error Codes"."""
    status = exc.code if isinstance(exc, urllib.error.HTTPError) else None
    kind = {404: "NotFound", 403: "AccessDenied", 401: "AccessDenied"}.get(
        status or 0, "DownloadMiscError"
    )
    said = {
        "NotFound": "One of the specified Azure Blob(s) is not found",
        "AccessDenied": "Access for one of the specified Azure Blob(s) is denied",
        "DownloadMiscError": "Miscellaneous error encountered while downloading one of the specified Azure Blob(s)",
    }
    return TransferError(
        f"{what}{kind}", said[kind], FilePath=bare(url), HttpStatus=status or type(exc).__name__
    )


def listed(container: str, prefix: str, headers: Mapping[str, str]) -> list[str]:
    """Return the names of blobs in a container, page by page.

    https://learn.microsoft.com/en-us/rest/api/storageservices/list-blobs
    """
    names: list[str] = []
    marker = ""
    while True:
        split = urlsplit(container)
        query = f"restype=container&comp=list&prefix={quote(prefix, safe='')}"
        query += f"&marker={quote(marker, safe='')}" if marker else ""
        query += f"&{split.query}" if split.query else ""
        url = urlunsplit((split.scheme, split.netloc, split.path, query, ""))
        try:
            with opened("GET", url, **{"x-ms-version": VERSION, **headers}) as answer:
                tree = ElementTree.fromstring(answer.read().lstrip(b"\xef\xbb\xbf"))  # noqa: S314
        except (OSError, http.client.HTTPException) as exc:
            raise failed(exc, container, "ResourceContainer") from exc
        names += [e.text or "" for e in tree.iterfind("./Blobs/Blob/Name")]
        marker = tree.findtext("NextMarker") or ""
        if not marker:
            return names


def upload(url: str, file: Path, more: Mapping[str, str]) -> None:
    """Take a file to a blob; raise TransferError.

    https://learn.microsoft.com/en-us/rest/api/storageservices/put-blob
    """
    headers = {
        "x-ms-blob-type": "BlockBlob",
        "x-ms-version": VERSION,
        "Content-Length": str(file.stat().st_size),
        "Content-Type": "application/octet-stream",
        **more,
    }
    try:
        with file.open("rb") as data, opened("PUT", url, data, **headers):
            pass
    except (OSError, http.client.HTTPException) as exc:
        status = exc.code if isinstance(exc, urllib.error.HTTPError) else None
        kind = {404: "ContainerNotFound", 403: "AccessDenied"}.get(status or 0, "MiscError")
        raise TransferError(f"FileUpload{kind}", UPLOAD[kind], FilePath=bare(url)) from exc
