"""A key vault on this machine keeps a deleted secret until it is purged, once its deletion is over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.azure_services.vault import Vault
from tests.support import certificates

pytestmark = pytest.mark.process

NONE = {"value": None}


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with Identity() as identity:
        writers = [identity.tokens.person]
        with Vault({}, identity.tokens, [], certificates.made(tmp_path), writers=writers) as opened:
            yield opened


def ask(vault: Vault, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    token, _ = vault.tokens.give(vault.audience)
    headers = {"authorization": f"Bearer {token}"}
    target = f"{path}{'&' if '?' in path else '?'}api-version=7.4"
    reply = vault.reply(method, target, headers, json.dumps(body).encode())
    return reply.status, json.loads(reply.body) if reply.body else None


def test_a_deleted_secret_is_purged_when_its_deletion_is_over(vault: Vault) -> None:
    assert ask(vault, "PUT", "/secrets/a", {"value": "x", "tags": {"k": "v"}})[0] == 200
    assert ask(vault, "GET", "/secrets/A")[1]["value"] == "x"

    status, shown = ask(vault, "DELETE", "/secrets/a")

    assert (status, shown["attributes"]["recoveryLevel"]) == (200, "Recoverable+Purgeable")
    assert ask(vault, "GET", "/secrets/a")[0] == 404
    assert ask(vault, "GET", "/deletedsecrets")[1]["value"] == []
    assert ask(vault, "GET", "/deletedsecrets/a")[0] == 404
    assert ask(vault, "GET", "/deletedsecrets/a")[0] == 200
    (row,) = ask(vault, "GET", "/deletedsecrets")[1]["value"]
    assert (row["tags"], row["recoveryId"]) == ({"k": "v"}, f"{vault.url}/deletedsecrets/a")
    assert ask(vault, "PUT", "/secrets/a", {"value": "y"})[0] == 409
    assert ask(vault, "DELETE", "/deletedsecrets/a") == (204, None)
    assert ask(vault, "PUT", "/secrets/a", {"value": "y"})[0] == 200


def test_a_purge_is_refused_too_early_and_with_purge_protection(vault: Vault) -> None:
    ask(vault, "PUT", "/secrets/a", {"value": "x"})
    ask(vault, "DELETE", "/secrets/a")

    assert ask(vault, "DELETE", "/deletedsecrets/a")[0] == 409
    vault.purge_protection = True
    assert ask(vault, "DELETE", "/deletedsecrets/a")[0] == 403


def test_secrets_are_listed_in_pages_without_values(vault: Vault) -> None:
    for number in range(30):
        ask(vault, "PUT", f"/secrets/s{number}", {"value": "x"})

    first = ask(vault, "GET", "/secrets")[1]
    path = first["nextLink"].removeprefix(vault.url).replace("api-version=7.4&", "")
    second = ask(vault, "GET", path)[1]

    assert (len(first["value"]), len(second["value"]), second["nextLink"]) == (25, 5, None)
    assert "x" not in [row.get("value") for row in first["value"]]


@pytest.mark.parametrize("body", [{}, NONE, {"value": "x" * 30_000}, {"value": "ü" * 13_000}])
def test_a_value_is_a_text_of_at_most_25_kib(vault: Vault, body: dict[str, Any]) -> None:
    assert ask(vault, "PUT", "/secrets/a", body)[0] == 400
