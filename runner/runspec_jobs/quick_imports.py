"""Lets modules of other packages be imported without work that runspec does not need: a tenth of the start-up."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def _make_regex(pattern: str, flags: int = 0) -> object:
    from runspec_jobs.regex import regex  # not for `--version`

    return regex(pattern, flags)  # type: ignore[arg-type]  # a number is a flag, too


class UncheckedDict(dict[str, Any]):
    """Stands for `TypedDict`, which compiles the annotation of each field."""

    def __init_subclass__(cls, **_: object) -> None:
        """Accept the options of `TypedDict`."""


Swap = tuple[
    str, str, object
]  # a module, a name in it, and what it is while another module is imported
LAZY: Swap = ("re", "compile", _make_regex)
SWAPS: Mapping[str, Sequence[Swap]] = {
    # The types of pydantic's schemas: read by type checkers alone.
    "pydantic_core.core_schema": [
        (module, "TypedDict", UncheckedDict) for module in ("typing", "typing_extensions")
    ],
    # Regular expressions that no command needs, or few.
    "platform": [LAZY],
    "textwrap": [LAZY],
    "yaml.reader": [LAZY],
    "yaml.resolver": [LAZY],
}


def install() -> None:
    """Prepare the imports of this process. It is for programs alone: others may import in several threads."""
    sys.meta_path.insert(0, _Finder)


class _Finder:
    """Finds the modules of `SWAPS` as the import system does, and has them executed with what is there for them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in SWAPS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            changed = lambda module: execute_with(module, execute, SWAPS[name])  # noqa: E731
            spec.loader.exec_module = changed  # type: ignore[method-assign]  # of this module alone
        return spec


def execute_with(
    module: ModuleType, execute: Callable[[ModuleType], None], swaps: Sequence[Swap]
) -> None:
    """Call *execute* with *module* while the names in *swaps* have other values."""
    places = [(importlib.import_module(name), attribute, value) for name, attribute, value in swaps]
    originals = [getattr(place, attribute) for place, attribute, _ in places]
    try:
        for place, attribute, value in places:
            setattr(place, attribute, value)
        execute(module)
        return
    except Exception:  # noqa: BLE001, S110 - another version may need the originals, with which it is executed then
        pass
    finally:
        for (place, attribute, _), original in zip(places, originals, strict=True):
            setattr(place, attribute, original)
    execute(module)
