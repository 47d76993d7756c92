"""Uploads that no record knows are found in the container of the profile, if it has one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runspec_batchai import orphans
from runspec_batchai.orphans import OrphanFinder
from runspec_jobs.provider import Orphan
from tests.support.azure import batch_ai_specs


def find(monkeypatch: pytest.MonkeyPatch, made: set[str], **profile: Any) -> list[Orphan]:
    """Return the orphans of a workspace with nothing in it, whose container has two uploads."""
    monkeypatch.setattr(orphans, "jobs", lambda arm, path: [])
    options = batch_ai_specs.facts(batch_ai_specs.spec(), **profile).options
    arm: Any = SimpleNamespace(
        options=options, look=lambda kind, path: None, clusters=lambda path: []
    )
    store: Any = SimpleNamespace(
        named=bool(options.container),
        blobs=SimpleNamespace(folders=lambda base: []),
        sizes=lambda base: {f"{letter * 12}": 1234 for letter in "ab"},
    )
    return list(OrphanFinder(arm, store).find_orphans(set(), made))


def test_an_upload_is_an_orphan_unless_a_record_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (orphan,) = find(monkeypatch, {"runspec/files/aaaaaaaaaaaa/"})

    assert orphan.what == "upload runspec/files/bbbbbbbbbbbb/ (1,234 bytes)"
    (request,) = orphan.remove
    assert request.operation == "empty_prefix"
    assert request.params["path"]["prefix"] == "runspec/files/bbbbbbbbbbbb/"


def test_without_a_container_there_are_no_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find(monkeypatch, set(), container=None) == []
