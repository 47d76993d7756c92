"""What modules of the agent use of `typing`, without its import: that takes longer than the work of a small task.

The compiled modules of `job.bytecode_cache` import this module in place of `typing`. Nothing here checks types.
The core and providers take `NamedTuple` alone, whose original compiles the annotation of each field.
"""

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as _Any, Dict as _Dict, NamedTuple as NamedTuple, Tuple as _Tuple


class _Form:
    """Stands for each type, with any parameters."""

    def __getitem__(self, _: "_Any") -> "_Form":
        return self


Any = Callable = Dict = FrozenSet = Generator = IO = Iterable = Iterator = List = Mapping = _Form()
AbstractSet = BinaryIO = MutableMapping = Optional = Sequence = Set = Tuple = Type = Union = Any


def TypeVar(*_: "_Any", **__: "_Any") -> _Form:  # noqa: N802 - the name of the original
    return Any


def cast(_: "_Any", value: "_Any") -> "_Any":
    return value


if not TYPE_CHECKING:

    class _NamedTupleMeta(type):
        def __new__(mcs, name: str, bases: "_Tuple[type, ...]", body: "_Dict[str, _Any]") -> "_Any":
            if not bases:
                return super().__new__(mcs, name, bases, body)
            fields = body.get("__annotations__", {})
            made = namedtuple(name, fields)  # type: ignore[misc]  # noqa: PYI024 - this is what stands for it
            defaults = tuple(body[field] for field in fields if field in body)
            made.__new__.__defaults__ = defaults
            for key, value in body.items():
                if key not in fields and key not in ("__dict__", "__weakref__"):
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_NamedTupleMeta):
        """A base class as that of `typing`."""
