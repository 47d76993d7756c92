"""A store that is full: a proxy before an emulated one, which refuses writes once something large was sent."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.support.fault_proxy import forward
from tests.support.http_server import ReceivedRequest, Reply, Server

ROOM = 1 << 20  # bytes of the first request that finds no room
# As MinIO answers: https://github.com/minio/minio/issues/6795
CODE, STATUS = "XMinioStorageFull", 507


class FullStore(Server):
    """The service at *url* until a body of more than ROOM bytes comes; from then on, it refuses writes.

    *empty*: it still takes empty objects, which need no room.
    """

    def __init__(self, url: str, *, empty: bool) -> None:
        parts = urlsplit(url)
        self._service, self._path = parts.netloc, parts.path
        self._empty, self._full = empty, False
        super().__init__(self._answer)

    @property
    def address(self) -> str:
        """The URL of the service, here."""
        return self.url + self._path

    def make_room(self) -> None:
        self._full = False

    def _answer(self, request: ReceivedRequest) -> Reply:
        self._full = self._full or len(request.body) > ROOM
        writes = request.method == "PUT" and not (self._empty and not request.body)
        if self._full and writes:
            said = f"<Error><Code>{CODE}</Code><Message>The store is full.</Message></Error>"
            return Reply(STATUS, {"Content-Type": "application/xml"}, said.encode())
        return forward(request, self._service, request.target)
