"""What modules of the agent use of `typing` and `types`, whose import takes longer than the work of a small task.

Nothing here checks types.
"""

from _operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as _Any, Dict as _Dict, Tuple as _Tuple


class _Form:
    """Stands for each type, with any parameters."""

    def __getitem__(self, _: "_Any") -> "_Form":
        return self


Any = Callable = Dict = FrozenSet = Generator = IO = Iterable = Iterator = List = Mapping = _Form()
FrameType = TracebackType = Any
AbstractSet = BinaryIO = MutableMapping = Optional = Sequence = Set = Tuple = Type = Union = Any


def TypeVar(*_: "_Any", **__: "_Any") -> _Form:  # noqa: N802 - the name of the original
    return Any


def cast(_: "_Any", value: "_Any") -> "_Any":
    return value


class _Named(tuple):  # type: ignore[type-arg]  # it has any items
    """What classes of named tuples have in common."""

    __slots__ = ()
    _fields: "_Tuple[str, ...]" = ()
    _field_defaults: "_Dict[str, _Any]" = {}  # noqa: RUF012 - never changed

    def __new__(cls, *args: "_Any", **kwargs: "_Any") -> "_Any":
        fields = cls._fields
        if kwargs or len(args) != len(fields):
            if len(args) > len(fields) or not set(kwargs) <= set(fields[len(args) :]):
                raise TypeError("{} has the fields {}".format(cls.__name__, ", ".join(fields)))
            values = {**cls._field_defaults, **dict(zip(fields, args)), **kwargs}
            missing = [field for field in fields if field not in values]
            if missing:
                raise TypeError("{} lacks {}".format(cls.__name__, ", ".join(missing)))
            args = tuple([values[field] for field in fields])
        return tuple.__new__(cls, args)

    def _asdict(self) -> "_Dict[str, _Any]":
        return dict(zip(self._fields, self))

    def _replace(self, **new: "_Any") -> "_Any":
        return type(self)(**{**self._asdict(), **new})

    def __getnewargs__(self) -> "_Tuple[_Any, ...]":
        return tuple(self)

    def __repr__(self) -> str:
        pairs = ["{}={!r}".format(name, value) for name, value in zip(self._fields, self)]
        return "{}({})".format(type(self).__name__, ", ".join(pairs))


class _NamedTupleMeta(type):
    def __new__(mcs, name: str, bases: "_Tuple[type, ...]", body: "_Dict[str, _Any]") -> "_Any":
        if not bases:
            return super().__new__(mcs, name, bases, body)
        fields = tuple(body.get("__annotations__", {}))
        own = {key: value for key, value in body.items() if key not in fields}
        own.update(__slots__=(), _fields=fields)
        own["_field_defaults"] = {field: body[field] for field in fields if field in body}
        own.update((field, property(itemgetter(at))) for at, field in enumerate(fields))
        own.pop("__classcell__", None)
        return type(name, (_Named,), own)


class NamedTuple(metaclass=_NamedTupleMeta):
    """A base class as that of `typing`; a class of it is one of `_Named`."""
