"""Refusals of the API server say what to mend."""

from __future__ import annotations

import json

import pytest

from runspec_jobs.provider import CredentialsError, RunspecError
from runspec_kubernetes.errors import LOGIN, RIGHTS, Answer, Refused, translated


def refusal(user: str) -> RunspecError:
    message = f'jobs.batch is forbidden: User "{user}" cannot list resource "jobs"'
    body = json.dumps({"kind": "Status", "reason": "Forbidden", "message": message})
    with pytest.raises(RunspecError) as caught, translated("list jobs"):
        raise Answer(403, {}, body.encode())
    return caught.value


def test_a_login_that_failed_is_not_taken_for_one_without_rights() -> None:
    nobody, somebody = refusal("system:anonymous"), refusal("jane")

    assert isinstance(nobody, CredentialsError)
    assert nobody.hint == LOGIN
    assert isinstance(somebody, Refused)
    assert somebody.hint == RIGHTS
