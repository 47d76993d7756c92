"""What `gc` says can be deleted, and by which options."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_jobs.api import profiles
from runspec_jobs.cli import cleanup
from runspec_jobs.cli.app import run
from runspec_jobs.errors import UsageError
from runspec_jobs.options.run_verbs import GcOptions
from runspec_jobs.provider import Options, Orphan


class Service:
    """Its client and its provider at once."""

    name = "fake"

    def __init__(self, *orphans: Orphan) -> None:
        self.orphans = orphans

    def connect(self, facts: Any) -> Service:
        return self

    def find_orphans(self, runs: Any, made: Any) -> tuple[Orphan, ...]:
        return self.orphans


@pytest.mark.parametrize("alive", [False, True])
def test_the_hint_names_the_option_that_what_is_alive_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], alive: bool
) -> None:
    orphan = Orphan("a job", (), "job-abc234", alive=alive)
    monkeypatch.setattr(profiles, "load_configured", lambda name: (Service(orphan), Options()))

    assert cleanup.gc(GcOptions(provider="fake")) == 0

    hint = capsys.readouterr().err
    assert "1 orphan; to delete: runspec gc fake --yes" in hint
    assert ("--alive" in hint) is alive


def test_programs_get_each_orphan_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    orphan = Orphan("a job", (), "job-abc234", alive=True)
    monkeypatch.setattr(profiles, "load_configured", lambda name: (Service(orphan), Options()))

    assert run(["gc", "fake", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)["orphans"]
    assert found == [{"what": "a job", "run": "job-abc234", "alive": True, "removed": False}]


@pytest.mark.parametrize(
    ("provider", "lacks"),
    [
        ("aws-batch", "has no `region` and no `bucket`"),
        ("azure-batch", "has no `batch_url` and no `storage_account` and no `container`"),
    ],
)
def test_without_a_profile_the_missing_settings_and_how_to_write_them_are_told(
    provider: str, lacks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["gc", provider]) == UsageError.exit_code

    told = capsys.readouterr().err
    assert f"the profile for this folder {lacks}" in told
    assert f"runspec init --provider {provider}" in told
