"""A volume claim as the store: this machine uses it through a program in a pod, here a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_jobs.provider import Conflict, NoAnswer, RemoteError
from runspec_jobs.provider.payload import pack_agent
from runspec_kubernetes.store_claim import ClaimStore
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.process

NAMES = "a b;50%;%2F;é;#?&=;line\n;\udcff;🚀;~*[]{}".split(";")


class ProcessWire:
    """The streams of the agent in a process of this machine."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-IS", str(folder / "inside.pyz"), "serve-store"],
            env={"RUNSPEC_STORE": f"file://{folder}/store", "RUNSPEC_SCRATCH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout

    def send(self, data: bytes) -> None:
        while data:
            data = data[self.input.write(data) or 0 :]

    def receive(self) -> bytes:
        data: bytes = os.read(self.output.fileno(), 1 << 16)
        if not data:
            raise OSError("it has ended")
        return data

    def close(self) -> None:
        self.input.close()
        self.process.wait(LIMIT_S)
        self.output.close()


class Wires:
    """Opens connections, and keeps them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "inside.pyz").write_bytes(pack_agent())
        self.opened: list[ProcessWire] = []

    def __call__(self) -> ProcessWire:
        self.opened.append(ProcessWire(self.folder))
        return self.opened[-1]


@pytest.fixture
def wires(tmp_path: Path) -> Iterator[Wires]:
    found = Wires(tmp_path)
    yield found
    for wire in found.opened:
        wire.close()


@pytest.fixture
def store(wires: Wires) -> ClaimStore:
    return ClaimStore(wires)


def test_names_and_bytes_are_kept(store: ClaimStore, tmp_path: Path) -> None:
    keys = [f"runs/r/{name}" for name in NAMES]
    contents = {key: bytes(range(256)) * number for number, key in enumerate(keys)}

    for key, content in contents.items():
        store.put(key, content)

    assert {entry.key: entry.size for entry in store.listing("runs/r/")} == {
        key: len(content) for key, content in contents.items()
    }
    assert {key: store.read(key) for key in keys} == contents
    assert store.part(keys[1], 250, 300) == contents[keys[1]][250:]
    assert (tmp_path / "store/runs/r/é").read_bytes() == contents["runs/r/é"]
    store.remove([*keys, "runs/none"])
    assert list(store.listing("runs/")) == []


def test_what_is_not_there_is_none(store: ClaimStore) -> None:
    assert (store.size("none"), store.read("none"), store.part("none", 0, 5)) == (None, None, None)
    assert list(store.listing("none/")) == []
    for key in ("none", "none/manifest.json"):
        with pytest.raises(Conflict, match="has been deleted"):
            store.opened(key)


def test_an_object_is_made_once(store: ClaimStore) -> None:
    """Even with the same content."""
    assert [store.put_new("once", b"x"), store.put_new("once", b"x")] == [True, False]


def test_a_large_object_is_written_and_read_in_parts(store: ClaimStore) -> None:
    blocks = [bytes([number]) * 3_000_000 for number in range(10)]

    store.put_blocks("large", iter(blocks), 30_000_000)

    with store.opened("large") as whole, store.opened("large", 2_999_999, 3_000_001) as part:
        assert whole.read() == b"".join(blocks)
        assert part.read() == b"\0\1"
    store.copy("large", "copy")
    assert store.size("copy") == 30_000_000


def test_an_upload_that_breaks_off_leaves_what_was_there(
    store: ClaimStore, wires: Wires, tmp_path: Path
) -> None:
    """The next request has a connection of its own."""
    store.put("key", b"before")

    def blocks() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("the folder has changed")

    with pytest.raises(RuntimeError, match="has changed"):
        store.put_blocks("key", blocks(), 8)

    assert store.read("key") == b"before"
    assert len(wires.opened) == 2
    assert [file.name for file in (tmp_path / "store").iterdir()] == ["key"]


@pytest.mark.parametrize("key", ["../outside", "a/../../outside", "/etc/passwd", "a//b", ".", ""])
def test_no_key_leaves_the_folder(store: ClaimStore, key: str, tmp_path: Path) -> None:
    """And the requests after a refused one have their own answers."""
    with pytest.raises(RemoteError, match=r"the store refuses it: .* cannot be a key"):
        store.put(key, b"x" * 100_000)

    store.put("inside", b"y")
    assert store.read("inside") == b"y"
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "inside.pyz",
        "runspec-store-used",
        "store",
    ]


def test_a_request_is_sent_again_when_the_pod_is_another_one(
    store: ClaimStore, wires: Wires
) -> None:
    """But not one that may have been carried out, and may not be twice."""
    store.put("key", b"x")
    for _ in range(2):
        wires.opened[-1].process.kill()
        assert store.read("key") == b"x"
    wires.opened[-1].process.kill()
    wires.opened[-1].process.wait()

    with pytest.raises(NoAnswer, match="the pod of the store"):
        store.put_new("new", b"x")

    assert store.put_new("new", b"x")


def test_the_pod_ends_when_nothing_has_been_asked_for_a_while(wires: Wires, tmp_path: Path) -> None:
    """Each request begins the time anew."""
    env = {"RUNSPEC_STORE": f"file://{tmp_path}/store", "RUNSPEC_SCRATCH": str(tmp_path)}
    argv = [sys.executable, "-IS", str(tmp_path / "inside.pyz"), "serve-store", "--wait"]
    with subprocess.Popen(argv, env=env) as waiting:
        mark = tmp_path / "runspec-store-used"
        until = time.monotonic() + LIMIT_S
        while not mark.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(1.5)
        assert waiting.poll() is None
        os.utime(mark, (0, 0))
        assert waiting.wait(LIMIT_S) == 0
