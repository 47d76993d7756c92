"""The environment of the command: Python prints when the program does."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs.spec.model import Spec

HEAD: dict[str, Any] = {
    "apiVersion": "runspec/v1",
    "name": "job",
    "provider": "local",
    "run": "true",
}


@pytest.mark.parametrize(
    ("fields", "env"),
    [
        ({}, {"PYTHONUNBUFFERED": "1"}),
        ({"env": {"A": "b"}}, {"PYTHONUNBUFFERED": "1", "A": "b"}),
        ({"env": {"PYTHONUNBUFFERED": ""}}, {"PYTHONUNBUFFERED": ""}),
        ({"secrets": {"PYTHONUNBUFFERED": "word"}}, {}),
    ],
)
def test_pythons_output_is_unbuffered_unless_the_spec_says_otherwise(
    fields: dict[str, Any], env: dict[str, str]
) -> None:
    assert Spec.model_validate(HEAD | fields).program_env == env
