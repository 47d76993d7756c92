"""Make an output folder contain what a save contains: files, folders and links, with their modes and times."""

import os
import stat
from typing import Callable, Optional

from runspec_agent.base import files
from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.store import parallel
from runspec_agent.store.base import Bucket, file_digest
from runspec_agent.store.manifest import Entry, Manifest, object_key
from runspec_agent.transfer.folder_walk import shown

OWN = stat.S_IRWXU  # the mode of a folder while its content is restored


def restore(
    bucket: Bucket, output: str, path: str, prefix: str, manifest: Manifest, seen: str = ""
) -> None:
    """Make the folder *path* contain exactly the last save, as the earlier attempt's machine may be gone.

    *seen* is the path by which programs will know the folder, if it is another one: absolute links begin with it.
    Raise Failure if a file is missing or differs from what was saved, or if the disk refuses it.
    """
    made = _Restore(bucket, output, path, prefix, manifest)
    made.seen = seen or path
    folders = sorted(manifest.shape.folders)  # each folder before the folders in it
    links = [name for name, entry in manifest.files.items() if entry.link]
    for name in folders:
        made.told(made.folder)(name)
    parallel.each(made.told(made.file), [n for n, e in manifest.files.items() if not e.link])
    for name in (*links, *manifest.shape.links):
        made.told(made.link)(name)
    # The times of a folder change with its entries, and its mode may forbid them.
    for name in reversed(folders):
        _set(made.at(name), *manifest.shape.folders[name])


class _Restore:
    def __init__(
        self, bucket: Bucket, output: str, path: str, prefix: str, manifest: Manifest
    ) -> None:
        self.bucket, self.output, self.path, self.prefix = bucket, output, path, prefix
        self.files, self.shape = manifest.files, manifest.shape
        self.seen = path

    def told(self, do: Callable[[str], None]) -> Callable[[str], None]:
        """Return *do*, which raises Failure in place of OSError."""

        def told(name: str) -> None:
            try:
                do(name)
            except OSError as error:
                text = "output '{}': {} cannot be restored: {}"
                why = error.strerror or error
                raise Failure(text.format(self.output, shown(name), why), LOST) from error

        return told

    def at(self, name: str) -> str:
        return files.local(os.path.join(self.path, name))

    def folder(self, name: str) -> None:
        """Make a folder in which files can be written; one that leads elsewhere, or is a file, is replaced."""
        folder = self.at(name)
        self._make(folder)
        mode = stat.S_IMODE(os.stat(folder).st_mode)
        if mode & OWN != OWN:
            os.chmod(folder, mode | OWN)

    def _make(self, folder: str) -> None:
        """Make *folder* and its parents below the output, however many there are."""
        missing = []
        while len(folder) > len(self.path) and not _is_folder(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        os.makedirs(self.path, exist_ok=True)
        for path in reversed(missing):
            files.remove(path)
            try:
                os.mkdir(path)
            except FileExistsError:  # made by another thread
                if not _is_folder(path):
                    raise

    def link(self, name: str) -> None:
        link = self.shape.links.get(name)
        wanted = files.local(link.target if link is not None else self.files[name].link)
        if wanted.startswith("/"):
            wanted = os.path.join(self.seen, wanted.lstrip("/")).rstrip("/")
        target = self.at(name)
        try:
            if os.readlink(target) == wanted:
                return
        except OSError:  # the path does not exist, or is no link
            pass
        self._make(os.path.dirname(target))
        part = _part(target)
        os.symlink(wanted, part)
        try:
            if link is not None:
                os.utime(part, ns=(link.mtime_ns, link.mtime_ns), follow_symlinks=False)
            _put(part, target)
        finally:
            files.remove(part)

    def file(self, name: str) -> None:
        target, entry = self.at(name), self.files[name]
        if not _is_there(target, entry):
            self._bring(name, target, entry)
        elif entry.mode is not None:
            _set(target, entry.mode, entry.mtime_ns)

    def _bring(self, name: str, target: str, entry: Entry) -> None:
        """Download a file of the last save. Raise Failure if its content is not the saved one."""
        self._make(os.path.dirname(target))
        part = _part(target)
        try:
            if entry.mode is not None:  # nobody else may read the file before it has its mode
                os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            self.bucket.get_file(object_key(self.prefix, name, entry), part)
            if file_digest(part) != (entry.size, entry.sha256):
                text = "output '{}': {} differs from what was saved"
                raise Failure(text.format(self.output, shown(name)), LOST)
            _set(part, entry.mode, entry.mtime_ns)
            _put(part, target)
        finally:
            files.remove(part)


def _is_there(path: str, entry: Entry) -> bool:
    try:
        info = os.lstat(path)
    except OSError:
        return False
    same = (info.st_size, info.st_mtime_ns) == (entry.size, entry.mtime_ns)
    return same and stat.S_ISREG(info.st_mode)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _part(target: str) -> str:
    return os.path.join(os.path.dirname(target), ".rs-{}.part".format(os.urandom(8).hex()))


def _put(part: str, target: str) -> None:
    """Rename *part* to *target*, in the place of whatever is there."""
    if _is_folder(target):
        files.remove_tree(target)
    os.rename(part, target)


def _set(path: str, mode: Optional[int], mtime_ns: int) -> None:
    """Set the mode and the time of *path*; some file systems have none, and a folder of the image may not be ours."""
    try:
        if mode is not None:
            os.chmod(path, mode)
        os.utime(path, ns=(mtime_ns, mtime_ns))
    except OSError:  # the content is restored, which is what matters
        pass
