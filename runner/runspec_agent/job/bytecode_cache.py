"""Keeping the modules of the zipapp compiled, beside it: each start compiles a zip anew, and an array starts often.

One file has all of them, for one version of Python and for this very zipapp: one that is named by its digest. Whoever
finds none makes it; of several at once the last one's stays, and all are alike. It is as safe as the zipapp beside it.
"""

import marshal
import os
import zipfile
from typing import Dict

from runspec_agent.base import files


def made(zipapp: str, path: str) -> Dict[str, bytes]:
    """Return all modules of *zipapp*, compiled, and keep them at *path* if that can be."""
    codes = {}
    with zipfile.ZipFile(zipapp) as archive:
        for name in archive.namelist():
            if name.endswith(".py") and "/" in name:
                code = compile(
                    archive.read(name), os.path.join(zipapp, name), "exec", dont_inherit=True
                )
                codes[_module(name)] = marshal.dumps(code)
    try:
        _put(path, marshal.dumps(codes))
    except OSError:
        pass
    return codes


def _module(name: str) -> str:
    """Return what *name* of the archive is imported as.

    >>> _module("runspec_agent/__init__.py"), _module("runspec_agent/job/slurm_batch.py")
    ('runspec_agent', 'runspec_agent.job.slurm_batch')
    """
    whole = name[: -len(".py")].replace("/", ".")
    return whole[: -len(".__init__")] if whole.endswith(".__init__") else whole


def _put(path: str, content: bytes) -> None:
    """Other nodes do the same at this moment, so the name until it is whole is nobody else's: see `folder`."""
    part = os.path.join(os.path.dirname(path), ".rs-{}.part".format(os.urandom(8).hex()))
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(part, path)
    finally:
        files.remove(part)
