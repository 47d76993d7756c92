"""Cache the compiled modules of the zipapp beside it: Python compiles a zip at each start, and arrays start it often.

One file holds all modules, for one version of Python and one zipapp, which its digest identifies. A process that
finds no file writes it; of several writers the last one wins, with equal content. The file is as safe as the zipapp
beside it.
"""

import marshal
import os
import zipfile
from typing import Dict

from runspec_agent.base import files


def made(zipapp: str, path: str) -> Dict[str, bytes]:
    """Return the compiled modules of *zipapp*, and write them to *path* if possible."""
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
    """Return the module name of the file *name* in the archive.

    >>> _module("runspec_agent/__init__.py"), _module("runspec_agent/job/slurm_batch.py")
    ('runspec_agent', 'runspec_agent.job.slurm_batch')
    """
    whole = name[: -len(".py")].replace("/", ".")
    return whole[: -len(".__init__")] if whole.endswith(".__init__") else whole


def _put(path: str, content: bytes) -> None:
    """Write a file atomically; other nodes may write it too, so the temporary name is random: see `folder`."""
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
