"""A host name of a node's own, or the kernel's reason why it has none."""

from __future__ import annotations

import ctypes
import errno

import pytest

from runspec_agent.launch import node_hostname

pytestmark = pytest.mark.process


class OldKernel:
    """A kernel without namespaces."""

    def unshare(self, kinds: int) -> int:
        ctypes.set_errno(errno.ENOSYS)
        return -1


def test_the_reason_is_that_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: OldKernel())

    assert node_hostname.take("node-1") == "function not implemented"
