"""Cache the compiled modules of the zipapp beside it: Python compiles a zip at each start, and arrays start it often.

One file holds all modules, for one version of Python and one zipapp, which its digest identifies. A process that
finds no file writes it; of several writers the last one wins, with equal content. The file is as safe as the zipapp
beside it.
"""

import __future__

import ast
import marshal
import os
import zipfile
from types import CodeType
from typing import Dict

from runspec_agent.base import files, light_typing


def made(zipapp: str, path: str) -> Dict[str, bytes]:
    """Return the compiled modules of *zipapp*, and write them to *path* if possible."""
    codes = {}
    with zipfile.ZipFile(zipapp) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(".py"):
                code = _compiled(content, os.path.join(zipapp, name))
                codes[_module(name)] = marshal.dumps(code)
            else:
                codes[os.path.basename(name)] = content
    try:
        _put(path, marshal.dumps(codes))
    except OSError:  # a full disk: then each task compiles the agent for itself
        pass
    return codes


def _compiled(source: bytes, path: str) -> CodeType:
    """Return the code of a module that takes what it needs for its annotations from `light_typing`."""
    tree = ast.parse(source, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "typing":
            node.module = light_typing.__name__
    # Annotations stay texts, where Python can do that: 3.7 or newer.
    lazy = getattr(__future__, "annotations", None)
    flags = 0 if lazy is None else lazy.compiler_flag
    code: CodeType = compile(tree, path, "exec", flags=flags, dont_inherit=True)
    return code


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
