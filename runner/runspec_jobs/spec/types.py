"""The kinds of value a spec is made of: what each accepts as written, and how editors see it.

A scalar of the file keeps its source text until a field's type says what it is, so `VERSION: 3.10`
in `env` stays "3.10" and `1:00:00` is never 3600. Every type also says what it is in JSON Schema;
the two must agree on what is accepted, and tests hold them to it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from runspec_jobs.document.nodes import Text, kind, resolve

KIB = 1024
UNITS = {"KiB": KIB, "MiB": KIB**2, "GiB": KIB**3, "TiB": KIB**4}
SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

LARGEST = 2**63 - 1  # what other languages read, and what is drawn from

DURATION = r"^(?=[0-9])([0-9]{1,6}d)?([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"
SAVES = r"^last( [1-9][0-9]{0,2})?$"
BYTES = r"^[0-9]{1,9}(KiB|MiB|GiB|TiB)$"
NAME = r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
KEY = r"^[a-z][a-z0-9_-]{0,39}$"
IMAGE = (
    r"^[A-Za-z0-9./~][!-~]*$"  # a reference, or a file for engines that take one; never an option
)
FOLDER = r"^(?!.*/\.{1,2}(/|$))/([A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+$"


compiled = functools.cache(
    re.compile
)  # when first needed: most patterns are not, and compiling takes time


def problem(what: str, hint: str | None = None, *, private: bool = False) -> PydanticCustomError:
    """Give the error of a validator, with its hint kept apart from its message.

    The value of a *private* one is shown nowhere: it may be a secret, put where only its name belongs.
    """
    context = {"what": what, "hint": hint, "private": private}
    return PydanticCustomError("runspec", "{what}", context)


def whole(value: Any) -> Any:
    """Give the whole number that a text is; other values as they are."""
    if isinstance(value, Text):
        if kind(value) != "int":
            hint = "take the quotes away" if not value.plain and value.isdecimal() else None
            raise problem(f"'{value}' is not a whole number", hint)
        found = resolve(value)
        if not -LARGEST <= found <= LARGEST:
            raise problem(f"a number of {len(value)} digits is too large", f"{LARGEST} is the most")
        return found
    return value


def _truth(value: Any) -> Any:
    if isinstance(value, Text):
        if kind(value) != "bool":
            raise problem(f"'{value}' is not true or false")
        return resolve(value)
    return value


def _word(value: Any) -> Any:
    if isinstance(value, Text) and kind(value) != "str":
        raise problem(*_not_a_word(value))
    return value


def _not_a_word(value: Text) -> tuple[str, str | None]:
    found = kind(value)
    if found == "null":
        return "no value", None
    reads = "a number" if found in ("int", "float") else "true or false"
    return f"'{value}' reads as {reads} here", f'put it in quotes: "{value}"'


def _free(value: Any) -> Any:
    if isinstance(value, Text) and kind(value) == "null":
        raise problem("no value", 'write "" for an empty one')
    return value


def seconds(value: Any) -> Any:
    """Give the seconds that a duration such as "1h30m" stands for; other values as they are.

    >>> seconds("1h30m")
    5400
    """
    if not isinstance(value, str):
        return value
    if not compiled(DURATION).fullmatch(value):
        hint = f"write {value}s" if value.isdecimal() else "write it as 90s, 10m, 2h or 1h30m"
        raise problem(f"'{value}' is not a length of time", hint)
    return sum(int(n) * SECONDS[unit] for n, unit in re.findall(r"([0-9]+)([dhms])", value))


def saves(value: Any) -> Any:
    """Give the number of saves that "last 3" stands for, and "last"; other values as they are.

    >>> saves("last 3")
    3
    """
    if not isinstance(value, str):
        return value
    if not compiled(SAVES).fullmatch(value):
        raise problem(f"'{value}' is not which saves stay", "write it as last 3")
    return int(value.partition(" ")[2] or "1")


def size_bytes(value: Any) -> Any:
    """Give the bytes that a size such as "16GiB" stands for; other values as they are.

    >>> size_bytes("2KiB")
    2048
    """
    if not isinstance(value, str):
        return value
    if not compiled(BYTES).fullmatch(value):
        near = re.match(r"^([0-9]+) ?([KMGTkmgt])i?[bB]?$", value)
        hint = f"write {near[1]}{near[2].upper()}iB" if near else "write it as 512MiB or 16GiB"
        raise problem(f"'{value}' is not a size", hint)
    return int(value[:-3]) * UNITS[value[-3:]]


def matching(pattern: str, what: str, hint: str, *, private: bool = False) -> Callable[[Any], Any]:
    """Give a validator for words that match *pattern*; *what* names them in the complaint.

    A *private* value is not shown in it.
    """

    def check(value: Any) -> Any:
        if private and isinstance(value, Text) and kind(value) != "str":
            raise problem(f"this is not {what}", hint, private=True)
        value = _word(value)
        if isinstance(value, str) and not compiled(pattern).fullmatch(value):
            shown = "this" if private else f"'{value}'"
            raise problem(f"{shown} is not {what}", hint, private=private)
        return value

    return check


Whole = Annotated[int, BeforeValidator(whole)]
Natural = Annotated[int, Field(ge=0), BeforeValidator(whole)]
Positive = Annotated[int, Field(ge=1), BeforeValidator(whole)]
Tries = Annotated[int, Field(ge=1, le=10), BeforeValidator(whole)]
Truth = Annotated[bool, BeforeValidator(_truth)]
Word = Annotated[str, Field(min_length=1), BeforeValidator(_word)]
Free = Annotated[
    str, BeforeValidator(_free), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
Saves = Annotated[
    int,
    Field(ge=1, le=999),
    BeforeValidator(saves),
    WithJsonSchema({"type": "string", "pattern": SAVES, "examples": ["last 3"]}),
]
Seconds = Annotated[
    int,
    BeforeValidator(seconds),
    WithJsonSchema({"type": "string", "pattern": DURATION, "examples": ["90s", "1h30m"]}),
]
Bytes = Annotated[
    int,
    BeforeValidator(size_bytes),
    WithJsonSchema({"type": "string", "pattern": BYTES, "examples": ["16GiB"]}),
]
Image = Annotated[
    str,
    BeforeValidator(matching(IMAGE, "an image", "write it without spaces, as repository:tag")),
    WithJsonSchema({"type": "string", "pattern": IMAGE}),
]
Name = Annotated[
    str,
    BeforeValidator(
        matching(NAME, "a name", "use a-z, 0-9 and '-', begin with a letter, 40 at most")
    ),
    WithJsonSchema({"type": "string", "pattern": NAME}),
]
Variable = Annotated[
    str,
    BeforeValidator(matching(VARIABLE, "a variable's name", "use letters, digits and '_'")),
    WithJsonSchema({"type": "string", "pattern": VARIABLE}),
]
Key = Annotated[
    str,
    BeforeValidator(matching(KEY, "a parameter's name", "use a-z, 0-9, '_' and '-'")),
    WithJsonSchema({"type": "string", "pattern": KEY}),
]
SecretName = Annotated[
    str,
    BeforeValidator(
        matching(
            KEY,
            "a secret's name",
            "name it here, and say in the profile under 'secrets' where it lives",
            private=True,
        )
    ),
    WithJsonSchema({"type": "string", "pattern": KEY}),
]
Folder = Annotated[
    str,
    BeforeValidator(
        matching(FOLDER, "a folder in the job", "write an absolute path of plain names: /job/data")
    ),
    WithJsonSchema({"type": "string", "pattern": FOLDER}),
]
