"""What modules of the agent use of `typing`, without its import: that takes longer than the work of a small task.

The compiled modules of `job.bytecode_cache` import this module in place of `typing`, and so does the supervisor of
`local`. The core and providers take `NamedTuple` alone, whose original compiles the annotation of each field. Nothing
here checks types.
"""

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import (
        IO as IO,
        AbstractSet as AbstractSet,
        Any as Any,
        BinaryIO as BinaryIO,
        NamedTuple as NamedTuple,
        cast as cast,
    )

if not TYPE_CHECKING:

    class _Form:
        """Stands for each type, with any parameters."""

        def __getitem__(self, _: "Any") -> "_Form":
            return self

    Any = Callable = Dict = FrozenSet = Generator = IO = Iterable = Iterator = List = Mapping = (
        _Form()
    )
    AbstractSet = BinaryIO = MutableMapping = Optional = Sequence = Set = Tuple = Type = Union = Any

    def TypeVar(*_: "Any", **__: "Any") -> _Form:  # noqa: N802 - the name of the original
        return Any

    def cast(_: "Any", value: "Any") -> "Any":
        return value

    class _NamedTupleMeta(type):
        def __new__(mcs, name: str, bases: "Tuple[type, ...]", body: "Dict[str, Any]") -> "Any":
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
