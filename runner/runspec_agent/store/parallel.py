"""Run one operation on many files in parallel, because small files take mostly waiting time."""

import threading
from typing import Callable, Sequence, TypeVar

AT_ONCE = 16
Thing = TypeVar("Thing")


def each(do: Callable[[Thing], None], things: Sequence[Thing], at_once: int = AT_ONCE) -> None:
    """Call *do* for all *things*, in any order. After the first failure, which is raised, no other call begins."""
    from concurrent.futures import ThreadPoolExecutor

    failed = threading.Event()

    def one(thing: Thing) -> None:
        if failed.is_set():
            return
        try:
            do(thing)
        except BaseException:  # any error is raised again; no other call begins
            failed.set()
            raise

    with ThreadPoolExecutor(at_once) as threads:
        for _ in threads.map(one, things):
            pass
