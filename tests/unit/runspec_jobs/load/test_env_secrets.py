"""Values in env that look like secrets get a note, which does not contain them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.load import source

Capture = pytest.CaptureFixture[str]
HEAD = "apiVersion: runspec/v1\nname: a\nprovider: local\ncommand: [a]\n"


def checked(name: str, value: str) -> source.SourceFile:
    text = source.read("job.yaml", f"{HEAD}env: {{{name}: '{value}'}}\n".encode())
    text.add_problems(source.validate_text(text)[1])
    return text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "hf_" + 34 * "a"),
        ("ANYTHING", "AKIA" + 16 * "Q"),
        ("AWS_SECRET_ACCESS_KEY", "abc/" + 36 * "1"),
        ("GH", "ghp_" + 36 * "a"),
        ("DB_PASSWORD", "tr0ub4dor&3"),
        ("DATABASE_URL", "postgres://me:s3cret@db/x"),
        ("WANDB_API_KEY", 40 * "a1"),
        ("PEM", "-----BEGIN RSA PRIVATE KEY-----"),
        ("KEY", "-----BEGIN PGP PRIVATE KEY BLOCK-----"),
        ("KEY", "-----BEGIN PRIVATE KEY-----"),
        ("OPENAI", "sk-proj-" + 40 * "aB1"),
        ("SLACK", "xoxb-123456789012-abcdef"),
        ("BLOBS", "https://a.blob.core.windows.net/c?sv=1&sig=" + 20 * "a%2B"),
        ("STORE", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + 43 * "a" + "="),
        ("OPTIONS", "--token ghp_" + 36 * "a"),
        ("HOOK", "https://hooks.slack.com/services/T0/B0/" + 24 * "x"),
        ("PGPASSWORD", "tr0ub4dor&3"),
        ("DB_PASS", "tr0ub4dor&3"),
        ("GCP_CREDENTIALS", 12 * "x1"),
        ("SSH_PASSPHRASE", "correct-h0rse"),
        ("STRIPEAPIKEY", 12 * "x1"),
    ],
)
def test_a_value_that_looks_like_a_secret_gets_a_note_without_it(name: str, value: str) -> None:
    (found,) = checked(name, value).diagnostics

    assert (found.severity, found.path) == ("note", f"env.{name}")
    assert f"write secrets: {{{name}: " in str(found.hint)
    assert value not in f"{found.what}{found.hint}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EOS_TOKEN", "<|endoftext|>"),
        ("MAX_TOKENS", "4096"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("TOKEN_FILE", "/run/secrets/token1"),
        ("CACHE_KEY", "train-2026-01"),
        ("MASTER_ADDR", "tcp://10.0.0.1:23456"),
        ("PASSWORD", "changeme"),
        ("MODEL", "sk-learn-experiment-baseline-v2"),
        ("SECRET_NAME", "prod-db-2026"),
        ("AWS_SECRET_ARN", "arn:aws:secretsmanager:eu-central-1:123456789012:secret:a1"),
        ("MASK_TOKEN", "extra_id_00"),
        ("TOKENIZER", "bert-base-2020"),
        ("TOKENS", "train-00001"),
        ("BYPASS", "rule-2026-a"),
        ("SIGNED", "https://example.com/?sig=none"),
        ("DISK", "disk-12345678901234567890"),
        ("REGEX", "-----BEGIN CERTIFICATE-----"),
        ("COMMIT", 20 * "a1"),
    ],
)
def test_other_values_get_no_note(name: str, value: str) -> None:
    assert checked(name, value).diagnostics == []


@pytest.mark.parametrize("verb", ["validate", "plan"])
def test_the_line_of_such_a_value_is_not_shown(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(f"{HEAD}env:\n  HF_TOKEN: hf_{34 * 'a'}\n")

    assert run([verb, "job.yaml"]) == 0

    told = capsys.readouterr().err
    assert "job.yaml:6:13: note: env.HF_TOKEN" in told and "hf_aaa" not in told
