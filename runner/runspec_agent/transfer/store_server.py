"""`serve-store [--wait]`: let another machine use the folder that is the store, by requests on stdin.

A request is a line of JSON with `do`, a `key` and the `size` of the bytes that follow it; so is an answer, with
`error` if the store refuses. Keys are names of `store.folder`, which stay below its folder. With `--wait`, it only
waits until no request has come for IDLE_S: it is the process that keeps the pod in which others serve.
"""

import json
import os
import sys
import time
from typing import IO, Any, Dict, List

from runspec_agent.base import files
from runspec_agent.base.failure import Failure, NoName
from runspec_agent.store.base import BLOCK, connect
from runspec_agent.store.folder import FolderBucket

IDLE_S = 300.0
MARK = "runspec-store-used"  # a file in the scratch folder, which is touched by each request
Record = Dict[str, Any]


def main(argv: List[str]) -> int:
    mark = os.path.join(os.environ.get("RUNSPEC_SCRATCH") or "/tmp", MARK)  # noqa: S108 - in a pod
    touch(mark)
    if argv[:1] == ["--wait"]:
        while time.time() - os.stat(mark).st_mtime < IDLE_S:
            time.sleep(1.0)
        return 0
    bucket = connect()
    assert isinstance(bucket, FolderBucket), "BUG: only a folder is served"
    os.makedirs(bucket.root, exist_ok=True)
    Server(bucket, sys.stdin.buffer, os.fdopen(1, "wb", closefd=False), mark).run()
    return 0


def touch(mark: str) -> None:
    with open(mark, "ab"):
        os.utime(mark)


class Server:
    def __init__(
        self, bucket: FolderBucket, source: IO[bytes], target: IO[bytes], mark: str
    ) -> None:
        self.bucket, self.source, self.target, self.mark = bucket, source, target, mark
        self.left = 0  # bytes of the request that were not read yet

    def run(self) -> None:
        """Answer requests until the input ends."""
        while True:
            line = self.source.readline()
            if not line.endswith(b"\n"):
                return
            touch(self.mark)
            asked = json.loads(line.decode("ascii"))
            self.left = asked.get("size", 0)
            try:
                self.answer(asked)
            except Failure as failure:
                while self._read(BLOCK):
                    pass
                self.say({"error": str(failure), "name": isinstance(failure, NoName)})
            except EOFError:  # the other side has gone, and the file is as it was
                return

    def say(self, answer: Record, content: bytes = b"") -> None:
        head = dict(answer, size=len(content))
        self.target.write(json.dumps(head).encode("ascii") + b"\n" + content)
        self.target.flush()

    def answer(self, asked: Record) -> None:
        key, do = asked.get("key", ""), asked["do"]
        if do == "part":
            self._part(key, asked["start"], asked["end"])
        elif do == "size":
            self.say({"is": self._size(key)})
        elif do == "put":
            self.bucket.put_stream(key, self._save)
            self.say({})
        elif do == "new":
            content = b"".join(iter(lambda: self._read(BLOCK), b""))
            is_new = self.bucket.get(key) is None
            self.say({"is": is_new and self.bucket.claim(key, content) == content})
        elif do == "remove":
            self.bucket.delete_all(asked["keys"])
            self.say({})
        elif do == "copy":
            self.bucket.copy(asked["source"], key, 0)
            self.say({})
        elif do == "list":
            entries = [[entry.key, entry.size] for entry in self.bucket.listing(key)]
            self.say({}, json.dumps(entries).encode("ascii"))
        else:
            raise Failure("this agent does not know '{}'".format(do))

    def _part(self, key: str, start: int, end: Any) -> None:
        """Answer with a part of one version of the object, which another one may replace meanwhile."""
        try:
            stream = files.open_regular(self.bucket.path_of(key))
        except OSError:
            self.say({"is": None})
            return
        with stream:
            whole = os.fstat(stream.fileno()).st_size
            stream.seek(start)
            left = max(0, min(whole if end is None else end, whole) - start)
            self.target.write(json.dumps({"is": whole, "size": left}).encode("ascii") + b"\n")
            while left:
                block = stream.read(min(BLOCK, left)).ljust(min(BLOCK, left), b"\0")
                self.target.write(block)
                left -= len(block)
            self.target.flush()

    def _size(self, key: str) -> Any:
        try:
            with files.open_regular(self.bucket.path_of(key)) as stream:
                return os.fstat(stream.fileno()).st_size
        except OSError:
            return None

    def _save(self, target: IO[bytes]) -> None:
        while self.left:
            target.write(self._read(BLOCK))
            touch(self.mark)

    def _read(self, most: int) -> bytes:
        """Return the next bytes of the request; none at its end. Raise EOFError if the input ends before."""
        if not self.left:
            return b""
        block = self.source.read(min(most, self.left))
        if not block:
            raise EOFError
        self.left -= len(block)
        return block
