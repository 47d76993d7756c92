"""Finds values in `env` that look like secrets, which belong under `secrets`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.provider import Spec

# Formats that their issuers document, by the prefix that tells them apart:
# https://docs.github.com/code-security/secret-scanning/introduction/supported-secret-scanning-patterns
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
FORMATS = re.compile(
    r"""(?x)
    hf_[A-Za-z0-9]{30,}                        # Hugging Face
    | (?:AKIA|ASIA)[A-Z0-9]{16}                # AWS access keys
    | (?:gh[opsur]_|github_pat_)\w{20,}        # GitHub
    | glpat-[\w-]{20,}                         # GitLab
    | sk-[\w-]{20,}                            # OpenAI and others
    | xox[abprs]-[\w-]{10,}                    # Slack
    | AIza[\w-]{35}                            # Google
    | eyJ[\w-]+\.eyJ[\w-]+\.[\w-]*             # JSON Web Tokens
    | .*\bAccountKey=[\w+/=]{20,}.*            # connection strings of Azure
    | .*-----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*
    | \w+://[^/@\s:]*:[^/@\s]+@.*              # a password in an address
    """,
    re.DOTALL,
)
NAMES = re.compile(
    r"(?i)(?:^|_)(?:PASSWORD|PASSWD|SECRET|TOKEN|CREDENTIALS?|APIKEY"
    r"|(?:API|ACCESS|SECRET|PRIVATE|ACCOUNT|STORAGE)_KEY)(?:_|$)"
)
# Such a name is also used for a path, a number, a switch or a special token such as <|endoftext|>.
RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^<>${}~./\s][^<>${}\s]{7,}")


def looks_secret(name: str, value: str) -> bool:
    """Return whether the variable *name* with this *value* is probably a secret.

    >>> looks_secret("HF_TOKEN", "hf_" + 34 * "a"), looks_secret("DB_PASSWORD", "tr0ub4dor&3")
    (True, True)
    >>> looks_secret("EOS_TOKEN", "<|endoftext|>"), looks_secret("MAX_TOKENS", "4096")
    (False, False)
    """
    return bool(FORMATS.fullmatch(value) or (NAMES.search(name) and RANDOM.fullmatch(value)))


def notes(spec: Spec) -> Iterator[Problem]:
    """Yield a note for each variable in `env` that looks like a secret; the value is in no note."""
    for name, value in spec.env.items():
        if looks_secret(name, value):
            key = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            what = "the value looks like a secret, and plans and records contain env as it is"
            hint = f"write secrets: {{{name}: {key}}}, and say in the profile where {key} is stored"
            yield Problem(("env", name), what, hint, severity="note", private=True)
