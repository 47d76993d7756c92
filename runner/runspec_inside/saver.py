"""Saving what a job writes into the object store while it runs, and once more at its end."""

import json
import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Dict, List, NamedTuple, Optional

from .bucket import Bucket, file_digest
from .sync import FORMAT, OURS, Entry, regular_files
from .words import Failure

AT_ONCE = 8
TRIES = 3  # of the last pass


class Output(NamedTuple):
    name: str
    path: str
    prefix: str
    every_s: Optional[float]
    entries: Dict[str, Entry]


class Saver:
    """Objects under an output's prefix are whole files; `.runspec/manifest.json` lists them and comes last."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.outputs: List[Output] = []
        self._over = threading.Event()
        self._threads: List[threading.Thread] = []

    def add(self, name: str, path: str, prefix: str, every_s: Optional[float]) -> None:
        self.outputs.append(Output(name, path, prefix, every_s, _kept(self.bucket, prefix)))

    def start(self) -> None:
        for output in self.outputs:
            if output.every_s is not None:
                thread = threading.Thread(
                    target=self._go_on, args=(output, output.every_s), daemon=True
                )
                thread.start()
                self._threads.append(thread)

    def _go_on(self, output: Output, every_s: float) -> None:
        while not self._over.wait(every_s):
            try:
                self.once(output)
            except Failure:  # the next pass, or the last one, says so
                pass

    def finish(self) -> List[str]:
        """Save all that is there; return a line for each thing that could not be saved."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        lost: List[str] = []
        for output in self.outputs:
            lost += ["output '{}': {}".format(output.name, line) for line in self._last(output)]
        return lost

    def _last(self, output: Output) -> List[str]:
        left: List[str] = []
        for count in range(TRIES):
            try:
                left = self.once(output)
            except Failure as failure:
                left = [str(failure)]
            if not left:
                break
            if count < TRIES - 1:
                time.sleep(0.2)
        return left

    def once(self, output: Output) -> List[str]:
        """Save what is new or changed since the last pass; return what could not be."""
        left: List[str] = []

        def one(path: str) -> bool:
            try:
                return self._save(output, path)
            except (OSError, Failure) as error:
                left.append("{}: {}".format(path, error))
                return False

        with ThreadPoolExecutor(AT_ONCE) as threads:
            saved = list(threads.map(one, regular_files(output.path)))
        if any(saved) or not output.entries:
            listed = [dict(output.entries[p]._asdict(), path=p) for p in sorted(output.entries)]
            record = {"format": FORMAT, "files": listed}
            self.bucket.put(
                output.prefix + OURS + "/manifest.json", json.dumps(record).encode("utf-8")
            )
        return left

    def _save(self, output: Output, path: str) -> bool:
        full = os.path.realpath(os.path.join(output.path, path))
        if not full.startswith(os.path.join(os.path.realpath(output.path), "")):
            return False
        found = os.stat(full)
        known = output.entries.get(path)
        if not stat.S_ISREG(found.st_mode) or (
            known and known[:2] == (found.st_size, found.st_mtime_ns)
        ):
            return False
        path.encode("utf-8")  # keys are text: UnicodeEncodeError is a ValueError, told as such
        size, digest = file_digest(full)

        def opened() -> IO[bytes]:
            return open(full, "rb")

        self.bucket.put_file(output.prefix + path, opened, size, digest)
        after = os.stat(full)
        if (size, found.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise OSError("it changed while it was read")
        output.entries[path] = Entry(size, found.st_mtime_ns, digest)
        return True


def _kept(bucket: Bucket, prefix: str) -> Dict[str, Entry]:
    """Return what an earlier attempt has saved."""
    found = bucket.get(prefix + OURS + "/manifest.json")
    if found is None:
        return {}
    files = json.loads(found.decode("utf-8"))["files"]
    return {e["path"]: Entry(e["size"], e["mtime_ns"], e["sha256"]) for e in files}


def restore(bucket: Bucket, prefix: str, path: str) -> None:
    """Bring back what an earlier attempt had saved: the machine it ran on may be gone."""
    for name, entry in _kept(bucket, prefix).items():
        target = os.path.join(path, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        bucket.get_file(prefix + name, target)
        os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
