"""Secrets Manager refuses a value without a character, so it gets none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runspec_aws.client import AwsClient
from runspec_jobs.provider import CredentialsError, Request


def test_an_empty_secret_is_refused_by_its_variable_and_not_sent() -> None:
    client = cast(Any, SimpleNamespace(files=SimpleNamespace(with_urls=lambda params: params)))
    value = {"SecretId": "runspec/job-a1/TOKEN", "SecretString": ""}

    with pytest.raises(CredentialsError, match=r"^the secret for TOKEN is empty"):
        AwsClient.send(client, Request("secretsmanager", "put_secret_value", value))
