"""Makes a JSON Schema of each format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from runspec_jobs.cli.json_formats import accounts, reports, runs, specs
from runspec_jobs.cli.json_formats.base import Document

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MODELS: tuple[type[Document], ...] = tuple(
    one
    for module in (specs, runs, reports, accounts)
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, Document) and one.__module__ == module.__name__
)


class _Generator(GenerateJsonSchema):
    """Leaves out titles and defaults: an absent field has no value."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each format, by its name, such as "runspec.status/v1"."""
    return {name(model): _schema(model) for model in MODELS}


def text(schema: Mapping[str, Any]) -> str:
    """Return a schema as it is printed, and written to `schemas/`, without a line end."""
    return json.dumps(schema, indent=2)


def name(model: type[Document]) -> str:
    """Return the format of the documents that *model* describes."""
    (form,) = get_args(model.model_fields["format"].annotation)
    return str(form)


def file_name(form: str) -> str:
    """Return the name of the file in `schemas/` that has the schema of a format.

    >>> file_name("runspec.saved-logs/v1")
    'saved-logs.v1.schema.json'
    """
    return f"{form.removeprefix('runspec.').replace('/', '.')}.schema.json"


def _schema(model: type[Document]) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_Generator)
    return {"$schema": DRAFT, **schema, "title": name(model)}
