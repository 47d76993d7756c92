"""The `__main__` of the zipapp: it imports all other modules from `bytecode_cache` if they were cached.

A batch script of Slurm takes this module itself from the cache (`runspec_slurm.job.script`): to read the directory of a
zip, and to compile this module, would take as long as the work of a small task. So it imports only what Python itself
has imported already.
"""

import gc
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import RawIOBase
    from types import ModuleType
    from typing import Any, Dict, Iterator, Optional, Tuple, Union


class Codes:
    """The compiled modules by their names, in a file that begins with the *index*: see `bytecode_cache`."""

    def __init__(self, index: "Dict[str, Any]", stream: "RawIOBase") -> None:
        self.index, self.stream = index, stream

    def __iter__(self) -> "Iterator[str]":
        return iter(self.index)

    def __contains__(self, name: str) -> bool:
        return name in self.index

    def __getitem__(self, name: str) -> bytes:
        found = self.index[name]
        if isinstance(found, bytes):
            return found
        before_end, size = found
        return os.pread(self.stream.fileno(), size, self.index[""] - before_end)

    def get(self, name: str) -> "Optional[bytes]":
        return self[name] if name in self.index else None


class Kept:
    """An importer of *codes*, the compiled modules of *zipapp*."""

    def __init__(self, codes: "Union[Codes, Dict[str, bytes]]", zipapp: str) -> None:
        self.codes, self.zipapp = codes, zipapp
        self.packages = {name.rpartition(".")[0] for name in codes}

    def find_spec(self, name: str, *_: "Any") -> "Optional[ModuleSpec]":
        if name not in self.codes:
            return None
        package = name in self.packages
        inner = name.replace(".", "/") + ("/__init__.py" if package else ".py")
        path = os.path.join(self.zipapp, inner)
        spec = ModuleSpec(name, self, origin=path, is_package=package)  # type: ignore[arg-type]  # it is one by its methods
        spec.has_location = True  # a module finds its zipapp by its __file__
        return spec

    def create_module(self, _: ModuleSpec) -> None:
        return None

    def exec_module(self, module: "ModuleType") -> None:
        exec(marshal.loads(self.codes[module.__name__]), module.__dict__)  # noqa: S102, S302 - what every import does

    def get_source(self, name: str) -> "Optional[str]":
        """Return the text that a traceback shows lines of."""
        import zipimport

        *packages, module = name.split(".")
        return zipimport.zipimporter(os.path.join(self.zipapp, *packages)).get_source(module)


def named_by_digest(zipapp: str) -> bool:
    """Return whether *zipapp* is in a workspace, where its name is its digest."""
    name, suffix = os.path.splitext(os.path.basename(zipapp))
    return suffix == ".pyz" and len(name) == 64 and not name.strip("0123456789abcdef")


def place(zipapp: str) -> str:
    """Return the path of the cache for this Python: bytecode depends on the magic number."""
    magic = int.from_bytes(MAGIC_NUMBER[:2], "little")
    return "{}.{}-{}.kept".format(os.path.splitext(zipapp)[0], sys.implementation.cache_tag, magic)


def read(path: str) -> "Optional[Codes]":
    """Return the cached modules, or None if the file is missing or damaged."""
    try:
        stream = open(path, "rb", 0)  # noqa: SIM115 - it stays open for later imports
        size = int.from_bytes(stream.read(4), "little")
        index = marshal.loads(stream.read(size))  # noqa: S302 - who can change it can change the zipapp
        if index[""] != stream.seek(0, 2):
            return None
    except (OSError, EOFError, LookupError, ValueError, TypeError):
        return None
    return Codes(index, stream)


def begin(zipapp: str, kept: "Optional[Tuple[Dict[str, Any], RawIOBase]]") -> None:
    """Import modules from the opened file *kept*, or from the cache, or write the cache if there is none."""
    path = place(zipapp)
    codes: Union[Codes, Dict[str, bytes], None] = read(path) if kept is None else Codes(*kept)
    if codes is None:
        from runspec_agent.job import bytecode_cache

        codes = bytecode_cache.made(zipapp, path)
    sys.meta_path.insert(0, Kept(codes, zipapp))


if __name__ == "__main__":
    gc.disable()  # imports leave no garbage, and `main` enables it again
    if named_by_digest(sys.argv[0]):
        begin(os.path.abspath(sys.argv[0]), globals().get("kept"))
    from runspec_agent.__main__ import main

    code = main()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # an orderly exit of the interpreter may take longer than its work
