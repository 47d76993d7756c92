"""A proxy that tunnels (CONNECT), and goes out from an address of its own: so the front can tell who came through it.

https://www.rfc-editor.org/rfc/rfc9110#name-connect
"""

from __future__ import annotations

import socket
import socketserver
import threading

from runspec_emulators.frame.listening import HOST, Closing

ADDRESS = "127.0.0.9"
BLOCK = 1 << 16


class Proxy(Closing):
    """Listens on loopback in threads of its own."""

    def __init__(self, port: int) -> None:
        self._server = _Server((HOST, port), _Tunnel)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


class _Tunnel(socketserver.StreamRequestHandler):
    rbufsize = 0  # nothing that follows the head is to stay in a buffer

    def handle(self) -> None:
        method, where, _ = self.rfile.readline().decode().split(" ", 2)
        while self.rfile.readline().strip():
            pass
        if method != "CONNECT":
            self.wfile.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
            return
        host, _, port = where.rpartition(":")
        far = socket.create_connection((host, int(port)), source_address=(ADDRESS, 0))
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        back = threading.Thread(target=_pump, args=(far, self.connection), daemon=True)
        back.start()
        _pump(self.connection, far)
        back.join()
        far.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while block := source.recv(BLOCK):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # one side has gone away
        pass
