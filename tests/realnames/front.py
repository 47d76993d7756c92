"""One TLS front for all services: it picks the certificate by SNI, hands requests on by Host, and records them.

Bodies are passed on as they come, both ways, chunked ones and `100 Continue` included.
https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import json
import re
import ssl
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.realnames.authority import Authority, covered

BLOCK = 1 << 18
HEAD_BYTES = 1 << 17
HOP = frozenset({"connection", "keep-alive", "proxy-connection"})
SCOPE = re.compile(r"Credential(?:=|%3D)[^/%]+(?:/|%2F)([^,&\s]+)")


class Backend(NamedTuple):
    """Where requests for a host are handed on to, below a path, by TLS if *authority* says whom to trust.

    With *named*, the backend is told that host instead of the one that was asked for. What *wrong* has a word for is
    refused with that word: it is given method, target and headers, by their names in small letters. So is *signed*,
    which returns the target and the headers that are handed on.
    """

    port: int
    path: str = ""
    authority: Path | None = None
    host: str = "127.0.0.1"
    named: str = ""
    wrong: Callable[[str, str, Mapping[str, str]], str] | None = None
    signed: Callable[[str, str, Mapping[str, str]], tuple[str, dict[str, str]]] | None = None


class Route(NamedTuple):
    """The backend of all requests whose host and path together match *pattern* (as of `fnmatch`)."""

    pattern: str
    backend: Backend


class Head(NamedTuple):
    first: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str, default: str = "") -> str:
        return next((v for k, v in self.headers if k.lower() == name), default)

    def without(self, names: frozenset[str]) -> list[tuple[str, str]]:
        return [(k, v) for k, v in self.headers if k.lower() not in names]


class Front:
    """Listens in a thread of its own. Every request is a line of JSON in the file *record*."""

    def __init__(self, authority: Authority, record: Path) -> None:
        self._authority, self._record = authority, record
        self._routes: list[Route] = []
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda *_: None)  # clients go away; that is theirs to tell
        self._servers: list[asyncio.Server] = []
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def route(self, routes: Iterable[Route]) -> None:
        """Hand on to *routes* as well: the first that matches counts."""
        self._routes += routes

    def listen(self, host: str, port: int, *, tls: bool) -> None:
        """Listen at an address, by https or by plain http."""

        async def begun() -> asyncio.Server:
            found = self._context() if tls else None
            serve = self._serving("https" if tls else "http")
            return await asyncio.start_server(serve, host, port, ssl=found, limit=HEAD_BYTES)

        waiting = asyncio.run_coroutine_threadsafe(begun(), self._loop)
        self._servers.append(waiting.result(30))

    def close(self) -> None:
        for server in self._servers:
            self._loop.call_soon_threadsafe(server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _context(self) -> ssl.SSLContext:
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

        def chosen(link: Any, name: str | None, _context: ssl.SSLContext) -> None:
            self._names[link] = name or ""
            link.context = self._authority.context(covered(name or "nameless.invalid"))

        found.sni_callback = chosen
        return found

    def _serving(self, scheme: str) -> Callable[..., Any]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = writer.get_extra_info("ssl_object")
            name = self._names.get(link, "") if link is not None else ""
            peer = writer.get_extra_info("peername")[0]
            with contextlib.suppress(OSError, EOFError, asyncio.IncompleteReadError, ssl.SSLError):
                while (head := await read_head(reader)) is not None:
                    about = {"scheme": scheme, "sni": name, "peer": peer}
                    if not await self._exchange(head, reader, writer, about):
                        break
            writer.close()

        return serve

    def _backend(self, where: str) -> Backend | None:
        return next((r.backend for r in self._routes if fnmatch.fnmatch(where, r.pattern)), None)

    async def _exchange(
        self,
        head: Head,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        about: dict[str, Any],
    ) -> bool:
        """Hand one request on, and its answer back. Say whether the connection can take another."""
        method, target, _ = head.first.split(" ", 2)
        host = head.get("host").partition(":")[0]
        scope = SCOPE.search(head.get("authorization") or target)
        about |= {"host": host, "method": method, "target": target, "status": 0}
        about["scope"] = scope[1].replace("%2F", "/") if scope else ""
        backend = self._backend(host + target)
        try:
            if backend is None or (about["scheme"] == "https" and about["sni"] != host):
                about["status"] = (
                    421  # https://www.rfc-editor.org/rfc/rfc9110#name-421-misdirected-request
                )
                return await _refused(writer, "421 Misdirected Request", "")
            small = {name.lower(): value for name, value in head.headers}
            if backend.wrong is not None and (why := backend.wrong(method, target, small)):
                about["status"] = 403
                return await _refused(writer, "403 Forbidden", why)
            return await _handed_on(backend, head, reader, writer, about)
        finally:
            with self._record.open("a") as file:
                file.write(json.dumps(about) + "\n")


async def _refused(writer: asyncio.StreamWriter, status: str, why: str) -> bool:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"""
    code = f"<Code>SignatureDoesNotMatch</Code><Message>{why}</Message>" if why else ""
    body = f"<Error>{code}</Error>".encode()
    writer.write(written(f"HTTP/1.1 {status}", [("Content-Length", str(len(body)))]) + body)
    await writer.drain()
    return False


async def _handed_on(
    backend: Backend,
    head: Head,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    about: dict[str, Any],
) -> bool:
    tls = ssl.create_default_context(cafile=backend.authority) if backend.authority else None
    far_reader, far_writer = await asyncio.open_connection(
        backend.host, backend.port, ssl=tls, limit=HEAD_BYTES
    )
    target = about["target"]
    headers = head.without(HOP | ({"host"} if backend.named else set()))
    headers += [("Host", backend.named)] if backend.named else []
    if backend.signed is not None:
        small = {name.lower(): value for name, value in headers}
        target, small = backend.signed(about["method"], target, small)
        headers = list(small.items())
    first = f"{about['method']} {backend.path}{target} HTTP/1.1"
    far_writer.write(written(first, [*headers, ("Connection", "close")]))
    sending = asyncio.create_task(_body(head, reader, far_writer))
    try:
        again = await _answered(about, far_reader, writer)
        return again and sending.done() and head.get("connection").lower() != "close"
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError, EOFError):
            await sending
        far_writer.close()


async def _answered(
    about: dict[str, Any], far: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Hand an answer back, the interim ones before it as well."""
    while True:
        head = await read_head(far)
        if head is None:
            return False
        status = int(head.first.split(" ", 2)[1])
        if status >= 200:
            break
        writer.write(written(head.first, head.headers))
        await writer.drain()
    about["status"] = status
    empty = about["method"] == "HEAD" or status in (204, 304)
    framed = empty or head.get("content-length") != "" or head.get("transfer-encoding") != ""
    ends = [("Connection", "keep-alive" if framed else "close")]
    words = head.first.split(" ", 1)[1]
    writer.write(written(f"HTTP/1.1 {words}", head.without(HOP) + ends))
    if not empty:
        await _body(head, far, writer, to_end=not framed)
    await writer.drain()
    return framed


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read up to the empty line; give None where the other side has closed."""
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as exc:
        if exc.partial.strip():
            raise
        return None
    first, *lines = text.strip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Head(first, tuple((k.strip(), v.strip()) for k, _, v in pairs))


def written(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [first, *(f"{k}: {v}" for k, v in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def _body(
    head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_end: bool = False
) -> None:
    if "chunked" in head.get("transfer-encoding").lower():
        await _chunks(reader, writer)
    elif to_end:
        while block := await reader.read(BLOCK):
            writer.write(block)
            await writer.drain()
    else:
        await _copy(int(head.get("content-length", "0") or 0), reader, writer)


async def _copy(size: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while size:
        block = await reader.read(min(BLOCK, size))
        if not block:
            raise EOFError
        writer.write(block)
        await writer.drain()
        size -= len(block)


async def _chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """https://www.rfc-editor.org/rfc/rfc9112#name-chunked-transfer-coding"""
    while True:
        line = await reader.readline()
        writer.write(line)
        size = int(line.partition(b";")[0], 16)
        await _copy(size, reader, writer)
        if not size:
            break
        writer.write(await reader.readexactly(2))
    while True:
        line = await reader.readline()
        writer.write(line)
        await writer.drain()
        if line in (b"\r\n", b""):
            return
