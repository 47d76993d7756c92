"""The keys of accounts: read where the profile says, and shown nowhere."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from azure.core.exceptions import ClientAuthenticationError

from runspec_azure.session.clients import Session, secret
from runspec_azure.signed import Signer
from runspec_azure.store import Blobs
from runspec_jobs.provider import CredentialsError
from tests.support.azure.specs import options

KEY = "c2VjcmV0IGtleQ=="


def test_a_key_is_read_without_the_line_end_that_files_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", KEY)
    (tmp_path / "key").write_text(KEY + "\n")

    assert secret("env:KEY") == secret(f"file:{tmp_path}/key") == KEY
    assert secret(None) is None


@pytest.mark.parametrize(
    "value", ["", " ", "p4ssw0rd!", "c2Vjcm", "DefaultEndpointsProtocol=https"]
)
def test_a_malformed_key_is_refused_without_a_request_and_not_shown(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", value)

    with pytest.raises(
        CredentialsError, match="content of env:KEY is not the key of an account"
    ) as told:
        secret("env:KEY")

    assert not value.strip() or value not in f"{told.value} {told.value.hint}"


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("env:NOT_SET", "export NOT_SET"),
        ("file:/not/there", "write the account's key into /not/there"),
    ],
)
def test_a_key_that_is_not_there_is_named_with_what_to_do(source: str, hint: str) -> None:
    """It is no matter of a login."""
    with pytest.raises(CredentialsError, match=f"cannot find the key {source}") as told:
        secret(source)

    assert told.value.hint == hint


def test_a_key_in_the_place_of_its_source_is_not_shown() -> None:
    with pytest.raises(CredentialsError, match="read a key from 'pass:'") as told:
        secret("pass:p4ssw0rd")

    assert "p4ssw0rd" not in f"{told.value} {told.value.hint}"


class Nobody:
    """A login that nobody has; *asked* counts who wants it."""

    asked = 0

    def get_token(self, *scopes: str, **more: object) -> object:
        self.asked += 1
        raise ClientAuthenticationError("nobody is logged in")


def test_a_login_that_is_not_there_is_asked_for_once_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    session, nobody = Session(options()), Nobody()
    session.__dict__["login"] = nobody

    with pytest.raises(CredentialsError, match="nobody is logged in"):
        Signer(Blobs(session)).delegation()

    assert (nobody.asked, slept) == (1, [])
