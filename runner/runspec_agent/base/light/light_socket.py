"""`socket` for code that asks for addresses, and connects to nobody: the C module that `socket` is made of."""

import _socket
from _socket import (
    AF_INET,
    SOCK_DGRAM,
    getaddrinfo,
    gethostname,
    if_nameindex,
    inet_ntoa,
)
from types import TracebackType
from typing import Optional, Type

__all__ = [
    "AF_INET",
    "SOCK_DGRAM",
    "getaddrinfo",
    "gethostname",
    "if_nameindex",
    "inet_ntoa",
    "socket",
]


class socket(_socket.socket):  # noqa: N801 - the name of the original
    def __enter__(self) -> "socket":  # noqa: PYI034 - typing.Self needs a newer Python
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
