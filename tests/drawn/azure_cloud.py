"""A small Azure whose every answer is right but the one that a test draws."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.drawn.azure_table import operation_of, reply
from tests.support.http_server import ReceivedRequest, Reply

ETAG = '"0x1"'
STORE = "/acct/jobs"  # an account at an address is the first part of the path, as at Azurite
XML = {"Content-Type": "application/xml"}
MOMENT = "Mon, 01 Jun 2026 00:00:00 GMT"

BATCHED = re.compile(r"Content-ID: (\d+).*?DELETE ([^ ?]+)", re.DOTALL | re.IGNORECASE)

Truth = Callable[[ReceivedRequest], Reply]


class Cloud:
    """Answers as *truth* says, operation by operation, and as *drawn* says for one of them, *often* times.

    `blobs` are the blobs of the one container by their names. `served` counts what was drawn and sent.
    """

    def __init__(self) -> None:
        self.truth: dict[str, Truth] = {}
        self.blobs: dict[str, bytes] = {}
        self.blocks: dict[str, dict[str, bytes]] = {}  # of each blob, that make none yet
        self.unknown: list[str] = []
        self.healthy()

    def healthy(self) -> None:
        """Answer everything as it is from now on."""
        self.drawn: tuple[str, Truth] | None = None
        self.often = 0
        self.served = 0

    def draw(self, operation: str, answer: Truth, often: int) -> None:
        """Have *operation* answered by *answer* so often, and as it is after that."""
        self.drawn, self.often, self.served = (operation, answer), often, 0

    def answer(self, asked: ReceivedRequest) -> Reply:
        operation = blob_operation(asked) or operation_of(asked)
        if operation is None:
            self.unknown.append(f"{asked.method} {asked.path}")
            return Reply(404)
        if self.drawn is not None and self.drawn[0] == operation and self.served < self.often:
            self.served += 1
            return self.drawn[1](asked)
        if operation in self.truth:
            return self.truth[operation](asked)
        if asked.path.startswith(STORE):
            return self.blob(operation, asked)
        self.unknown.append(f"{operation} has no truth here")
        return Reply(404)

    def says(self, operation: str, value: Any, status: int = 200) -> None:
        """Have *operation* answer with *value* as JSON."""
        self.truth[operation] = lambda _: reply(status, value)

    def blob(self, operation: str, asked: ReceivedRequest) -> Reply:
        name = unquote(asked.path[len(STORE) + 1 :])
        if operation == "Container_ListBlobs":
            return Reply(200, XML, listed(self.blobs, asked.query).encode())
        if operation in ("Blob_Get", "Blob_GetProperties"):
            return self._read(name, asked)
        if (
            operation == "BlockBlob_Upload"
            and "if-none-match" in asked.headers
            and name in self.blobs
        ):
            return refused(409, "BlobAlreadyExists")
        # Every blob has the same ETag here, 0x1; a condition that does not hold is answered with 412:
        # https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations
        if operation == "BlockBlob_Upload" and asked.headers.get("if-match", ETAG) != ETAG:
            return refused(412, "ConditionNotMet")
        if operation == "BlockBlob_Upload":
            self.blobs[name] = asked.body
        if "x-ms-copy-source" in asked.headers:
            return self._copy(operation, name, asked)
        if operation == "BlockBlob_StageBlock":
            self.blocks.setdefault(name, {})[asked.query["blockid"]] = asked.body
        if operation == "BlockBlob_CommitBlockList":
            return self._together(name, asked)
        if operation == "Container_SubmitBatch":
            return self._batch(asked)
        if operation == "Blob_Delete":
            return (
                Reply(202)
                if self.blobs.pop(name, None) is not None
                else refused(404, "BlobNotFound")
            )
        return Reply(201, {"ETag": '"0x1"', "Last-Modified": MOMENT})

    def _copy(self, operation: str, name: str, asked: ReceivedRequest) -> Reply:
        """https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url and .../put-block-from-url"""
        where = urlsplit(asked.headers["x-ms-copy-source"])
        if "sig=" not in where.query and "x-ms-copy-source-authorization" not in asked.headers:
            return refused(403, "CannotVerifyCopySource")
        found = self._read(unquote(where.path[len(STORE) + 1 :]), asked)
        if found.status != 200:
            return found
        if operation == "Blob_CopyFromURL":
            self.blobs[name] = found.body
            return Reply(202, {"ETag": '"0x1"', "x-ms-copy-id": "c", "x-ms-copy-status": "success"})
        part = ranged(found.body, asked.headers["x-ms-source-range"])
        if part.status != 206:
            return refused(416, "InvalidRange")
        self.blocks.setdefault(name, {})[asked.query["blockid"]] = part.body
        return Reply(201)

    def _together(self, name: str, asked: ReceivedRequest) -> Reply:
        """https://learn.microsoft.com/rest/api/storageservices/put-block-list"""
        there = self.blocks.pop(name, {})
        wanted = re.findall("<Latest>([^<]+)</Latest>", asked.body.decode())
        if not set(wanted) <= set(there):
            return refused(400, "InvalidBlockList")
        self.blobs[name] = b"".join(there[one] for one in wanted)
        return Reply(201, {"ETag": '"0x1"', "Last-Modified": MOMENT})

    def _batch(self, asked: ReceivedRequest) -> Reply:
        """https://learn.microsoft.com/rest/api/storageservices/blob-batch"""
        parts = []
        for number, path in BATCHED.findall(asked.body.decode()):
            gone = self.blobs.pop(unquote(path).rpartition("/jobs/")[2], None) is not None
            status = "202 Accepted" if gone else "404 The specified blob does not exist."
            code = "" if gone else "x-ms-error-code: BlobNotFound\r\n"
            head = f"Content-Type: application/http\r\nContent-ID: {number}"
            parts.append(f"--b\r\n{head}\r\n\r\nHTTP/1.1 {status}\r\n{code}\r\n\r\n")
        kind = {"Content-Type": "multipart/mixed; boundary=b"}
        return Reply(202, kind, f"{''.join(parts)}--b--\r\n".encode())

    def _read(self, name: str, asked: ReceivedRequest) -> Reply:
        if name not in self.blobs:
            return refused(404, "BlobNotFound")
        return ranged(self.blobs[name], asked.headers.get("range"))


def ranged(content: bytes, wanted: str | None, headers: Mapping[str, str] | None = None) -> Reply:
    """Return *content*, or the range of it that is asked for."""
    own = {"ETag": '"0x1"', "Last-Modified": MOMENT, **(headers or {})}
    if wanted is None:
        return Reply(200, own, content)
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    begin, end = int(first), min(len(content), int(last) + 1 if last else len(content))
    if begin >= len(content):
        return Reply(416, {"Content-Range": f"bytes */{len(content)}"})
    own["Content-Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
    return Reply(206, own, content[begin:end])


def refused(status: int, code: str) -> Reply:
    """Return an error of Azure Storage.

    https://learn.microsoft.com/rest/api/storageservices/status-and-error-codes2
    """
    text = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>no</Message></Error>'
    return Reply(status, {**XML, "x-ms-error-code": code}, text.encode())


def listed(blobs: Mapping[str, bytes], query: Mapping[str, str], marker: str = "") -> str:
    """Return a list of blobs as the service writes it.

    https://learn.microsoft.com/rest/api/storageservices/list-blobs
    """
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    rows, folders = [], []
    for name, content in sorted(blobs.items()):
        if not name.startswith(prefix):
            continue
        rest = name[len(prefix) :]
        if delimiter and delimiter in rest:
            folders.append(prefix + rest.partition(delimiter)[0] + delimiter)
        else:
            rows.append(
                f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{MOMENT}</Last-Modified>"
                f"<Etag>0x1</Etag><Content-Length>{len(content)}</Content-Length>"
                "<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>"
                "</Properties></Blob>"
            )
    rows += [
        f"<BlobPrefix><Name>{escape(one)}</Name></BlobPrefix>" for one in dict.fromkeys(folders)
    ]
    return (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>'
        f"{''.join(rows)}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
    )


def blob_operation(asked: ReceivedRequest) -> str | None:
    """Return which operation of Blob storage a request is, by the names of its REST API."""
    if not asked.path.startswith(STORE.rpartition("/")[0] + "/") and asked.path != "/acct":
        return None
    kinds = {
        ("GET", "list"): "Container_ListBlobs",
        ("POST", "batch"): "Container_SubmitBatch",
        ("PUT", "block"): "BlockBlob_StageBlock",
        ("PUT", "blocklist"): "BlockBlob_CommitBlockList",
        ("POST", "userdelegationkey"): "Service_GetUserDelegationKey",
        ("GET", ""): "Blob_Get",
        ("HEAD", ""): "Blob_GetProperties",
        ("PUT", ""): "BlockBlob_Upload",
        ("DELETE", ""): "Blob_Delete",
    }
    copies = {
        ("PUT", "block"): "BlockBlob_StageBlockFromURL",
        ("PUT", ""): "Blob_CopyFromURL" if "x-ms-requires-sync" in asked.headers else None,
    }
    known = copies if "x-ms-copy-source" in asked.headers else kinds
    return known.get((asked.method, asked.query.get("comp", "")))


def record(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def path_of(name: str) -> str:
    return f"{STORE}/{quote(name)}"
