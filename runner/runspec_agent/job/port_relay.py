"""`relay HOST[,HOST...] PORT`: connect standard input and output to a port that only this node can reach.

Of several hosts, the first one that accepts the connection is used.

In each direction, the stream consists of frames: a length of four bytes, big-endian, and so many bytes; length 0
marks the end. The first frame of the output is `ok`, or an error message. An input without the last frame was cut
off, and then the connection is reset, too.
"""

import os
import socket
import struct
import threading
from typing import List

from runspec_agent.base.job_env import Failure

HEAD = struct.Struct(">I")
CHUNK_BYTES = 1 << 16
CONNECT_S = 10.0
LINGER = struct.pack("ii", 1, 0)  # close() resets: socket(7)
IN, OUT = 0, 1


def main(argv: List[str]) -> int:
    if len(argv) != 2 or not argv[1].isdigit():
        raise Failure("usage: relay HOST[,HOST...] PORT")
    said = b""
    for host in argv[0].split(","):
        try:
            sock = socket.create_connection((host, int(argv[1])), timeout=CONNECT_S)
            break
        except ConnectionRefusedError:
            said = b"refused"
        except OSError as exc:
            said = (exc.strerror or str(exc)).lower().encode()
    else:
        say(said)
        return 0
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    say(b"ok")
    broken = threading.Event()
    back = threading.Thread(target=answer, args=(sock, broken), daemon=True)
    back.start()
    if not forward(sock, broken):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
        sock.close()
        return 1
    back.join()
    return 0


def say(data: bytes) -> None:
    """Write one frame."""
    left = HEAD.pack(len(data)) + data
    while left:
        left = left[os.write(OUT, left) :]


def exactly(size: int) -> bytes:
    """Return *size* bytes of the input; fewer if it ends."""
    received = b""
    while len(received) < size:
        data = os.read(IN, size - len(received))
        if not data:
            break
        received += data
    return received


def forward(sock: socket.socket, broken: threading.Event) -> bool:
    """Pass the input on to the socket until it ends; return whether the last frame was received."""
    while True:
        head = exactly(HEAD.size)
        if len(head) < HEAD.size:
            return False
        size = HEAD.unpack(head)[0]
        data = exactly(size)
        if len(data) < size:
            return False
        try:
            if size:
                sock.sendall(data)
            else:
                sock.shutdown(socket.SHUT_WR)
                return True
        except OSError:
            broken.set()  # the other side accepts no more; the other direction reports why
            return True


def answer(sock: socket.socket, broken: threading.Event) -> None:
    """Pass on what arrives from the port; a connection that was reset has no last frame."""
    try:
        while True:
            data = sock.recv(CHUNK_BYTES)
            if not data and broken.is_set():
                os._exit(1)
            say(data)
            if not data:
                return
    except OSError:
        os._exit(1)
