"""The client of a setup on AWS: whose account it works in, and what it says of a bucket that is not to be had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_aws.setup import client
from runspec_aws.setup.client import connect
from runspec_aws.setup.options import AwsSetup
from runspec_jobs.provider import CredentialsError

SURVEY = {"region": "eu-central-1", "account": "111122223333", "partition": "aws", "quotas": {}}


class Account:
    """A session of which every service answers the same: by operation, an answer or the error to raise."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = {"get_caller_identity": {"Account": "111122223333"}, **answers}

    def look(self, service: str) -> Account:
        return self

    def __getattr__(self, operation: str) -> Any:
        def answer(**params: Any) -> Any:
            found = self.answers[operation]
            if isinstance(found, Exception):
                raise found
            return found

        return answer


def log_in(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    monkeypatch.setattr(client, "open_session", lambda *_: Account(answers))


def refusal(operation: str, code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, operation)


def test_a_setup_is_not_undone_with_the_login_of_another_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log_in(monkeypatch, get_caller_identity={"Account": "999988887777"})

    with pytest.raises(CredentialsError, match="999988887777, and the setup is in 111122223333"):
        connect(AwsSetup(), SURVEY, "aws-batch-abc123")
