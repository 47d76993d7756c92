"""The types of the values in a spec: the text that each accepts, and its JSON Schema for editors.

A scalar of the file keeps its source text until the type of its field interprets it, so `VERSION: 3.10`
in `env` stays "3.10", and `START: 1:00:00` is not 3600. Tests check that each type accepts the same values as
its JSON Schema.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializationInfo,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from runspec_jobs.diagnostics.secret_values import is_pasted
from runspec_jobs.diagnostics.short_forms import has_typographic_quotes, remove_typographic_quotes
from runspec_jobs.document.nodes import Text, resolve, resolve_kind
from runspec_jobs.regex import regex

KIB = 1024
UNITS = {"KiB": KIB, "MiB": KIB**2, "GiB": KIB**3, "TiB": KIB**4}
SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

# The name of a GPU in place of a number of GPUs, such as A100 or A-100, or with the number: A100:8.
GPU_TYPE = regex(r"([A-Z]{1,3})-?([0-9]{1,4}[A-Z]?(?:-[0-9]+GB)?)(?::([1-9][0-9]{0,3}))?")
LARGEST = 2**63 - 1  # the greatest integer in other languages and in random draws

# 1h30m; or as Slurm and others write it where it means one thing: 2:00:00, 1-12 and 1-12:00, but not 30:00.
DURATION = (
    r"^((?=[0-9])([0-9]{1,6}d)?([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?"
    r"|([0-9]{1,4}-)?[0-9]{1,4}:[0-5][0-9]:[0-5][0-9]|[0-9]{1,4}-[0-9]{1,2}(:[0-5][0-9])?)$"
)
SAVES = r"^last( [1-9][0-9]{0,2})?$"
BYTES = r"^[0-9]{1,9}(Ki|Mi|Gi|Ti)B?$"  # with `B`, or as Kubernetes writes it
NAME = r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
KEY = r"^[a-z][a-z0-9_-]{0,39}$"
IMAGE = (
    r"^[A-Za-z0-9./~][!-~]*$"  # a reference, or a file for engines that take one; never an option
)
FOLDER = r"^(?!.*/\.{1,2}(/|$))/([A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+$"


# Patterns are compiled when they are first needed: compiling takes time, and most are never used.
compiled = functools.cache(re.compile)


def make_error(
    message: str, hint: str | None = None, *, private: bool = False
) -> PydanticCustomError:
    """Return the error of a validator, with its hint separate from its message.

    The rejected value is never shown if *private* is true: it may be a secret that was written instead of its name.
    """
    context = {"what": message, "hint": hint, "private": private}
    return PydanticCustomError("runspec", "{what}", context)


def parse_whole(value: Any) -> Any:
    """Return the whole number in *value* if it is text; return other values unchanged."""
    if isinstance(value, Text):
        if resolve_kind(value) != "int":
            # In quotes, YAML reads digits as text.
            hint = "remove the quotes" if not value.plain and value.isdecimal() else None
            raise make_error(f"'{value}' is not a whole number", hint)
        number = resolve(value)
        if not -LARGEST <= number <= LARGEST:
            raise make_error(
                f"a number of {len(value)} digits is too large", f"the largest is {LARGEST}"
            )
        return number
    return value


def _parse_truth(value: Any) -> Any:
    if isinstance(value, Text):
        if resolve_kind(value) != "bool":
            raise make_error(f"'{value}' is not true or false")
        return resolve(value)
    return value


def _check_gpus(value: Any) -> Any:
    if isinstance(value, Text) and (match := GPU_TYPE.fullmatch(value)):
        hint = f"write gpus: {match[3] or 1} and gpu_type: {match[1]}{match[2]}"
        raise make_error(f"'{value}' is not a whole number", hint)
    return value


def _parse_word(value: Any) -> Any:
    if isinstance(value, Text) and resolve_kind(value) != "str":
        raise make_error(*_explain_not_a_word(value))
    return value


def _explain_not_a_word(value: Text) -> tuple[str, str | None]:
    kind = resolve_kind(value)
    if kind == "null":
        return "no value", None
    reads = "a number" if kind in ("int", "float") else "true or false"
    return f"'{value}' is read as {reads} here", f'put it in quotes: "{value}"'


def _free(value: Any) -> Any:
    if isinstance(value, Text) and resolve_kind(value) == "null":
        raise make_error("no value", 'write "" for an empty value')
    return value


def _check_quotes(value: Any) -> Any:
    # Within other quotes, and after `--` on the command line, they are meant.
    if isinstance(value, Text) and value.plain and has_typographic_quotes(value):
        hint = f'write "{remove_typographic_quotes(value)}"'
        raise make_error("typographic quotes are part of the word", hint)
    return value


def parse_seconds(value: Any) -> Any:
    """Return the seconds in a duration such as "1h30m" or "1:30:00"; return values that are not text unchanged.

    The forms with colons are those of sbatch: https://slurm.schedmd.com/sbatch.html#OPT_time

    >>> parse_seconds("1h30m"), parse_seconds("1:30:00"), parse_seconds("1-12:00")
    (5400, 5400, 129600)
    """
    if not isinstance(value, str):
        return value
    if not compiled(DURATION).fullmatch(value):
        raise make_error(f"'{value}' is not a length of time", _suggest_duration(value))
    if "-" in value or ":" in value:
        days, _, clock = value.rpartition("-")
        parts = [int(part) for part in clock.split(":")]
        hours, minutes, seconds = [*parts, 0, 0][:3]
        return int(days or 0) * 86_400 + hours * 3_600 + minutes * 60 + seconds
    return sum(int(n) * SECONDS[unit] for n, unit in re.findall(r"([0-9]+)([dhms])", value))


def _suggest_duration(value: str) -> str:
    if value.isdecimal():
        return f"write {value}s"
    if match := re.fullmatch(r"([0-9]{1,4}):([0-5]?[0-9])", value):
        return f"write {match[1]}h{match[2]}m, or {match[1]}m{match[2]}s"
    return "write it as 90s, 10m, 2h, 1h30m or 1:30:00"


def parse_saves(value: Any) -> Any:
    """Return the number of saves in "last 3", or 1 for "last"; return values that are not text unchanged.

    >>> parse_saves("last 3")
    3
    """
    if not isinstance(value, str):
        return value
    if not compiled(SAVES).fullmatch(value):
        raise make_error(f"'{value}' is not a number of saves to keep", "write it as last 3")
    return int(value.partition(" ")[2] or "1")


EXIT_CODES = r"^[0-9]{1,3}\.\.[0-9]{1,3}$"
LARGEST_CODE = 255


def parse_exit_codes(value: Any) -> Any:
    """Return the first and the last exit code of 42 or "130..145"; return other values unchanged.

    >>> parse_exit_codes("130..145")
    (130, 145)
    """
    if isinstance(value, str):
        if isinstance(value, Text) and resolve_kind(value) == "int":
            value = resolve(value)
        elif not compiled(EXIT_CODES).fullmatch(value):
            raise make_error(f"'{value}' is not an exit code", "write 42, or 130..145 for a range")
    if isinstance(value, bool) or not isinstance(value, int | str):
        return value
    first, last = (value, value) if isinstance(value, int) else map(int, value.split(".."))
    if not 1 <= first <= last <= LARGEST_CODE:
        said = f"'{value}' has codes that no failure has"
        raise make_error(said, f"write 1 to {LARGEST_CODE}, the smaller one first")
    return first, last


def _write_exit_codes(codes: tuple[int, int]) -> int | str:
    first, last = codes
    return first if first == last else f"{first}..{last}"


def parse_size(value: Any) -> Any:
    """Return the bytes in a size such as "16GiB" or "16Gi"; return values that are not text unchanged.

    >>> parse_size("2KiB"), parse_size("2Ki")
    (2048, 2048)
    """
    if not isinstance(value, str):
        return value
    if not compiled(BYTES).fullmatch(value):
        # `16GB` and `16G` are probably meant as GiB, but guessing could request another machine than the user
        # expects.
        near = re.match(r"^([0-9]+) ?([KMGTkmgt])i?[bB]?$", value)
        hint = f"write {near[1]}{near[2].upper()}iB" if near else "write it as 512MiB or 16GiB"
        raise make_error(f"'{value}' is not a size", hint)
    number, unit = value.removesuffix("B")[:-2], value.removesuffix("B")[-2:]
    return int(number) * UNITS[f"{unit}B"]


def make_match_validator(
    pattern: str, expected: str, hint: str, *, private: bool = False
) -> Callable[[Any], Any]:
    """Return a validator for text that matches *pattern*; its message says that the value is not *expected*.

    The message does not show the value if *private* is true.
    """

    def check(value: Any) -> Any:
        if private and isinstance(value, Text) and resolve_kind(value) != "str":
            raise make_error(f"this is not {expected}", hint, private=True)
        value = _parse_word(value)
        if isinstance(value, str) and not compiled(pattern).fullmatch(value):
            shown = "this" if private else f"'{value}'"
            raise make_error(f"{shown} is not {expected}", hint, private=private)
        return value

    return check


def text_like(pattern: str, what: str, hint: str) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return what `make_match_validator` does, and the JSON Schema of *pattern*, for `Annotated[str, ...]`."""
    schema = WithJsonSchema({"type": "string", "pattern": pattern})
    return BeforeValidator(make_match_validator(pattern, what, hint)), schema


RECORDED = {"recorded": True}  # the context in which the spec of an earlier run is read


def _check_image(value: str, info: ValidationInfo) -> str:
    # A rule that is newer than a run must not make its record unreadable.
    is_new = info.context is None or "recorded" not in info.context
    if is_new and (wrong := find_mistake(value)):
        raise make_error(f"'{value}' is no image that a registry has: {wrong[0]}", wrong[1])
    return value


AS_WRITTEN = {"as written": True}  # the context in which a spec is dumped as the file would have it


PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
MOST_PORTS = 16


def _name_ports(value: Any) -> Any:
    """Return `ports` as a mapping; the name of a port in a list is its number."""
    if isinstance(value, str):
        raise make_error("a list is expected here", f"write ports: [{value}]")
    items = (
        list(value.items()) if isinstance(value, dict) else [(str(one), one) for one in value or ()]
    )
    numbers = [str(number) for _, number in items]
    if twice := next((number for number in numbers if numbers.count(number) > 1), None):
        raise make_error(f"port {twice} is listed twice")
    if len(items) > MOST_PORTS:
        raise make_error(f"{len(items)} ports, and a job has {MOST_PORTS} at most")
    for name, number in items:
        if name != str(number) and not compiled(KEY).fullmatch(name):
            raise make_error(f"'{name}' is not the name of a port", "write {notebook: 8888}")
    return dict(items)


Ports = Annotated[
    Mapping[str, Annotated[int, Field(ge=1, le=65535), BeforeValidator(parse_whole)]],
    BeforeValidator(_name_ports),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "array", "items": PORT, "maxItems": MOST_PORTS, "uniqueItems": True},
                {"type": "object", "additionalProperties": PORT, "maxProperties": MOST_PORTS},
            ]
        }
    ),
]


# What a spec writes in place of a value that the caller's shell has.
FROM_CALLER = {"from": "caller"}
CALLER_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["from"],
    "properties": {"from": {"const": "caller"}},
}
SHELL = "env:"  # the source of a secret that is a variable of the caller's shell


def make_serializer(form: Callable[[Any], str]) -> PlainSerializer:
    """Return the serializer of a value that a file writes differently; it acts in the context AS_WRITTEN only."""

    def serialize(value: Any, info: SerializationInfo) -> Any:
        return form(value) if info.context is AS_WRITTEN and value is not None else value

    return PlainSerializer(serialize, return_type=Any)  # else pydantic compiles the annotation


Whole = Annotated[int, BeforeValidator(parse_whole)]
Natural = Annotated[int, Field(ge=0), BeforeValidator(parse_whole)]
Positive = Annotated[int, Field(ge=1), BeforeValidator(parse_whole)]
Gpus = Annotated[Positive, BeforeValidator(_check_gpus)]
Tries = Annotated[int, Field(ge=1, le=10), BeforeValidator(parse_whole)]
Sha256 = Annotated[
    str,
    *text_like(r"^[0-9a-f]{64}$", "a SHA-256", "write its 64 hexadecimal digits in small letters"),
]
Truth = Annotated[bool, BeforeValidator(_parse_truth)]
Word = Annotated[str, Field(min_length=1), BeforeValidator(_parse_word)]
Free = Annotated[
    str, BeforeValidator(_free), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
Argument = Annotated[Free, BeforeValidator(_check_quotes)]
EnvValue = Annotated[
    Free, WithJsonSchema({"oneOf": [{"type": ["string", "number", "boolean"]}, CALLER_SCHEMA]})
]


def _check_param(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise make_error("a parameter is one value", "write a number, true or false, or text")
    if isinstance(value, str) and (not value.isprintable() or "${" in value):
        raise make_error(
            "a parameter is one line without placeholders", "write the text into the field itself"
        )
    return _free(value)


# It becomes part of other values, and must not change what they mean.
Param = Annotated[
    str,
    Field(max_length=4096),
    BeforeValidator(_check_param),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
Saves = Annotated[
    int,
    Field(ge=1, le=999),
    BeforeValidator(parse_saves),
    make_serializer(lambda count: f"last {count}"),
    WithJsonSchema({"type": "string", "pattern": SAVES, "examples": ["last 3"]}),
]
ExitCodes = Annotated[
    tuple[int, int],
    BeforeValidator(parse_exit_codes),
    make_serializer(_write_exit_codes),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "integer", "minimum": 1, "maximum": LARGEST_CODE},
                {"type": "string", "pattern": EXIT_CODES, "examples": ["130..145"]},
            ]
        }
    ),
]
Seconds = Annotated[
    int,
    BeforeValidator(parse_seconds),
    make_serializer(lambda count: f"{count}s"),
    WithJsonSchema({"type": "string", "pattern": DURATION, "examples": ["90s", "1h30m"]}),
]
Bytes = Annotated[
    int,
    BeforeValidator(parse_size),
    make_serializer(lambda count: f"{count // KIB}KiB"),
    WithJsonSchema({"type": "string", "pattern": BYTES, "examples": ["16GiB"]}),
]
Image = Annotated[
    str,
    AfterValidator(_check_image),
    BeforeValidator(
        make_match_validator(IMAGE, "an image", "write it without spaces, as repository:tag")
    ),
    WithJsonSchema({"type": "string", "pattern": IMAGE}),
]
Name = Annotated[
    str,
    BeforeValidator(
        make_match_validator(
            NAME, "a name", "use a-z, 0-9 and '-', begin with a letter, 40 at most"
        )
    ),
    WithJsonSchema({"type": "string", "pattern": NAME}),
]
Variable = Annotated[
    str,
    BeforeValidator(
        make_match_validator(VARIABLE, "a variable's name", "use letters, digits and '_'")
    ),
    WithJsonSchema({"type": "string", "pattern": VARIABLE}),
]
Key = Annotated[
    str,
    BeforeValidator(make_match_validator(KEY, "a parameter's name", "use a-z, 0-9, '_' and '-'")),
    WithJsonSchema({"type": "string", "pattern": KEY}),
]
SecretName = Annotated[
    str,
    BeforeValidator(
        make_match_validator(
            KEY,
            "a secret's name",
            "write its name here, and where it is stored in the profile under 'secrets'",
            private=True,
        )
    ),
    WithJsonSchema({"type": "string", "pattern": KEY}),
]


def _read_secrets(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Return names of secrets; that of one of the caller's shell is its source, which no profile can name so.

    `caller` alone means the same as `{from: caller}`, as it stands where a name of a source does.
    """
    if not isinstance(value, Mapping):
        return read(value)
    theirs = {name for name, given in value.items() if given in (FROM_CALLER, "caller")}
    for name, given in value.items():
        if isinstance(given, Mapping) and name not in theirs:
            raise make_error(f"'{name}' is not the name of a secret", "write {from: caller}")
        if isinstance(given, str) and is_pasted(given):
            message = f"the value of '{name}' looks like the secret itself"
            hint = f"remove it, and write {name}: caller: it is then read from your shell"
            raise make_error(message, hint, private=True)
    names = read({name: "caller" if name in theirs else v for name, v in value.items()})
    return {name: SHELL + name if name in theirs else v for name, v in names.items()}


def _write_secrets(value: Mapping[str, str]) -> dict[str, Any]:
    return {k: FROM_CALLER if v.startswith(SHELL) else v for k, v in value.items()}


_KEY_SCHEMA = {"type": "string", "pattern": KEY}
Secrets = Annotated[
    Mapping[
        Variable,
        Annotated[SecretName, WithJsonSchema({"oneOf": [_KEY_SCHEMA, CALLER_SCHEMA]})],
    ],
    WrapValidator(_read_secrets),
    PlainSerializer(_write_secrets),
]
Folder = Annotated[
    str,
    BeforeValidator(
        make_match_validator(
            FOLDER, "a folder in the job", "write an absolute path of plain names: /job/data"
        )
    ),
    WithJsonSchema({"type": "string", "pattern": FOLDER}),
]


class Model(BaseModel):
    """The base class of every model: instances are frozen, and an unknown key is an error.

    Modules with models have no `from __future__ import annotations`: pydantic would compile each field's annotation
    at every start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


# The names of images that registries take: https://github.com/distribution/reference (`regexp.go`, `reference.go`).


PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
HOST = rf"(?:{LABEL}(?:\.{LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
ALGORITHM = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*"
DIGEST = rf"{ALGORITHM}:[0-9a-fA-F]{{32,}}"
LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
LONGEST = 255  # characters of a name with its registry
LOWER = "write the name of the image in lower case"
SHAPE = "write it as [REGISTRY/]NAME[:TAG], such as python:3.12-slim"
# What else engines of containers read, each on its own machine:
# https://github.com/containers/image/blob/main/docs/containers-transports.5.md
ON_MACHINE = regex(
    r"(containers-storage|dir|docker-archive|docker-daemon|oci|oci-archive):(?!//)(?=.*[/:]).+"
)
ID = regex(r"(sha256:)?[0-9a-f]{64}")
FILE_ENDS = (".sif", ".simg", ".sqsh", ".tar", ".tar.gz", ".tgz")


def find_mistake(image: str) -> tuple[str, str] | None:
    """Return what is wrong with the name of an image, and a hint; None if registries take it.

    A file, which begins with `/`, `.` or `~`, is not looked at. A scheme such as `docker://` and enroot's notation
    `[USER@]REGISTRY#NAME` are accepted: providers say whether they know these.

    >>> find_mistake("python:3.12"), find_mistake("docker://nvcr.io#nvidia/pytorch:24.05-py3"), find_mistake("./a.sif")
    (None, None, None)
    >>> find_mistake("Python:3.12")[0]
    'a registry takes no capital letters in a name'
    """
    if image.startswith(("/", ".", "~")):
        return None
    if kind := ON_MACHINE.fullmatch(image):
        return f"'{kind[1]}:' is an image on one machine", f"push it to a registry, and {SHAPE}"
    if ID.fullmatch(image):
        return "this is the id of an image on one machine", SHAPE
    if image.endswith(FILE_ENDS) and ":" not in image:
        return (
            "it has the name of a file",
            f"write its absolute path, or for a registry {image}:latest",
        )
    image = re.sub(r"^[a-z][a-z0-9-]*://", "", image)
    if "#" in image:
        image = re.sub(r"^[^@/#]+@", "", image).replace("#", "/", 1)
    name, at, digest = image.partition("@")
    if at and (wrong := _check_digest(digest)):
        return wrong
    first, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not re.fullmatch(TAG, tag):
        message = f"'{tag}' is no tag of an image" if tag else "the tag after ':' is missing"
        return (
            message,
            "a tag has at most 128 letters, digits, '_', '.' and '-', and begins with none of the last two",
        )
    return _check_name(f"{first}{slash}{last}")


def _check_digest(digest: str) -> tuple[str, str] | None:
    algorithm, _, number = digest.partition(":")
    length = LENGTHS.get(algorithm)
    if re.fullmatch(DIGEST, digest) and length in (None, len(number)):
        return None
    return f"'@{digest}' is no digest of an image", "write @sha256: and 64 hexadecimal digits"


def _check_name(name: str) -> tuple[str, str] | None:
    """Return what is wrong with the name of an image without its tag."""
    if len(name) > LONGEST:
        return f"the name has {len(name)} characters", f"a registry takes at most {LONGEST}"
    host, slash, path = name.partition("/")
    if not (slash and (re.search(r"[.:A-Z\[]", host) or host == "localhost")):
        host, path = "", name
    if host and not re.fullmatch(HOST, host):
        return f"'{host}' is no registry", "write HOST or HOST:PORT before the first slash"
    for part in path.split("/"):
        if not re.fullmatch(PART, part):
            return _explain_part(part)
    return None


def _explain_part(part: str) -> tuple[str, str]:
    if not part:
        return "a part of the name is empty", SHAPE
    if re.fullmatch(PART, part.lower()):
        return "a registry takes no capital letters in a name", LOWER
    message = f"'{part}' cannot be in the name of an image"
    return message, "a name has lower-case letters, digits, and single '.', '_' or '-' between them"
