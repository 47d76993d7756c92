"""Uploads over a slow line: as long as something is sent, no timeout ends them, and Ctrl-C does so at once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.config import Config

from runspec_aws import session
from runspec_aws.session import PIECE_BYTES, Body, GivenUp
from runspec_aws.store import multipart

pytestmark = pytest.mark.process
PART_BYTES = 16 << 20  # more than the buffers of a connection, and what is read within TIMEOUT_S
TIMEOUT_S = 2


class SlowServer:
    """Reads *rate* bytes a second from each connection, and then answers as S3 does to a part."""

    def __init__(self, rate: int) -> None:
        self.rate, self.received = rate, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1)
            words = {
                line.split(b":")[0].lower(): line.split(b":")[-1] for line in head.split(b"\r\n")
            }
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" if b"expect" in words else b"")
            left = int(words[b"content-length"])
            while left:
                piece = connection.recv(min(left, self.rate // 20))
                if not piece:
                    return
                left -= len(piece)
                self.received += len(piece)
                time.sleep(0.05)
            connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 0\r\n\r\n')


@pytest.fixture
def slow() -> Iterator[SlowServer]:
    server = SlowServer(4 << 20)
    yield server
    server.socket.close()


def s3(url: str, config: Config = session.UPLOADING) -> Any:
    return boto3.client(
        "s3",
        region_name="eu-central-1",
        endpoint_url=url,
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=config,
    )


def test_each_piece_has_the_timeout_for_itself(slow: SlowServer) -> None:
    retries = {"mode": "standard", "total_max_attempts": 1}
    hasty = session.UPLOADING.merge(Config(connect_timeout=TIMEOUT_S, retries=retries))
    where = {"Bucket": "jobs", "Key": "k", "UploadId": "u", "PartNumber": 1}

    found = s3(slow.url, hasty).upload_part(**where, Body=Body(bytearray(PART_BYTES)))

    assert (found["ETag"], slow.received) == ('"x"', PART_BYTES)


def test_ctrl_c_does_not_wait_for_the_parts_that_are_sent() -> None:
    server = SlowServer(1 << 16)  # a part takes minutes
    others = SimpleNamespace(
        get_paginator=lambda _: SimpleNamespace(paginate=lambda **_: [{"IsTruncated": False}]),
        create_multipart_upload=lambda **_: {"UploadId": "u"},
    )
    session: Any = SimpleNamespace(
        bucket="jobs", look=lambda _: others, make=lambda _: others, upload=lambda: s3(server.url)
    )

    def parts() -> Iterator[bytearray]:
        yield from (bytearray(PART_BYTES) for _ in range(3))
        while server.received < 1 << 16:
            time.sleep(0.05)
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        multipart.put(session, "k", parts(), 4 * PART_BYTES)

    assert time.monotonic() - began < 60
    server.socket.close()


def test_a_body_is_read_in_pieces_whatever_is_asked_and_again_from_its_beginning() -> None:
    body = Body(bytes(range(256)) * 2048, threading.Event())

    pieces = [*iter(lambda: body.read(16_384), b"")]
    body.seek(0)

    assert [len(piece) for piece in pieces] == [PIECE_BYTES, PIECE_BYTES]
    assert b"".join(pieces) == body.content and bytes(body.read()) == pieces[0]
    assert len(body) == body.seek(0, 2) == body.tell()


def test_a_body_that_was_given_up_is_not_read() -> None:
    given_up = threading.Event()
    body = Body(b"data", given_up)
    given_up.set()

    with pytest.raises(GivenUp):
        body.read()
