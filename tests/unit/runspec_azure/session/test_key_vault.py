"""The client of a key vault deletes for good, and says what is wrong with a reply without the value of a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.core.pipeline.policies import BearerTokenCredentialPolicy

from runspec_azure.session.key_vault import KeyVault
from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError
from tests.support.azure.plain_tokens import send_over_http
from tests.support.azure.resource_manager import Login
from tests.support.azure.specs import options
from tests.support.http_server import ReceivedRequest, Reply, Server

pytestmark = pytest.mark.process

VALUE = "s3cret"
DEEP = b"[" * 100_000
TAGS = b'{"value": [{"id": "a", "tags": [1]}]}'
LEVEL = {"attributes": {"recoveryLevel": "Recoverable+Purgeable"}}


class Clock:
    """A clock that nobody waits for."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, wanted_s: float) -> None:
        self.now += wanted_s


class Answers(Server):
    """A vault that gives the replies that a test names, in order, by method and kind; the last one for ever."""

    def __init__(self, **replies: list[tuple[int, Any]]) -> None:
        super().__init__(self.reply)
        self.replies = replies

    def reply(self, asked: ReceivedRequest) -> Reply:
        kind = "deleted" if asked.path.startswith("/deletedsecrets") else "secrets"
        left = self.replies[f"{asked.method.lower()}_{kind}"]
        status, value = left.pop(0) if len(left) > 1 else left[0]
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return Reply(status, {"Content-Type": "application/json"}, body)

    def vault(self) -> KeyVault:
        told = options().model_copy(update={"vault": self.url})
        return KeyVault(told, Login(), Clock())  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BearerTokenCredentialPolicy, "on_request", send_over_http)


def methods(server: Server) -> list[str]:
    return [f"{asked.method} {asked.path.split('/')[1]}" for asked in server.asked]


def refuse(status: int) -> tuple[int, Any]:
    return status, {"error": {"code": "Conflict" if status == 409 else "Other", "message": "no"}}


def test_a_secret_is_purged_when_its_deletion_is_over() -> None:
    with Answers(
        delete_secrets=[(200, LEVEL)],
        get_deleted=[refuse(404), (200, LEVEL)],
        delete_deleted=[refuse(409), (204, b"")],
    ) as server:
        server.vault().delete("a")

        purged = ["DELETE deletedsecrets"] * 2
        assert methods(server) == ["DELETE secrets", *["GET deletedsecrets"] * 2, *purged]


@pytest.mark.parametrize("status", [404, 409])
def test_a_deletion_that_was_sent_before_is_carried_on(status: int) -> None:
    with Answers(
        delete_secrets=[refuse(status)],
        get_deleted=[(200, LEVEL)],
        delete_deleted=[(204, b"")],
    ) as server:
        server.vault().delete("a")

        assert methods(server)[-1] == "DELETE deletedsecrets"


@pytest.mark.parametrize("status", [404, 403])
def test_a_secret_that_is_gone_needs_no_purge(status: int) -> None:
    """A vault with purge protection may refuse the purge of a secret that it never had, too."""
    gone = refuse(404)
    with Answers(
        delete_secrets=[gone], get_deleted=[gone], delete_deleted=[refuse(status)]
    ) as server:
        server.vault().delete("a")

        found = ["DELETE secrets", "GET deletedsecrets", "DELETE deletedsecrets"]
        assert methods(server) == found


def test_a_deletion_that_goes_on_and_was_sent_before_ends_with_a_purge() -> None:
    """The secret can be neither deleted nor seen meanwhile: only a refusal to purge it says that it is there."""
    gone, leaving = refuse(404), refuse(409)
    with Answers(
        delete_secrets=[gone],
        get_deleted=[gone, gone, (200, LEVEL)],
        delete_deleted=[leaving, (204, b"")],
    ) as server:
        server.vault().delete("a")

        assert methods(server)[-2:] == ["GET deletedsecrets", "DELETE deletedsecrets"]


def test_a_deletion_that_was_sent_before_is_over_in_a_vault_with_purge_protection() -> None:
    level = {"attributes": {"recoveryLevel": "CustomizedRecoverable"}}
    with Answers(
        delete_secrets=[refuse(404)], get_deleted=[(200, level)], delete_deleted=[refuse(403)]
    ) as server:
        server.vault().delete("a")

        assert methods(server) == ["DELETE secrets", "GET deletedsecrets"]


def test_a_login_that_may_not_purge_is_said() -> None:
    with (
        Answers(
            delete_secrets=[refuse(404)], get_deleted=[(200, LEVEL)], delete_deleted=[refuse(403)]
        ) as server,
        pytest.raises(CredentialsError),
    ):
        server.vault().delete("a")


def test_a_vault_with_purge_protection_is_not_asked_to_purge() -> None:
    level = {"attributes": {"recoveryLevel": "Recoverable"}}
    with Answers(delete_secrets=[(200, level)]) as server:
        server.vault().delete("a")

        assert methods(server) == ["DELETE secrets"]


@pytest.mark.parametrize(
    "reply", [b"", b"{", b"[]", b"null", b'{"attributes": null}', b'{"attributes": {"a": 1}}', DEEP]
)
def test_a_reply_to_a_deletion_that_lacks_something_is_none(reply: bytes) -> None:
    with Answers(delete_secrets=[(200, reply)]) as server, pytest.raises(NoAnswer, match="cut off"):
        server.vault().delete("a")


@pytest.mark.parametrize(
    "reply", [b"", b"{", b"[]", b"{}", b'{"value": [{}]}', b'{"value": 1}', TAGS, DEEP]
)
def test_a_list_that_lacks_something_is_none(reply: bytes) -> None:
    with Answers(get_secrets=[(200, reply)]) as server, pytest.raises(NoAnswer, match="cut off"):
        list(server.vault().list())


def test_a_deletion_that_does_not_end_is_said() -> None:
    with (
        Answers(delete_secrets=[(200, LEVEL)], get_deleted=[refuse(404)]) as server,
        pytest.raises(NoAnswer, match="is not deleted after"),
    ):
        server.vault().delete("a")


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, CredentialsError), (403, CredentialsError), (400, RemoteError), (500, NoAnswer)],
)
def test_a_refusal_has_no_value_of_a_secret(status: int, error: type[Exception]) -> None:
    with Answers(put_secrets=[refuse(status)]) as server, pytest.raises(error) as caught:
        server.vault().set("a", {"value": VALUE})

    assert VALUE not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_the_answer_with_the_value_is_not_read() -> None:
    with Answers(put_secrets=[(200, b'{"value": "s3')]) as server:
        server.vault().set("a", {"value": VALUE})


def test_pages_are_asked_for_as_the_vault_says_and_deleted_secrets_that_can_be_purged_are_listed() -> (
    None
):
    def row(name: str, kind: str = "secrets", level: str = "Recoverable+Purgeable") -> Any:
        found = {"id": f"https://v/secrets/{name}", "attributes": {"recoveryLevel": level}}
        return found | ({"recoveryId": f"https://v/{kind}/{name}"} if kind != "secrets" else {})

    link = "https://v/secrets?api-version=7.4&$skiptoken=a%2Bb%3D&maxresults=1"
    deleted = [row("c", "deletedsecrets"), row("d", "deletedsecrets", "CustomizedRecoverable")]
    with Answers(
        get_secrets=[
            (200, {"value": [row("a")], "nextLink": link}),
            (200, {"value": [row("b", level="Recoverable")], "nextLink": None}),
        ],
        get_deleted=[(200, {"value": deleted})],
    ) as server:
        found = [name for name, _ in server.vault().list()]

        assert found == ["a", "b", "c"]
        assert server.asked[1].target.endswith(f"/secrets?{link.partition('?')[2]}")


def test_a_list_that_the_vault_is_too_busy_for_is_asked_for_again() -> None:
    empty: tuple[int, Any] = (200, {"value": []})
    with Answers(get_secrets=[refuse(503), refuse(429), empty], get_deleted=[empty]) as server:
        assert list(server.vault().list()) == []

        assert len(server.asked) == 4


def test_a_redirect_has_stored_nothing() -> None:
    with Answers(put_secrets=[(302, b"")]) as server, pytest.raises(RemoteError):
        server.vault().set("a", {"value": VALUE})


@pytest.mark.parametrize(("count", "has_hint"), [(1, False), (20_000, True)])
def test_a_value_that_is_too_long_for_the_vault_has_a_hint(count: int, has_hint: bool) -> None:
    with Answers(put_secrets=[refuse(400)]) as server, pytest.raises(RemoteError) as caught:
        server.vault().set("a", {"value": "ü" * count})

    assert (caught.value.hint == "a key vault keeps at most 25 KB of a value") == has_hint


def test_a_value_that_is_not_text_is_not_sent() -> None:
    value = b"s3cret \xff".decode(errors="surrogateescape")
    with (
        Answers(put_secrets=[(200, LEVEL)]) as server,
        pytest.raises(RemoteError, match="not UTF-8") as caught,
    ):
        server.vault().set("a", {"value": value})

    assert server.asked == []
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@pytest.mark.parametrize(("status", "words"), [(401, "az login --tenant"), (403, "firewall")])
def test_a_refusal_says_what_a_vault_may_lack(status: int, words: str) -> None:
    with Answers(get_secrets=[refuse(status)]) as server, pytest.raises(CredentialsError) as caught:
        list(server.vault().list())

    assert words in (caught.value.hint or "")
