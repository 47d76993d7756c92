"""Saving what a job writes into the object store while it runs, and once more at its end."""

import json
import os
import stat
import threading
import time
from typing import IO, Dict, List, Optional, Tuple

from . import files, many
from .bucket import Bucket, file_digest
from .sync import CLOCK_TICK_S, FORMAT, OURS, Entry, regular_files, shown, version
from .words import Failure

Listed = Dict[str, Entry]

MANIFEST = OURS + "/manifest.json"
AT_ONCE = 8
TRIES = 3  # of the last pass


class Output:
    """A folder, and where it goes: *entries* have been saved, *listed* of them stand in the manifest."""

    def __init__(
        self, name: str, path: str, prefix: str, every_s: Optional[float], listed: Optional[Listed]
    ) -> None:
        self.name, self.path, self.prefix, self.every_s = name, path, prefix, every_s
        self.listed = listed
        self.entries: Listed = dict(listed or {})

    def forget(self, paths: List[str]) -> None:
        """Forget what can no longer be kept beside *paths*: a file that is a folder now, and the reverse."""
        here = set(paths)
        folders = {above for path in paths for above in _above(path)}
        for known in list(self.entries):
            if known in folders or not here.isdisjoint(_above(known)):
                del self.entries[known]


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
        return self.whole()

    def whole(self) -> List[str]:
        """Save all that is there now; return a line for each thing that could not be saved."""
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
        from concurrent.futures import ThreadPoolExecutor

        left: List[str] = []

        def one(path: str) -> None:
            try:
                self._save(output, path)
            except (OSError, UnicodeError, Failure) as error:
                left.append("{}: {}".format(shown(path), error))

        paths = list(regular_files(output.path))
        output.forget([_known(path) for path in paths])
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(one, paths))
        if output.entries != output.listed:
            self._list(output)
        return sorted(left)

    def _list(self, output: Output) -> None:
        self.bucket.put(output.prefix + MANIFEST, manifest(output.entries))
        output.listed = dict(output.entries)

    def _save(self, output: Output, path: str) -> None:
        full = os.path.realpath(os.path.join(output.path, path))
        if not full.startswith(os.path.join(os.path.realpath(output.path), "")):
            return
        before = os.stat(full)
        name = files.text(path)
        known = output.entries.get(name)
        if not stat.S_ISREG(before.st_mode) or (
            known and known[:2] == (before.st_size, before.st_mtime_ns)
        ):
            return
        if path == OURS:
            raise OSError("this name is taken")
        if 0 <= time.time() - before.st_mtime < CLOCK_TICK_S:
            time.sleep(CLOCK_TICK_S)
            before = os.stat(full)
        size, digest = file_digest(full)

        def opened() -> IO[bytes]:
            return open(full, "rb")

        self.bucket.put_file(output.prefix + name, opened, size, digest)
        after = os.stat(full)
        if size != after.st_size or version(before) != version(after):
            raise OSError("it changed while it was read")
        output.entries[name] = Entry(size, before.st_mtime_ns, digest)


def _known(path: str) -> str:
    return os.fsencode(path).decode(
        "utf-8", "surrogateescape"
    )  # of names that cannot be saved, too


def _above(path: str) -> List[str]:
    """Return the folders that *path* is in.

    >>> _above("a/b/c")
    ['a', 'a/b']
    """
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def manifest(entries: Listed, **more: str) -> bytes:
    listed = [dict(entries[path]._asdict(), path=path) for path in sorted(entries)]
    return json.dumps(dict(more, format=FORMAT, files=listed)).encode("utf-8")


def entries_of(content: bytes) -> Listed:
    """Return what a manifest lists."""
    listed = json.loads(content.decode("utf-8"))["files"]
    return {e["path"]: Entry(e["size"], e["mtime_ns"], e["sha256"]) for e in listed}


def _kept(bucket: Bucket, prefix: str) -> Optional[Listed]:
    """Return what an earlier attempt has saved; None when it got to none."""
    found = bucket.get(prefix + MANIFEST)
    return None if found is None else entries_of(found)


def bring(bucket: Bucket, key: str, target: str, entry: Entry) -> bool:
    """Get a file that was saved; say whether it is as it was listed. If not, it gets no time, so it is saved anew."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    bucket.get_file(key, target)
    same = file_digest(target) == (entry.size, entry.sha256)
    if same:
        os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))
    return same


def restore(bucket: Bucket, prefix: str, path: str) -> None:
    """Bring back what an earlier attempt had saved: the machine it ran on may be gone.

    It may have gone between a file and the manifest.
    """

    def one(found: Tuple[str, Entry]) -> None:
        name, entry = found
        bring(bucket, prefix + name, files.local(os.path.join(path, name)), entry)

    many.each(one, list((_kept(bucket, prefix) or {}).items()))
