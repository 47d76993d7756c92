"""`Thread`, `Event`, `Condition` and `Lock` as in `threading`, of the functions that it is made of."""

import _thread
from typing import Any, Callable, List, Mapping, Optional, Sequence

Lock = _thread.allocate_lock


class Event:
    def __init__(self) -> None:
        self._set = False
        self._lock = Lock()
        self._waiting: List[Any] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        with self._lock:
            self._set = True
            waiting, self._waiting = self._waiting, []
        for lock in waiting:
            lock.release()

    def clear(self) -> None:
        with self._lock:
            self._set = False

    def wait(self, timeout: Optional[float] = None) -> bool:
        lock = Lock()
        lock.acquire()
        with self._lock:
            if self._set:
                return True
            self._waiting.append(lock)
        if _acquired(lock, timeout):
            return True
        with self._lock:
            if lock in self._waiting:
                self._waiting.remove(lock)
            return self._set


class Condition:
    """A condition with a lock of its own, which the same thread takes once at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: List[Any] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self) -> None:
        lock = Lock()
        lock.acquire()
        self._waiting.append(lock)
        self._lock.release()
        try:
            lock.acquire()
        finally:
            self._lock.acquire()

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for lock in waiting:
            lock.release()


class Thread:
    """A thread that does not keep the process from ending, whatever *daemon* says."""

    def __init__(
        self,
        target: Optional[Callable[..., Any]] = None,
        name: Optional[str] = None,
        args: Sequence[Any] = (),
        kwargs: Optional[Mapping[str, Any]] = None,
        daemon: bool = False,
    ) -> None:
        self.name, self.daemon = name, daemon
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self._started = self._ended = False
        self._running = Lock()

    def start(self) -> None:
        if self._started:
            raise RuntimeError("threads can only be started once")
        self._running.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except BaseException:
            self._running.release()
            raise
        self._started = True

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def _run(self) -> None:
        try:
            self.run()
        finally:
            self._ended = True
            self._running.release()

    def is_alive(self) -> bool:
        return self._started and not self._ended

    def join(self, timeout: Optional[float] = None) -> None:
        if not self._started:
            raise RuntimeError("cannot join thread before it is started")
        if _acquired(self._running, timeout):
            self._running.release()


def _acquired(lock: Any, timeout: Optional[float]) -> bool:
    if timeout is None:
        return bool(lock.acquire())
    return bool(lock.acquire(True, max(0.0, timeout)))
