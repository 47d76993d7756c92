"""The schemas of the Kubernetes emulator are made from the OpenAPI of an API server."""

from __future__ import annotations

import json
from pathlib import Path

import kubernetes_schemas
import pytest

from runspec_emulators.kubernetes.api import schema

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@pytest.mark.parametrize(
    ("given", "form"),
    [
        (
            {"type": "integer", "format": "int32", "description": "x"},
            {"type": "integer", "format": "int32"},
        ),
        (
            {"allOf": [{"$ref": f"#/components/schemas/{QUANTITY}"}], "default": {}},
            {"type": "quantity"},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"map": {"type": "string"}},
        ),
        ({"type": "object"}, {"type": "object"}),
        ({}, {"type": "any"}),
    ],
)
def test_a_field_keeps_its_form_and_no_description(given: object, form: object) -> None:
    assert isinstance(given, dict)
    assert kubernetes_schemas.field(given, []) == form


def test_a_list_keeps_the_key_by_which_patches_merge_it() -> None:
    waiting: list[str] = []
    given = {
        "type": "array",
        "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.EnvVar"},
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
    }

    assert kubernetes_schemas.field(given, waiting) == {"items": {"ref": "EnvVar"}, "key": "name"}
    assert waiting == ["EnvVar"]


def test_only_types_of_resources_of_the_emulator_are_kept(tmp_path: Path) -> None:
    roots = {f"x.v1.{name}": {"type": "object"} for name in kubernetes_schemas.ROOTS}
    job = {
        "properties": {"spec": {"$ref": "#/components/schemas/x.v1.JobSpec"}},
        "required": ["spec"],
    }
    schemas = {**roots, "x.v1.Job": job, "x.v1.JobSpec": {}, "x.v1.Other": {}}
    document = {"info": {"version": "v1.36.2"}, "components": {"schemas": schemas}}
    (tmp_path / "api_v1.openapi.json").write_text(json.dumps(document))

    made = kubernetes_schemas.main(tmp_path)

    assert made["kinds"]["Job"] == {"fields": {"spec": {"ref": "JobSpec"}}, "required": ["spec"]}
    assert "JobSpec" in made["kinds"]
    assert "Other" not in made["kinds"]
    assert "v1.36.2" in made["source"]


def test_every_reference_of_the_shipped_schemas_is_there() -> None:
    text = schema.FILE.read_text()
    named = {part.split('"')[0] for part in text.split('"ref":"')[1:]}

    assert named <= schema.kinds().keys()
    assert "1.36" in json.loads(text)["source"]
