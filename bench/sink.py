"""A Blob service that reads and throws away, as fast as this machine can: `python -m bench.sink`.

Of each blob it keeps only the size, and the hash that was sent with it, because rclone asks for both after an upload.
All other requests are answered as if they had been carried out.
https://learn.microsoft.com/en-us/rest/api/storageservices/blob-service-rest-api
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"
READ_BYTES = 1 << 20
EMPTY_LIST = (
    b'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs/><NextMarker/>'
    b"</EnumerationResults>"
)
ALWAYS = {
    "Date": "Thu, 01 Jan 2026 00:00:00 GMT",
    "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
    "ETag": '"0x8D000000000000"',
    "x-ms-version": "2025-01-05",
    "x-ms-request-id": "00000000-0000-0000-0000-000000000000",
    "x-ms-request-server-encrypted": "true",
}


@dataclass
class Blob:
    """A blob that was sent, as a whole or in blocks."""

    size: int = 0
    md5: str = ""
    whole: bool = False


@dataclass
class Sink:
    """What was sent: `GET /sent` tells the bytes and the calls since it was last asked."""

    blobs: dict[str, Blob] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    calls: int = 0
    received: int = 0

    def answer(self, method: str, target: str, headers: Mapping[str, str], size: int) -> bytes:
        """Give the answer to what was asked, with a body of *size* bytes that is gone."""
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        with self.lock:
            if url.path == "/sent":
                found = f"{self.received} {self.calls}".encode()
                self.received = self.calls = 0
                return _answer(200, found)
            self.calls += 1
            self.received += size
            if method == "PUT":
                return self._put(url.path, query.get("comp", ""), headers, size)
            return self._look(method, url.path, query)

    def _put(self, path: str, comp: str, headers: Mapping[str, str], size: int) -> bytes:
        """Blocks of an upload that was given up are counted to the next: nobody here gives up."""
        blob = self.blobs.get(path)
        if blob is None or blob.whole:
            blob = self.blobs[path] = Blob()
        if comp != "blocklist":
            blob.size += size
        if comp != "block":
            blob.whole, blob.md5 = True, headers.get("x-ms-blob-content-md5", "")
        return _answer(201)

    def _look(self, method: str, path: str, query: Mapping[str, str]) -> bytes:
        if "restype" in query or query.get("comp") == "list":
            return _answer(200, EMPTY_LIST if method == "GET" else b"")
        blob = self.blobs.get(path)
        if method != "HEAD" or blob is None:
            return _answer(404, more={"x-ms-error-code": "BlobNotFound"})
        more = {"x-ms-blob-type": "BlockBlob", "Content-Type": "application/octet-stream"}
        if blob.md5:
            more["Content-MD5"] = blob.md5
        return _answer(200, more=more, length=blob.size)


def _answer(
    status: int, body: bytes = b"", *, more: Mapping[str, str] | None = None, length: int = 0
) -> bytes:
    headers = {**ALWAYS, **(more or {}), "Content-Length": str(length or len(body))}
    lines = [f"HTTP/1.1 {status} Answered", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def _serve(sink: Sink, link: socket.socket) -> None:
    """Answer what comes on one connection, until it ends."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    rest, scratch = b"", bytearray(READ_BYTES)
    with link:
        while True:
            while b"\r\n\r\n" not in rest:
                if not (data := link.recv(65536)):
                    return
                rest += data
            head, _, rest = rest.partition(b"\r\n\r\n")
            method, target, headers = _parsed(head.decode("latin-1"))
            if "transfer-encoding" in headers:
                link.sendall(_answer(411))  # Blob storage wants a length, too
                return
            if "expect" in headers:
                link.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            size = int(headers.get("content-length", "0"))
            left, rest = size - len(rest[:size]), rest[size:]
            if not _gone(link, left, scratch):
                return
            link.sendall(sink.answer(method, target, headers, size))


def _parsed(head: str) -> tuple[str, str, Mapping[str, str]]:
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return method, target, {name.lower(): value.strip() for name, _, value in pairs}


def _gone(link: socket.socket, left: int, scratch: bytearray) -> bool:
    """Discard *left* bytes of the connection, without a copy; return False if it ends before.

    tcp(7), MSG_TRUNC
    """
    while left:
        count = link.recv_into(scratch, min(left, len(scratch)), socket.MSG_TRUNC)
        if not count:
            return False
        left -= count
    return True


def main() -> None:
    """Say the port, and answer until the pipe on stdin ends: with whoever started this."""
    sink = Sink()
    listener = socket.create_server((HOST, 0), backlog=128)

    def accept() -> None:
        while True:
            link, _ = listener.accept()
            threading.Thread(target=_serve, args=(sink, link), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
