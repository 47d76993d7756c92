"""Settings that the profile lacks are one message: which file is read, and what to write into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.errors import Unavailable, UsageError
from runspec_jobs.load import registry
from runspec_jobs.provider import SupportsProfileTemplate

Capture = pytest.CaptureFixture[str]
CLOUDS = {
    "aws-batch": "`region`, `bucket`, `subnets`, `security_groups`, `instance_role` and `job_role`",
    "azure-batch": "`batch_url`, `storage_account` and `container`",
    "azure-batch-ai": "`subscription`, `location`, `file_share` and `ssh_public_key`",
    "parallelcluster": "`region`, `subnets` and `key_pair`",
}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "job.yaml"


def write(job: Path, provider: str) -> None:
    job.write_text(f"apiVersion: runspec/v1\nname: toy\nprovider: {provider}\ncommand: [a]\n")


def template(provider: str) -> str:
    found = registry.load(provider)
    assert isinstance(found, SupportsProfileTemplate)
    return found.first_profile()


@pytest.mark.parametrize("provider", CLOUDS)
def test_a_profile_that_is_missing_is_one_error_with_the_text_to_write(
    provider: str, job: Path, capsys: Capture
) -> None:
    write(job, provider)

    assert run(["plan", "job.yaml"]) == UsageError.exit_code

    told = capsys.readouterr().err
    assert told.count("provider: the") - told.count("the configuration was") == 1
    assert f"there is no profile, and {provider} needs {CLOUDS[provider]}\n" in told
    assert f"`runspec init --provider {provider}`" in told and "to runspec-profile.yaml" in told
    shown = [line.strip() for line in told.splitlines()]
    assert [
        line.strip() for line in template(provider).splitlines() if line.strip() not in shown
    ] == []


@pytest.mark.parametrize("provider", CLOUDS)
def test_a_profile_of_another_provider_is_named(provider: str, job: Path, capsys: Capture) -> None:
    write(job, provider)
    Path("runspec-profile.yaml").write_text("providers: {local: {engine: process}}\n")

    assert run(["plan", "job.yaml"]) == UsageError.exit_code

    told = capsys.readouterr().err
    assert f"runspec-profile.yaml has no settings of {provider}, which needs " in told
    assert (
        told.count("provider: the") - told.count("the configuration was") == 1
        and f"    {provider}:\n" in told
    )


def test_missing_settings_are_one_error_with_the_lines_to_add(job: Path, capsys: Capture) -> None:
    write(job, "azure-batch")
    Path("runspec-profile.yaml").write_text(
        "providers: {azure-batch: {max_nodes: 4, pool: mine}}\n"
    )

    assert run(["plan", "job.yaml"]) == UsageError.exit_code

    told = capsys.readouterr().err
    assert "runspec-profile.yaml has no `batch_url`, `storage_account` and `container`\n" in told
    assert "\n        azure-batch:\n          batch_url: https://ACCOUNT.REGION" in told


def test_a_single_missing_setting_is_told_with_the_file(job: Path, capsys: Capture) -> None:
    write(job, "azure-batch")
    settings = "{batch_url: 'https://a.westeurope.batch.azure.com', container: jobs}"
    Path("runspec-profile.yaml").write_text(f"providers: {{azure-batch: {settings}}}\n")

    assert run(["trust"]) == 0

    assert run(["plan", "job.yaml"]) == UsageError.exit_code

    told = capsys.readouterr().err
    assert "the profile has no `storage_account` (it is " in told
    assert f"{job.parent}/runspec-profile.yaml)" in told


@pytest.mark.parametrize("provider", CLOUDS)
def test_init_adds_a_profile_to_a_spec_that_is_there(
    provider: str, job: Path, capsys: Capture
) -> None:
    write(job, provider)
    before = job.read_bytes()

    assert run(["init", "--provider", provider]) == 0

    assert job.read_bytes() == before
    assert Path("runspec-profile.yaml").read_text() == template(provider)
    assert "job.yaml was there before, and is unchanged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("aws", "aws-batch"),
        ("azure", "azure-batch"),
        ("slrum", "slurm"),
        ("locals", "local"),
        ("aws-bach", "aws-batch"),
        ("paralelcluster", "parallelcluster"),
    ],
)
def test_a_provider_within_two_letters_of_another_is_an_error(
    typed: str, meant: str, job: Path, capsys: Capture
) -> None:
    write(job, typed)

    assert run(["validate", "job.yaml"]) == Unavailable.exit_code

    assert f"did you mean '{meant}'?" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["nomad", "sky", "gcp-batch", "lsf"])
def test_a_provider_of_a_package_that_is_not_here_is_a_note(
    typed: str, job: Path, capsys: Capture
) -> None:
    write(job, typed)

    assert run(["validate", "job.yaml"]) == 0

    assert f"note: provider: the provider '{typed}' is not installed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["", "# nothing yet\n", "---\n", "providers:\n", "providers:\n  aws-batch:\n    # region: x\n"],
)
def test_a_profile_that_says_nothing_has_no_settings(text: str, job: Path, capsys: Capture) -> None:
    write(job, "aws-batch")
    Path("runspec-profile.yaml").write_text(text)

    assert run(["plan", "job.yaml"]) == UsageError.exit_code

    told = capsys.readouterr().err
    what = f"runspec-profile.yaml has no settings of aws-batch, which needs {CLOUDS['aws-batch']}\n"
    assert what in told and "; or add these settings to " in told
    assert "hint: `runspec setup aws-batch` makes what the account lacks" in told
    write(job, "local")
    assert run(["plan", "job.yaml"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "job.yaml"],
        ["plan", "job.yaml"],
        ["apply", "job.yaml"],
        ["policy", "job.yaml"],
        ["rehearse", "job.yaml"],
        ["plan", "right.yaml", "--provider", "locl"],
        ["apply", "right.yaml", "--provider", "locl"],
        ["rehearse", "right.yaml", "--provider", "locl"],
        ["init", "--provider", "locl", "new.yaml"],
        ["list", "--provider", "locl"],
        ["doctor", "locl"],
        ["gc", "locl"],
    ],
)
def test_an_unknown_provider_has_one_exit_code_in_every_command(
    words: list[str], job: Path, capsys: Capture
) -> None:
    write(job, "locl")
    write(job.with_name("right.yaml"), "slurm")

    assert run(words) == Unavailable.exit_code == 69

    told = capsys.readouterr().err
    assert "the provider 'locl' is not installed" in told and "did you mean 'local'?" in told


def test_other_mistakes_beside_an_unknown_provider_make_the_spec_wrong(job: Path) -> None:
    job.write_text("apiVersion: runspec/v1\nname: toy\nprovider: locl\ncomand: [a]\n")

    assert run(["validate", "job.yaml"]) == UsageError.exit_code
