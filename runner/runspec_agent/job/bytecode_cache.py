"""Cache the compiled modules of the zipapp beside it: Python compiles a zip at each start, and arrays start it often.

One file holds all modules, for one version of Python and one zipapp, which its digest identifies. A process that
finds no file writes it; of several writers the last one wins, with equal content. The file is as safe as the zipapp
beside it.
"""

import __future__

import ast
import importlib
import marshal
import os
import zipfile
from types import CodeType
from typing import Dict, Set

from runspec_agent.base import files
from runspec_agent.base.light import lazy_module

# What imports less, and has the names that the agent uses.
LIGHT = {
    "contextlib": "runspec_agent.base.light.light_contextlib",
    "json": "runspec_agent.base.light.light_json",
    "signal": "_signal",
    "threading": "runspec_agent.base.light.light_threading",
    "types": "runspec_agent.base.light.light_typing",
    "typing": "runspec_agent.base.light.light_typing",
}
LAZY = (
    "copy",
    "ctypes",
    "fcntl",
    "math",
    "pwd",
    "re",
    "select",
    "shutil",
    "socket",
    "struct",
    "subprocess",
)


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
    except OSError:
        pass
    return codes


def _compiled(source: bytes, path: str) -> CodeType:
    """Return the code of a module that imports less of the standard library: see `_lightened`."""
    tree = ast.parse(source, path)
    tree.body = [_lightened(node, tree) for node in tree.body]
    ast.fix_missing_locations(tree)
    # Annotations stay texts, where Python can do that: 3.7 or newer.
    lazy = getattr(__future__, "annotations", None)
    flags = 0 if lazy is None else lazy.compiler_flag
    code: CodeType = compile(tree, path, "exec", flags=flags, dont_inherit=True)
    return code


def _lightened(node: ast.stmt, tree: ast.Module) -> ast.stmt:
    """Return what takes the place of *node*, a statement of the module *tree*.

    A module of LIGHT is replaced if the replacement has all that is used of it, and a module of LAZY is imported when
    something of it is used.
    """
    if isinstance(node, ast.ImportFrom) and node.module in LIGHT:
        light = LIGHT[node.module]
        if {alias.name for alias in node.names} <= _names(light):
            return ast.copy_location(ast.ImportFrom(light, node.names, 0), node)
        return node
    if not isinstance(node, ast.Import) or len(node.names) > 1 or node.names[0].asname:
        return node
    name = node.names[0].name
    if name in LIGHT and _used(tree, name) <= _names(LIGHT[name]):
        alias = ast.alias(name=LIGHT[name], asname=name)
        return ast.copy_location(ast.Import(names=[alias]), node)
    if name in LAZY:
        text = "{} = __import__({!r}, fromlist=['*']).LazyModule({!r})"
        made = ast.parse(text.format(name, lazy_module.__name__, name)).body[0]
        return ast.copy_location(made, node)
    return node


def _used(tree: ast.Module, name: str) -> Set[str]:
    """Return the attributes that the module uses of *name*."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }


def _names(module: str) -> Set[str]:
    """Return the names in *module*; none if this Python lacks it."""
    try:
        return set(dir(importlib.import_module(module)))
    except ImportError:
        return set()


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
