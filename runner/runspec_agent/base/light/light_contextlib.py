"""`contextmanager` and `suppress` as in `contextlib`, for generators that let no StopIteration through."""

from types import TracebackType
from typing import Any, Callable, Iterator, Optional, Type


class _Around:
    """The context of one call of a generator function, which yields once."""

    def __init__(self, steps: Iterator[Any]) -> None:
        self._steps: Any = steps

    def __enter__(self) -> Any:
        return next(self._steps)

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> bool:
        try:
            if error is None:
                next(self._steps)
            else:
                self._steps.throw(error)
        except StopIteration:
            return error is not None
        except BaseException as raised:
            if raised is error:
                return False
            raise
        raise RuntimeError("generator didn't stop")


def contextmanager(steps: Callable[..., Iterator[Any]]) -> Callable[..., _Around]:
    def begun(*args: Any, **kwargs: Any) -> _Around:
        return _Around(steps(*args, **kwargs))

    return begun


class suppress:  # noqa: N801 - the name of the original
    def __init__(self, *kinds: Type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> bool:
        return kind is not None and issubclass(kind, self._kinds)
