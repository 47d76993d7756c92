"""Faults put into the code of our clients for as long as a test takes: each is found, or the tests are blind."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Fault(NamedTuple):
    """A mistake that a client might have had: *old* in the source of a function reads *new* instead."""

    function: Callable[..., Any]
    old: str
    new: str


@contextlib.contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """Have the function of *fault* run its changed source, wherever it was imported to."""
    function: Any = inspect.unwrap(fault.function)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(fault.old) == 1, f"'{fault.old}' is not once in {function.__qualname__}"
    made = _compiled(source.replace(fault.old, fault.new), function)
    kept, function.__code__ = function.__code__, made
    try:
        yield
    finally:
        function.__code__ = kept


def _compiled(source: str, function: Any) -> Any:
    found: dict[str, Any] = {}
    exec(compile(source, "<planted>", "exec"), dict(function.__globals__), found)
    (made,) = found.values()
    return inspect.unwrap(made).__code__
