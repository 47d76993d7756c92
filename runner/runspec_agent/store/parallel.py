"""The same for many files, some at a time: most of the time of a small one is waiting."""

import threading
from typing import Callable, Sequence, TypeVar

AT_ONCE = 16
Thing = TypeVar("Thing")


def each(do: Callable[[Thing], None], things: Sequence[Thing], at_once: int = AT_ONCE) -> None:
    """Call *do* with each of *things*, in no order. After the first failure, which is raised, no more is begun."""
    from concurrent.futures import ThreadPoolExecutor

    failed = threading.Event()

    def one(thing: Thing) -> None:
        if failed.is_set():
            return
        try:
            do(thing)
        except BaseException:  # whatever it is goes on; the others are to begin no more
            failed.set()
            raise

    with ThreadPoolExecutor(at_once) as threads:
        for _ in threads.map(one, things):
            pass
