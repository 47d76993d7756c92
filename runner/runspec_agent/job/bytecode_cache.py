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
from typing import AbstractSet, Any, Dict, List, Set

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
PLAIN = 2  # a version of marshal's format in which equal values have equal sizes
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
        modules = {_module(name) for name in archive.namelist() if name.endswith(".py")}
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(".py"):
                code = _compiled(content, os.path.join(zipapp, name), modules)
                codes[_module(name)] = marshal.dumps(code)
            else:
                codes[os.path.basename(name)] = content
    try:
        _put(path, _file(codes))
    except OSError:
        pass
    return codes


def _file(codes: Dict[str, bytes]) -> bytes:
    """Return the file: the size of the index in four bytes, the index, and the modules.

    The index has the first module itself, and the place of each other one: the bytes from its begin to the end of the
    file, and its size. Its entry without a name is the size of the file.
    """
    index: Dict[str, Any] = {"": 0, "__main__": codes["__main__"]}
    after = 0
    for name in reversed(list(codes)):
        if name not in index:
            after += len(codes[name])
            index[name] = (after, len(codes[name]))
    whole = b"".join(codes[name] for name in codes if name != "__main__")
    index[""] = 4 + len(marshal.dumps(index, PLAIN)) + len(whole)
    head = marshal.dumps(index, PLAIN)
    return len(head).to_bytes(4, "little") + head + whole


def _compiled(source: bytes, path: str, modules: AbstractSet[str]) -> CodeType:
    """Return the code of one of our *modules* that imports less: see `_lightened`."""
    tree = ast.parse(source, path)
    tree.body = [made for node in tree.body for made in _lightened(node, tree, modules)]
    ast.fix_missing_locations(tree)
    # Annotations stay texts, where Python can do that: 3.7 or newer.
    lazy = getattr(__future__, "annotations", None)
    flags = 0 if lazy is None else lazy.compiler_flag
    code: CodeType = compile(tree, path, "exec", flags=flags, dont_inherit=True)
    return code


def _lightened(node: ast.stmt, tree: ast.Module, modules: AbstractSet[str]) -> List[ast.stmt]:
    """Return what takes the place of *node*, a statement of the module *tree*.

    A module of LIGHT is replaced if the replacement has all that is used of it. A module of LAZY, or of ours that is
    imported as a module, is imported when something of it is used.
    """
    if isinstance(node, ast.ImportFrom) and node.module in LIGHT:
        light = LIGHT[node.module]
        if {alias.name for alias in node.names} <= _names(light):
            return [ast.copy_location(ast.ImportFrom(light, node.names, 0), node)]
    elif isinstance(node, ast.ImportFrom):
        whole = {alias.asname or alias.name: _whole(node, alias) for alias in node.names}
        if modules >= set(whole.values()):
            return [_lazy(name, module, node) for name, module in whole.items()]
    elif isinstance(node, ast.Import) and len(node.names) == 1 and not node.names[0].asname:
        name = node.names[0].name
        if name in LIGHT and _used(tree, name) <= _names(LIGHT[name]):
            alias = ast.alias(name=LIGHT[name], asname=name)
            return [ast.copy_location(ast.Import(names=[alias]), node)]
        if name in LAZY:
            return [_lazy(name, name, node)]
    return [node]


def _whole(node: ast.ImportFrom, alias: ast.alias) -> str:
    return "{}.{}".format(node.module, alias.name)


def _lazy(name: str, module: str, node: ast.stmt) -> ast.stmt:
    """Return the statement that sets *name* to *module*, which is imported later."""
    text = "{} = __import__({!r}, fromlist=['*']).LazyModule({!r})"
    made = ast.parse(text.format(name, lazy_module.__name__, module)).body[0]
    return ast.copy_location(made, node)


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
