"""The server's side of a websocket, and the channels of streams to pods in it.

https://www.rfc-editor.org/rfc/rfc6455
"""

from __future__ import annotations

import base64
import hashlib
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of the RFC, 1.3
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class Socket:
    """A websocket whose messages are binary. Any thread may send."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._in, self._out = handler.rfile, handler.wfile
        self._lock = threading.Lock()
        self._closed = False

    def send(self, message: bytes, kind: int = BINARY) -> None:
        """Send a message; raise ConnectionError if the client is gone."""
        size = len(message)
        # Longer messages have their size in 2 or 8 bytes more: section 5.2.
        if size < 126:
            head = struct.pack("!BB", 0x80 | kind, size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x80 | kind, 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | kind, 127, size)
        with self._lock:
            if self._closed:
                return
            self._closed = kind == CLOSE
            self._out.write(head + message)
            self._out.flush()

    def messages(self) -> Iterator[bytes]:
        """Yield what the client sends, until it closes or is gone."""
        message = b""
        while (frame := self._frame()) is not None:
            final, kind, content = frame
            # A close is answered with a close of the same code: section 5.5.1.
            if kind == CLOSE:
                self.send(content[:2], CLOSE)
                return
            if kind == PING:
                self.send(content, PONG)
            elif kind in (CONTINUATION, TEXT, BINARY):
                message += content
                if final:
                    yield message
                    message = b""

    def _frame(self) -> tuple[bool, int, bytes] | None:
        try:
            head = self._in.read(2)
            if len(head) < 2:
                return None
            size = head[1] & 0x7F
            if size > 125:
                width = 2 if size == 126 else 8
                size = int.from_bytes(self._in.read(width), "big")
            mask = self._in.read(4) if head[1] & 0x80 else b""
            content = self._in.read(size)
        except (OSError, ValueError):
            return None
        if len(content) < size:
            return None
        # Frames of clients are masked, and those of servers are not: section 5.1.
        if mask:
            whole = (mask * (size // 4 + 1))[:size]
            number = int.from_bytes(content, "big") ^ int.from_bytes(whole, "big")
            content = number.to_bytes(size, "big")
        return bool(head[0] & 0x80), head[0] & 0x0F, content

    def close(self, code: int = 1000) -> None:
        try:
            self.send(struct.pack("!H", code), CLOSE)
        except OSError:
            pass


def accept(handler: BaseHTTPRequestHandler, protocol: str, use: Callable[[Socket], None]) -> None:
    """Make a websocket of a connection, and have it used until it is closed."""
    key = handler.headers.get("Sec-WebSocket-Key", "")
    digest = hashlib.sha1((key + MAGIC).encode(), usedforsecurity=False).digest()
    handler.send_response(101)
    for name, value in {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": base64.b64encode(digest).decode(),
        "Sec-WebSocket-Protocol": protocol,
    }.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.flush()
    socket = Socket(handler)
    try:
        use(socket)
    except OSError:
        pass
    socket.close()
