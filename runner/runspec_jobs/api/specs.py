"""Reads and checks specs: paths, texts, mappings or models, without a profile and without any request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from runspec_jobs.diagnostics.render import Diagnostic as Diagnostic
from runspec_jobs.document.nodes import format_flow
from runspec_jobs.document.reader import TEXT_BYTES as TEXT_BYTES
from runspec_jobs.errors import UsageError
from runspec_jobs.load import chain_file, source
from runspec_jobs.load.chain_file import is_chain as is_chain
from runspec_jobs.load.overrides import (
    Overrides,
    Params,
    apply_overrides,
    demand_jobs,
    override_job,
    write_params,
)
from runspec_jobs.load.source import InvalidSpec as InvalidSpec, SourceFile as SourceFile
from runspec_jobs.provider import Spec as Spec
from runspec_jobs.spec.types import AS_WRITTEN, parse_seconds as parse_seconds

Source = str | Path | bytes | Mapping[str, Any] | Spec


def read_spec(spec: Source, name: str | None = None) -> SourceFile:
    """Return the text of a spec, parsed, with its syntax errors. Raises UsageError if the file cannot be read.

    *spec* is the path of a file, its content as bytes, a mapping as YAML would give it, in which paths, ranges and
    numbers and arrays of numpy are taken as well, or a `Spec`; diagnostics have
    the name of the file, or *name*. Raises UsageError also if the mapping has a value that YAML does not have.
    """
    if isinstance(spec, bytes):
        return source.read(name or "<spec>", spec)
    if isinstance(spec, Mapping | Spec):
        value = spec if isinstance(spec, Mapping) else _make_mapping(spec)
        return source.read(name or "<spec>", _read_text(value))
    if isinstance(spec, str) and "\n" in spec:
        message = "a str is the path of a file with a spec, and this one has several lines"
        raise UsageError(message, "pass the text of a spec as bytes: text.encode()")
    return source.read_file(Path(spec), name)


def check(spec: Source, name: str | None = None, params: Params = ()) -> SourceFile:
    """Return the text of a spec with its diagnostics, as `validate` finds them; its lines are what these point to.

    *params* are values of its parameters, as for `api.jobs.load`.
    """
    text = apply_overrides(read_spec(spec, name), Overrides(params=write_params(params)))
    parsed, problems = source.validate_text(text)
    if text.document is not None:
        text.add_problems(problems)
    if parsed is not None:
        chain_file.complain_of_one(text, parsed)
    return text


def check_file(path: Path, params: Params = ()) -> list[SourceFile]:
    """Return the jobs of the file or folder at *path* with their diagnostics, as `check` does for one job."""
    if not is_chain(path):
        return [check(path, params=params)]
    overrides = Overrides(params=write_params(params))
    file = chain_file.read_chain(path)
    file = file._replace(texts=tuple(override_job(text, overrides) for text in file.texts))
    specs = []
    for text in file.texts:
        spec, problems = source.validate_text(text)
        if text.document is not None:
            text.add_problems(problems)
        specs.append(spec)
    known = [spec for spec in specs if spec is not None]
    if len(known) == len(specs):
        demand_jobs(overrides, {spec.name: spec for spec in known})
        chain_file.complain_of_chain(file, known)
    return list(file.texts)


def validate(spec: Source, *, params: Params = ()) -> list[Diagnostic]:
    """Return the problems of a spec, without a profile and without any request; an empty list if it is valid.

    *params* are values of its parameters, as for `api.jobs.load`.
    Raises UsageError if the file cannot be read.
    """
    return check(spec, params=params).diagnostics


def _read_text(spec: Mapping[str, Any]) -> bytes:
    try:
        return "".join(f"{line}\n" for line in _write_lines(_make_plain(spec, ""), "")).encode()
    except RecursionError:
        raise UsageError("the spec is nested too deeply, or contains itself") from None
    except ValueError:  # Python writes no integer of more than 4300 digits
        raise UsageError("a number of the spec has too many digits") from None


def _write_lines(value: object, indent: str) -> Iterator[str]:
    """Yield *value* as YAML with a line for each field: a problem shows its line, and should show no secret beside."""
    if not isinstance(value, dict) or not value:
        yield f"{indent}{format_flow(value)}"
        return
    for key, item in value.items():
        name = f"{indent}{format_flow(key)}:"
        if isinstance(item, dict) and item:
            yield name
            yield from _write_lines(item, f"{indent}  ")
        else:
            yield f"{name} {format_flow(item)}"


def _make_plain(value: object, path: str) -> object:
    """Return *value* with dictionaries and lists for mappings and sequences. Raises UsageError for what YAML lacks."""
    if isinstance(value, Mapping):
        inner = f"{path}." if path else ""
        return {
            _make_scalar(key, path): _make_plain(item, f"{inner}{key}")
            for key, item in value.items()
        }
    if isinstance(value, PurePath):
        return str(value)
    if callable(convert := getattr(value, "tolist", None)):  # arrays and scalars of numpy
        value = convert()
    if isinstance(value, list | tuple | range):
        return [_make_plain(item, f"{path}.{index}") for index, item in enumerate(value)]
    return _make_scalar(value, path)


def _make_scalar(value: object, path: str) -> object:
    if value is None or isinstance(value, str | int | float):
        return value
    message = f"a spec cannot have a value of the type '{type(value).__name__}'"
    hint = "convert it to a str, an int, a float or a list"
    raise UsageError(f"{path}: {message}" if path else message, hint)


def _make_mapping(spec: Spec) -> Mapping[str, Any]:
    return spec.model_dump(
        by_alias=True, exclude_defaults=True, context=AS_WRITTEN, warnings="none"
    )
