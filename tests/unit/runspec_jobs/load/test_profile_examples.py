"""The example values of a first profile stop `plan` and `doctor` until the user has replaced them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.cli.app import run

Capture = pytest.CaptureFixture[str]
EXAMPLES = {
    "aws-batch": [
        "bucket",
        "job_role",
        "execution_role",
        "instance_role",
        "subnets[0]",
        "security_groups[0]",
    ],
    "parallelcluster": ["key_pair", "subnets[0]"],
    "azure-batch-ai": ["subscription", "storage_account", "ssh_public_key"],
    "azure-batch": ["batch_url", "storage_account"],
    "slurm": ["host"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("provider", EXAMPLES)
def test_plan_refuses_each_example_value_at_its_line(provider: str, capsys: Capture) -> None:
    assert run(["init", "--provider", provider]) == 0
    capsys.readouterr()

    assert run(["plan", "job.yaml"]) == 2

    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if "is only an example" in line]
    assert len(lines) == len(EXAMPLES[provider])
    for name in EXAMPLES[provider]:
        assert any(f"providers.{provider}.{name}: " in line for line in lines)
        assert f"hint: write your own {name.removesuffix('[0]')}" in said


@pytest.mark.parametrize("provider", EXAMPLES)
def test_doctor_refuses_example_values_before_any_request(provider: str, capsys: Capture) -> None:
    assert run(["init", "--provider", provider]) == 0

    assert run(["doctor", provider]) == 69

    assert "is only an example" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["gc", "adopt"])
@pytest.mark.parametrize("provider", EXAMPLES)
def test_verbs_without_a_spec_refuse_example_values_before_any_request(
    provider: str, verb: str, capsys: Capture
) -> None:
    assert run(["init", "--provider", provider]) == 0
    capsys.readouterr()

    assert run([verb, provider]) == 2

    said = capsys.readouterr().err
    assert len([one for one in said.splitlines() if "is only an example" in one]) == len(
        EXAMPLES[provider]
    )
    assert "runspec-profile.yaml:" in said


def test_a_profile_with_own_values_plans(capsys: Capture) -> None:
    assert run(["init", "--provider", "aws-batch"]) == 0
    profile = Path("runspec-profile.yaml")
    text = profile.read_text()
    for example, own in (
        ("my-bucket", "my-bucket-2"),
        ("123456789012", "210987654321"),
        ("-00000000000000000", "-0123456789abcdef0"),
    ):
        text = text.replace(example, own)
    profile.write_text(text)
    assert run(["trust", "runspec-profile.yaml"]) == 0

    assert run(["plan", "job.yaml"]) == 0

    assert "is only an example" not in capsys.readouterr().err


def test_a_profile_with_settings_of_another_provider_is_no_matter(capsys: Capture) -> None:
    assert run(["init", "--provider", "aws-batch"]) == 0

    assert run(["plan", "job.yaml", "--provider", "local"]) == 0
