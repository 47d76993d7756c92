"""Turns a parsed file into a spec or an options model, and finds every problem in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runspec_jobs.diagnostics import peer_words, short_forms
from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean
from runspec_jobs.document.nodes import Text
from runspec_jobs.document.reader import Document, Value
from runspec_jobs.regex import regex
from runspec_jobs.spec.field_marks import list_models
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import PLACE, resolve_params, unescape_placeholders
from runspec_jobs.spec.rules import NOTHING_TO_RUN, find_broken
from runspec_jobs.spec.types import FROM_CALLER, RECORDED

M = TypeVar("M", bound=BaseModel)
UNKNOWN = "unknown key '"
SHELL = frozenset("|&;<>$`*?~()#")  # what a shell would act on, outside of these quotes
QUOTED = regex(r"'[^']*'|\"[^\"$`]*\"")
SPOT = ("spot", "use_spot", "preemptible", "interruptible")  # words of others for the capacity
REFERRING = ("command", "run", "setup", "smoke", "env")  # may contain placeholders
LISTS = ("mounts", "outputs", "sweep", "providers")  # the fields of their items have no one place
FIRST = {"apiVersion": "write apiVersion: runspec/v1", "provider": "write provider: local"}
WORDS_OF_YAML = frozenset("true false yes no on off null y n".split())
# Words that YAML reads as text, wherever they are in a list; numbers and true are words of a command, too.
PLAIN = regex(r"[A-Za-z./_-][A-Za-z0-9./_=+-]+|[A-Za-z]")
PRIVATE = (
    "key",
    "password",
    "secret",
    "token",
    "sas",
)  # the value of a key whose name contains such a word may be a secret
NO_SECRETS = ("key_pair", "kms_key", "public_key")  # names and places of keys


def parse_spec(document: Document) -> tuple[Spec | None, list[Problem]]:
    """Return the spec in *document*, or None, and all problems in it."""
    value, wrong, params = resolve_params(_without_callers(document.value))
    spec, problems = parse_model(Spec, value)
    if wrong:
        places = {problem.path for problem in wrong}
        return None, [*wrong, *(problem for problem in problems if problem.path not in places)]
    problems = [_name_param(problem, params) for problem in problems]
    if spec is None:
        rest = find_rest(document, problems)
        problems += _find_others(problems, find_broken(rest)) if rest is not None else ()
        # With `comand: [...]`, "nothing to run" says nothing that the hint on the misspelt key does not.
        return None, [p for p in problems if p.what not in _find_explained(problems)]
    # Rules between fields are checked only if every field is valid: they would otherwise repeat the same mistake.
    problems = [_name_param(problem, params) for problem in find_broken(spec)]
    if problems:
        return None, problems
    return _unescape(spec), []


def _without_callers(value: Value) -> Value:
    """Return a parsed spec with an empty value for each variable of `env` that is from the caller and not known yet."""
    env = value.get("env") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(env, dict) or FROM_CALLER not in env.values():
        return value
    known = {k: Text("", plain=False) if v == FROM_CALLER else v for k, v in env.items()}
    return {**value, "env": known}


def find_rest(document: Document, problems: Iterable[Problem]) -> Spec | None:
    """Return what is valid in *document* without what *problems* are about, so that more of it can be checked at once.

    The version and the name are filled in if they are missing. Return None if the rest is no spec.
    """
    value, _, _ = resolve_params(_without_callers(document.value))
    gone = [_find_there(value, problem.path) for problem in problems]
    rest = _drop_keys(value, [path for path in gone if path])
    known = {"apiVersion": "runspec/v1", "name": "job", **rest} if isinstance(rest, dict) else rest
    return parse_model(Spec, known)[0]


def _find_there(value: Any, path: Path) -> Path:
    """Return *path*, or, if it names a key that is missing, what lacks the key."""
    here = value
    for part in path:
        if isinstance(here, Mapping) and part in here:
            here = here[str(part)]
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            return path[:-1]
    return path


def _find_others(problems: Iterable[Problem], more: Iterable[Problem]) -> list[Problem]:
    """Return those of *more* that no value which is gone can have caused: they are about other fields."""
    wrong = {p.path[:1] for p in problems if p.path and not p.what.startswith(UNKNOWN)}
    if wrong & {("mounts",), ("outputs",), ("sweep",), ("params",)}:
        wrong |= {(field,) for field in REFERRING}  # to what is gone
    is_unclear = wrong & {("command",), ("run",), ("container",)}
    return [
        p for p in more if p.path[:1] not in wrong and not (is_unclear and p.what == NOTHING_TO_RUN)
    ]


def parse_recorded(document: Document) -> tuple[Spec | None, list[Problem]]:
    """Return the spec in *document*, with which a run was started, or None and the problems in it.

    Rules that are newer than the run do not count: its record stays readable.
    """
    value, _, _ = resolve_params(document.value)
    spec, problems = parse_model(Spec, value, context=RECORDED)
    return (None if spec is None else _unescape(spec)), problems


def _name_param(problem: Problem, params: Mapping[Path, str]) -> Problem:
    """Return *problem* with the parameter whose value it is about, if there is one."""
    name = params.get(problem.path)
    return problem if name is None else problem._replace(what=f"{problem.what}, from params.{name}")


def _unescape(spec: Spec) -> Spec:
    env = {name: unescape_placeholders(value) for name, value in spec.env.items()}
    return spec if env == spec.env else spec.model_copy(update={"env": env})


def _find_explained(problems: Iterable[Problem]) -> set[str]:
    """Return the problems that are gone once unknown keys are spelt as their hints say."""
    meant = re.findall(
        r"did you mean '(\w+)'",
        " ".join(p.hint or "" for p in problems if p.what.startswith(UNKNOWN) and len(p.path) == 1),
    )
    explained = {f"'{name}' is missing" for name in meant}
    return explained | ({NOTHING_TO_RUN} if {*meant} & {"command", "run"} else set())


def _drop_keys(value: Any, paths: Iterable[Path]) -> Any:
    """Return *value* without the keys and items at *paths*, so that the rest can be checked."""
    gone = set(paths)

    def keep(value: Any, at: Path) -> Any:
        if isinstance(value, Mapping):
            return {k: keep(v, (*at, k)) for k, v in value.items() if (*at, k) not in gone}
        if isinstance(value, list):
            return [keep(item, (*at, n)) for n, item in enumerate(value) if (*at, n) not in gone]
        return value

    return keep(value, ())


def parse_model(
    kind: type[M],
    value: Value | Mapping[str, Any],
    at: Path = (),
    *,
    context: Mapping[str, Any] | None = None,
) -> tuple[M | None, list[Problem]]:
    """Return *value*, which is at the path *at*, as an instance of *kind*, or None, and all problems in it."""
    if not isinstance(value, Mapping):
        return None, [Problem(at, "a mapping is expected here", "write key: value lines")]
    try:
        return kind.model_validate(value, context=context), []
    except ValidationError as exc:
        # A default that depends on an invalid field is no mistake of its own.
        raw_errors = exc.errors(include_url=False)
        errors = [error for error in raw_errors if error["type"] != "default_factory_not_called"]
    return None, sorted(
        (_translate_error(kind, value, at, e) for e in errors), key=lambda p: str(p.path)
    )


def _translate_error(kind: type[BaseModel], value: Any, at: Path, error: ErrorDetails) -> Problem:
    """Translate one error of pydantic; an error of a type without a case here keeps pydantic's message."""
    path, is_key = locate_error(value, error["loc"])
    context = error.get("ctx", {})
    match error["type"]:
        case "missing":
            name = error["loc"][-1]
            hint = _explain_missing(str(name), path) if kind is Spec else None
            return Problem((*at, *path, name), f"'{name}' is missing", hint, at="key")
        case "extra_forbidden":
            return _explain_unknown(kind, (*at, *path), path)
        case "literal_error" | "enum":
            return _explain_choice((*at, *path), error["input"], context["expected"])
        case "runspec":
            message, hint = context["what"], context["hint"]
        case "greater_than_equal":
            message, hint = f"must be at least {context['ge']:g} (got {error['input']})", None
        case "less_than_equal":
            message, hint = f"must be at most {context['le']:g} (got {error['input']})", None
        case "string_type":
            message, hint = "a single value is expected here", None
        case "int_type":
            message, hint = "a whole number is expected here", None
        case "tuple_type" | "list_type":
            message, hint = "a list is expected here", _suggest_list(error["input"], (*at, *path))
        case "model_type" | "dict_type" | "mapping_type" | "model_attributes_type":
            message = "a mapping is expected here"
            hint = short_forms.suggest_mapping(_name_field((*at, *path)), error["input"])
        case "too_short" | "string_too_short":
            message, hint = "must not be empty", None
        case _:
            message, hint = error["msg"][:1].lower() + error["msg"][1:], None
    private = bool(context.get("private"))
    return Problem((*at, *path), message, hint, at="key" if is_key else "value", private=private)


def _suggest_list(given: Any, path: Path) -> str:
    """Return the hint to write *given* as a list: a command is split as a shell would do it, or belongs to `run`.

    >>> _suggest_list('python x.py --name "a b"', ("command",))
    "write [python, x.py, --name, 'a b']"
    >>> _suggest_list("make && ./a.out > log", ("command",))
    'write run: make && ./a.out > log'
    """
    if items := short_forms.suggest_items(_name_field(path), given):
        return items
    if not isinstance(given, str) or not given.strip() or not given.isprintable():
        return "write [one, two]"
    given = short_forms.remove_typographic_quotes(given)
    if path != ("command",):
        return f"write {_format_flow([given])}"
    # Placeholders are no work for a shell, and quoted characters are none either.
    if SHELL & set(QUOTED.sub("", PLACE.sub("", given))):
        return f"write run: {given}"
    try:
        return f"write {_format_flow(shlex.split(given))}"
    except ValueError:  # quotes that are never closed
        return "write [one, two]"


def _name_field(path: Path) -> str:
    """Return the field of the spec that *path* is in, if it is that field or an item of its list."""
    return str(path[0]) if path and all(isinstance(part, int) for part in path[1:]) else ""


def _format_flow(words: list[str]) -> str:
    """Return *words* as a list in YAML, on one line."""
    return f"[{', '.join(map(_format_scalar, words))}]"


def _format_scalar(word: str) -> str:
    is_text = PLAIN.fullmatch(word) and word.lower() not in WORDS_OF_YAML
    return word if is_text else "'" + word.replace("'", "''") + "'"


def _explain_unknown(kind: type[BaseModel], full: Path, path: Path) -> Problem:
    name = str(path[-1])
    hint = _suggest_field(kind, path)
    if len(path) == 1 and peer_words.is_place(name):
        hint = getattr(kind, "places", None) or hint
    if hint is None and kind is Spec and path[:1] != ("providers",):
        hint = peer_words.suggest(name, path[0] if path[1:] else None)
    hint = hint or did_you_mean(name, _list_known_keys(kind, path[:-1]))
    return Problem(full, f"{UNKNOWN}{name}'", hint, at="key", private=is_private(name))


def is_private(name: str) -> bool:
    """Return whether the setting *name* may hold a secret, also by mistake instead of the place of a secret.

    >>> is_private("batch_key"), is_private("api-token"), is_private("key_pair")
    (True, True, False)
    """
    plain = name.lower()
    return plain not in NO_SECRETS and any(word in plain for word in PRIVATE)


def _explain_missing(name: str, path: Path) -> str | None:
    """Return the hint for a missing field of a spec, or of an entry of its mounts and outputs."""
    if not path:
        return FIRST.get(name)
    return short_forms.WHOLE.get(str(path[0])) if len(path) == 2 else None


def _suggest_field(kind: type[BaseModel], path: Path) -> str | None:
    """Return a hint if the last part of *path* is another word for a field, or a field that belongs elsewhere."""
    name, here = str(path[-1]), path[:-1]
    if kind is Spec and name in SPOT:
        return "write capacity: spot" if here == ("cluster",) else "write cluster: {capacity: spot}"
    for above, field in Spec.model_fields.items() if kind is Spec else ():
        inner = [model for model in list_models(field.annotation) if above not in LISTS]
        if here != (above,) and any(name in _list_names(model) for model in inner):
            return f"did you mean '{above}.{name}'?"
    return None


def _list_names(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _explain_choice(path: Path, given: Any, expected: str) -> Problem:
    words = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    shown = f"'{given}'" if isinstance(given, str) else "this"
    listed = " or ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} or {words[-1]}"
    meant = peer_words.GOALS.get(str(given).lower())
    hint = f"write {meant}" if meant in words else did_you_mean(str(given), words)
    return Problem(path, f"{shown} is not {listed}", hint)


def locate_error(value: Any, loc: Iterable[str | int]) -> tuple[Path, bool]:
    """Return the path in *value* to which pydantic's *loc* refers, and whether it refers to a key.

    A loc also contains tags of unions and "[key]", which are not in the file.
    """
    path: list[str | int] = []
    parts = list(loc)
    is_key = bool(parts) and parts[-1] == "[key]"
    for part in parts[:-1] if is_key else parts:
        # A part that the file does not have is a tag of a union.
        if _has_part(value, part):
            value = value[part]
            path.append(part)
    return tuple(path), is_key


def _has_part(value: Any, part: str | int) -> bool:
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)


def _list_known_keys(kind: type[BaseModel], path: Path) -> list[str]:
    """Return the keys that the model at *path* inside *kind* accepts."""
    for part in path:
        if part not in kind.model_fields:  # the number of an item, or a name that the user chose
            continue
        kind = next(iter(list_models(kind.model_fields[str(part)].annotation)), kind)
    return [field.alias or name for name, field in kind.model_fields.items()]
