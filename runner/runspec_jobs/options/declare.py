"""How the options of a verb are declared: a class with a field for each, which has a type, a default and a help text.

The class is a frozen dataclass for type checkers (PEP 681). The module `dataclasses` would compile six functions for
each class whenever runspec starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, dataclass_transform

from runspec_agent.base.light_typing import NamedTuple

Complete = Callable[..., list[str]]
Read = Callable[[str], object]


class Option(NamedTuple):
    """How a field is typed: an option, or an argument if *names* is empty. *metavar* of a flag is empty.

    *read* converts a word, and raises ValueError with a message. If *several* is true, the value is a tuple.
    """

    names: tuple[str, ...]
    metavar: str
    help: str
    default: object = None
    read: Read = str
    choices: tuple[str, ...] = ()
    complete: Complete | None = None
    several: bool = False
    required: bool = False
    hidden: bool = False

    @property
    def is_flag(self) -> bool:
        return self.default is False


def argument(
    metavar: str,
    help: str,  # noqa: A002 - the word of all command lines
    *,
    read: Read = str,
    choices: tuple[str, ...] = (),
    complete: Complete | None = None,
    several: bool = False,
) -> Any:
    """Declare an argument that must be there."""
    return Option((), metavar, help, None, read, choices, complete, several, required=True)


def argument_or(default: object, metavar: str, help: str, **more: Any) -> Any:  # noqa: A002
    """Declare an argument that is *default* if it is left out."""
    return argument(metavar, help, **more)._replace(default=default, required=False)


def required(name: str, metavar: str, help: str, *, read: Read = str) -> Any:  # noqa: A002
    """Declare an option that must be there."""
    return Option((name,), metavar, help, read=read, required=True)


def option(
    name: str,
    metavar: str,
    help: str,  # noqa: A002
    *,
    default: object = None,
    read: Read = str,
    choices: tuple[str, ...] = (),
    complete: Complete | None = None,
    several: bool = False,
    also: tuple[str, ...] = (),
) -> Any:
    """Declare an option that takes a value; *also* has its older names."""
    return Option((name, *also), metavar, help, default, read, choices, complete, several)


def flag(*names: str, help: str, hidden: bool = False) -> Any:  # noqa: A002
    """Declare an option that takes no value."""
    return Option(names, "", help, default=False, hidden=hidden)


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(argument, required)
)
class Options:
    """The base class of the options of all verbs; the docstring of a class is the help of its verb.

    Fields that are not declared as above cannot be typed: `words`, which has the words after `--`, and what one verb
    says when it calls another.
    """

    declared: ClassVar[Mapping[str, Option]]
    _defaults: ClassVar[dict[str, object]]

    def __init_subclass__(cls) -> None:
        fields = {name: vars(cls).get(name) for name in cls.__annotations__}
        cls.declared = {n: value for n, value in fields.items() if isinstance(value, Option)}
        cls._defaults = {**fields, **{n: option.default for n, option in cls.declared.items()}}

    def __init__(self, **given: Any) -> None:
        vars(self).update(self._defaults | given)
        lacking = [n for n, option in self.declared.items() if option.required and n not in given]
        if wrong := lacking or [name for name in given if name not in self._defaults]:
            raise TypeError(f"{type(self).__name__}() with or without {', '.join(wrong)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    def check(self) -> None:
        """Raise UsageError if options contradict each other."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values."""
        return type(self)(**(vars(self) | changes))
