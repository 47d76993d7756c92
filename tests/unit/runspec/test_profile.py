"""Profiles: found in order, typed by the provider, and their mistakes told at their place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runspec import gather, home, job
from runspec.job import Wrong

SPEC = "apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: [a]\n"


def wrong(folder: Path, spec: str, profile: str) -> list[str]:
    (folder / home.PROFILE).write_text(profile)
    with pytest.raises(Wrong) as caught:
        gather.gather(job.read("job.yaml", spec.encode()), folder, lambda title: lambda d, w: None)
    return [
        f"{Path(c.file).name}:{c.line}:{c.column}: {c.path}"
        for t in caught.value.texts
        for c in t.complaints
    ]


def test_the_variable_comes_first_then_the_project_then_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / "deep" / "down").mkdir(parents=True)
    (project / ".git").mkdir()
    user = Path(os.environ["XDG_CONFIG_HOME"]) / "runspec" / "profile.yaml"
    user.parent.mkdir(parents=True)
    found = []

    found.append(home.profile_path(project / "deep" / "down"))
    user.write_text("")
    found.append(home.profile_path(project / "deep" / "down"))
    (tmp_path / home.PROFILE).write_text("")  # above the checkout: not of this project
    (project / home.PROFILE).write_text("")
    found.append(home.profile_path(project / "deep" / "down"))
    monkeypatch.setenv("RUNSPEC_PROFILE", "/named.yaml")
    found.append(home.profile_path(project / "deep" / "down"))

    assert found == [None, user, project / home.PROFILE, Path("/named.yaml")]


def test_mistakes_are_told_where_they_are(tmp_path: Path) -> None:
    profile = "providers:\n  local:\n    engin: process\n    grace: 5\n"

    assert wrong(tmp_path, SPEC, profile) == [
        "runspec-profile.yaml:3:5: providers.local.engin",
        "runspec-profile.yaml:4:12: providers.local.grace",
    ]


def test_a_mistake_in_the_spec_is_told_in_the_spec(tmp_path: Path) -> None:
    spec = SPEC + "providers:\n  local: {engine: lxc}\n"

    assert wrong(tmp_path, spec, "providers: {local: {grace: 5s}}\n") == [
        "job.yaml:6:19: providers.local.engine"
    ]


def test_the_spec_overrides_single_settings(tmp_path: Path) -> None:
    (tmp_path / home.PROFILE).write_text("providers: {local: {grace: 5s, engine: process}}\n")
    spec = SPEC + "providers: {local: {grace: 7s}}\n"

    found = gather.gather(job.read("j", spec.encode()), tmp_path, lambda title: lambda d, w: None)

    assert (found.facts.options.grace, found.facts.options.engine) == (7, "process")


def test_a_profile_that_is_no_profile_is_told(tmp_path: Path) -> None:
    assert wrong(tmp_path, SPEC, "provider: {local: {}}\n") == [
        "runspec-profile.yaml:1:1: provider"
    ]
