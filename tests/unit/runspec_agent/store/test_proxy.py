"""What runs in a job asks by https through the proxy that HTTPS_PROXY names. test_aws.py of realnames has it all."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator

import pytest

from runspec_agent.base import boot


class Refusing:
    """A proxy that keeps what it is asked, and refuses it."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.heads: list[str] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        link, _ = self._listening.accept()
        with link, link.makefile("rb") as heard:
            self.heads.append("".join(iter(lambda: heard.readline().decode().strip("\r\n"), "")))
            link.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    def close(self) -> None:
        self._thread.join()
        self._listening.close()


@pytest.fixture
def refusing() -> Iterator[Refusing]:
    found = Refusing()
    yield found
    found.close()


@pytest.mark.process
def test_the_name_and_the_word_of_the_proxy_go_to_the_proxy(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://ann:p%40ss@127.0.0.1:{refusing.port}")

    with pytest.raises(OSError, match="407"):
        boot.connection(True, "s3.eu-central-1.amazonaws.com", 10).connect()

    (head,) = refusing.heads
    assert head.startswith("CONNECT s3.eu-central-1.amazonaws.com:443 HTTP/1.")
    assert base64.b64encode(b"ann:p@ss").decode() in head


@pytest.mark.parametrize(
    ("https", "host", "no_proxy"),
    [
        (True, "s3.eu-central-1.amazonaws.com", ".amazonaws.com"),
        (True, "s3.eu-central-1.amazonaws.com:443", "amazonaws.com"),
        (False, "169.254.169.254", ""),
    ],
)
def test_no_proxy_is_used_for_http_or_hosts_in_no_proxy(
    https: bool, host: str, no_proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", no_proxy)

    assert boot.connection(https, host, 10).host == host.partition(":")[0]
