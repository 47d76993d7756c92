"""Profiles: found in order, typed by the provider, and their mistakes told at their place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.diagnostics.problem import format_path
from runspec_jobs.document import reader
from runspec_jobs.load import inputs, profile, registry, source
from runspec_jobs.load.source import InvalidSpec
from runspec_jobs.provider import paths
from runspec_jobs.spec import validate
from tests.support.requirements import need_root

SPEC = "apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: [a]\n"


def wrong(folder: Path, spec: str, profile: str) -> list[str]:
    (folder / paths.PROFILE).write_text(profile)
    with pytest.raises(InvalidSpec) as caught:
        inputs.gather(
            source.read("job.yaml", spec.encode()), folder, lambda title: lambda d, w: None
        )
    return [
        f"{Path(c.file).name}:{c.line}:{c.column}: {c.path}"
        for t in caught.value.texts
        for c in t.diagnostics
    ]


def test_a_profile_of_another_user_above_a_spec_does_not_count(tmp_path: Path) -> None:
    """Such as one in /tmp, where everybody may put a file."""
    need_root()
    folder = tmp_path / "mine"
    folder.mkdir()
    (tmp_path / ".git").mkdir()
    path = tmp_path / paths.PROFILE
    path.write_text("prices: {local: 1}\n")
    os.chown(path, 23456, -1)
    text = source.read("job.yaml", SPEC.encode())

    found = inputs.gather(text, folder, lambda title: lambda d, w: None)

    assert (paths.find_profile(folder), found.profile, found.prices) == (None, None, {})
    (note,) = [one for one in text.diagnostics if one.severity == "note"]
    assert note.what == f"{path} is not used, because it belongs to another user (uid 23456)"
    assert note.hint == f"if it is meant, set RUNSPEC_PROFILE={path}"


@pytest.mark.parametrize("owner", ["of the folder", "root", "a link of another user"])
def test_a_profile_counts_by_its_owner(owner: str, tmp_path: Path) -> None:
    """A container often runs as root in a checkout of somebody else, whose job file it runs."""
    need_root()
    folder = tmp_path / "checkout"
    (folder / ".git").mkdir(parents=True)
    path = folder / paths.PROFILE
    if owner == "a link of another user":
        (tmp_path / "mine").write_text("")
        path.symlink_to(tmp_path / "mine")
        os.chown(path, 23456, -1, follow_symlinks=False)
    else:
        path.write_text("")
    if owner == "of the folder":
        os.chown(folder, 23456, -1)
        os.chown(path, 23456, -1)

    found = paths.find_profile(folder)

    assert found == (None if "link" in owner else (path, False))


def test_the_variable_comes_first_then_the_project_then_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / "deep" / "down").mkdir(parents=True)
    (project / ".git").mkdir()
    user = Path(os.environ["XDG_CONFIG_HOME"]) / "runspec" / "profile.yaml"
    user.parent.mkdir(parents=True)
    found = []

    found.append(paths.find_profile(project / "deep" / "down"))
    user.write_text("")
    found.append(paths.find_profile(project / "deep" / "down"))
    (tmp_path / paths.PROFILE).write_text("")  # above the checkout: not of this project
    (project / paths.PROFILE).write_text("")
    found.append(paths.find_profile(project / "deep" / "down"))
    monkeypatch.setenv("RUNSPEC_PROFILE", "/named.yaml")
    found.append(paths.find_profile(project / "deep" / "down"))

    assert found == [
        None,
        (user, True),
        (project / paths.PROFILE, False),
        (Path("/named.yaml"), True),
    ]


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
    (tmp_path / paths.PROFILE).write_text("providers: {local: {grace: 5s, engine: process}}\n")
    spec = SPEC + "providers: {local: {grace: 7s}}\n"

    found = inputs.gather(
        source.read("j", spec.encode()), tmp_path, lambda title: lambda d, w: None
    )

    assert (found.facts.options.grace, found.facts.options.engine) == (7, "process")


def test_a_profile_that_is_no_profile_is_told(tmp_path: Path) -> None:
    assert wrong(tmp_path, SPEC, "provider: {local: {}}\n") == [
        "runspec-profile.yaml:1:1: provider"
    ]


# Pools

POOLED = SPEC.replace("provider: local", "provider: slurm") + "cluster: {capacity: 'pool:night'}\n"
POOLS = """\
providers:
  slurm:
    partition: main
    account: digits
    pools:
      night: {partition: gpu, sbatch: [--reservation=night]}
      day: {partition: small}
"""


def found(spec: str, text: str) -> tuple[Any, list[str], list[str]]:
    """Give the settings for *spec* with the profile *text*, and what is wrong with either."""
    read, problems = validate.parse_spec(reader.read(spec))
    assert read is not None, problems
    settings, problems = profile.read(reader.read(text).value)
    assert settings is not None, problems
    kind = registry.load(read.provider).options_model
    options, in_spec, in_profile = profile.merge_options(kind, read.provider, read, settings)
    first, second = (
        [f"{format_path(p.path)}: {p.what}" for p in wrong] for wrong in (in_spec, in_profile)
    )
    return options, first, second


def test_a_job_of_a_pool_has_the_settings_of_the_pool_over_those_of_the_profile() -> None:
    options, *wrong = found(POOLED, POOLS)

    assert wrong == [[], []]
    assert (options.partition, options.account, options.sbatch) == (
        "gpu",
        "digits",
        ("--reservation=night",),
    )


def test_a_job_of_no_pool_has_nothing_of_them() -> None:
    options, *_ = found(POOLED.replace("pool:night", "on-demand"), POOLS)

    assert (options.partition, options.sbatch, dict(options.pools)) == ("main", (), {})


def test_the_spec_wins_over_its_pool() -> None:
    options, *_ = found(POOLED + "providers: {slurm: {partition: mine}}\n", POOLS)

    assert (options.partition, options.sbatch) == ("mine", ("--reservation=night",))


def test_a_pool_that_the_profile_does_not_know_is_told_in_the_spec(tmp_path: Path) -> None:
    spec = POOLED.replace("pool:night", "pool:nigth")

    _, in_spec, in_profile = found(spec, POOLS)

    assert in_spec == ["cluster.capacity: the profile has no pool 'nigth' for slurm"]
    assert in_profile == []
    assert wrong(tmp_path, spec, POOLS) == ["job.yaml:5:21: cluster.capacity"]


def test_a_pool_is_looked_for_where_there_is_a_profile_and_validate_has_none() -> None:
    _, problems = source.validate_text(source.read("job.yaml", POOLED.encode()))

    assert [p for p in problems if p.severity == "error"] == []


@pytest.mark.parametrize(
    "pool,wanted", [(None, {"a": 1}), ("night", {"a": 2, "b": 3}), ("day", {"a": 1})]
)
def test_settings_drawn_from_a_pool_have_no_pools(pool: str | None, wanted: dict[str, int]) -> None:
    assert profile.select_pool({"a": 1, "pools": {"night": {"a": 2, "b": 3}}}, pool) == wanted


@pytest.mark.parametrize("name", ["night", "day"])
def test_every_mistake_in_a_pool_is_told_where_it_is_once(name: str) -> None:
    """Also of a pool that the job does not draw from."""
    text = POOLS.replace(
        f"{name}: {{partition", f"{name}: {{partitoin: a, gpu_request: b, partition"
    )

    _, in_spec, in_profile = found(POOLED, text)

    at = f"providers.slurm.pools.{name}"
    assert in_spec == []
    assert [told.partition(":")[0] for told in in_profile] == [
        f"{at}.gpu_request",
        f"{at}.partitoin",
    ]


@pytest.mark.parametrize(
    "pools,where",
    [
        ("[night]", "providers.slurm.pools"),
        ("{night: gpu}", "providers.slurm.pools.night"),
        ("{Night: {}}", "providers.slurm.pools.Night"),
        ("{night: {pools: {}}}", "providers.slurm.pools.night.pools"),
    ],
)
def test_a_wrong_pool_in_the_profile_is_reported(pools: str, where: str) -> None:
    _, _, in_profile = found(POOLED, f"providers: {{slurm: {{pools: {pools}}}}}\n")

    assert [told.partition(":")[0] for told in in_profile] == [where]


def test_this_machine_needs_no_pools() -> None:
    """A job moves here and back by one field."""
    options, in_spec, in_profile = found(POOLED.replace("slurm", "local"), "providers: {}\n")

    assert (in_spec, in_profile) == ([], [])
    assert options is not None
