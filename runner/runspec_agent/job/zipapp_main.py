"""The `__main__` of the zipapp: it imports all other modules from `bytecode_cache` if they were cached.

A batch script of Slurm takes this module itself from the cache (`runspec_slurm.job`): to read the directory of a
zip, and to compile this module, would take as long as the work of a small task. So it imports only what Python itself
has imported already.
"""

import gc
import io
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Dict, Optional

    Codes = Dict[str, bytes]


class Kept:
    """An importer of *codes*, the compiled modules of *zipapp*."""

    def __init__(self, codes: "Codes", zipapp: str) -> None:
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

    def get_data(self, path: str) -> bytes:
        """Return the file that a module finds beside itself or by its __file__."""
        import zipimport

        return zipimport.zipimporter(self.zipapp).get_data(path)

    def get_source(self, name: str) -> "Optional[str]":
        """Return the text that a traceback shows lines of."""
        import zipimport

        *packages, module = name.split(".")
        return zipimport.zipimporter(os.path.join(self.zipapp, *packages)).get_source(module)


class LossyText(io.TextIOWrapper):
    """A standard stream that loses what cannot be written: the file system of a log may be full, or a pipe closed.

    The work of a job goes on without its messages, and Python does not end with 120, which would hide the exit code.
    """

    def __init__(self, number: int) -> None:
        raw = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
        super().__init__(raw, "utf-8", "backslashreplace", line_buffering=True)

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:  # a full disk must not end the agent, which still has to save
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:  # as in `write`
            pass


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
        with open(path, "rb") as stream:
            codes: Codes = marshal.load(stream)  # noqa: S302 - only those who can change the zipapp can change it
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return codes


def begin(zipapp: str, codes: "Optional[Codes]") -> None:
    """Import modules from *codes*, or from the cache, or write the cache if there is none."""
    path = place(zipapp)
    if codes is None:
        codes = read(path)
    if codes is None:
        from runspec_agent.job import bytecode_cache

        codes = bytecode_cache.made(zipapp, path)
    sys.meta_path.insert(0, Kept(codes, zipapp))


if __name__ == "__main__":
    gc.disable()  # imports leave no garbage, and `main` enables it again
    sys.stdout, sys.stderr = LossyText(1), LossyText(2)
    if named_by_digest(sys.argv[0]):
        begin(os.path.abspath(sys.argv[0]), globals().get("kept_codes"))
    from runspec_agent.__main__ import main

    code = main()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # an orderly exit of the interpreter may take longer than its work
