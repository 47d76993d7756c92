"""Finds values in `env` that look like secrets, which belong under `secrets`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.provider import Spec
from runspec_jobs.spec.types import compiled

# Formats that their issuers document, by the prefix that tells them apart, anywhere in a value:
# https://docs.github.com/code-security/secret-scanning/introduction/supported-secret-scanning-patterns
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
# https://learn.microsoft.com/en-us/rest/api/storageservices/create-service-sas
FORMATS = r"""(?x)
    (?<![\w-])(?:
      hf_[A-Za-z0-9]{30,}                      # Hugging Face
    | (?:AKIA|ASIA)[A-Z0-9]{16}\b              # AWS access keys
    | (?:gh[opsur]_|github_pat_)\w{20,}        # GitHub
    | glpat-[\w-]{20,}                         # GitLab
    | sk-(?:[a-z0-9]{2,10}-)*\w{16,}           # OpenAI and others
    | [sr]k_live_\w{16,}                       # Stripe
    | xox[abeoprs]-[\w-]{10,} | xapp-[\w-]{10,}    # Slack
    | AIza[\w-]{35} | ya29\.[\w-]{20,}         # Google
    | npm_[A-Za-z0-9]{36} | pypi-\w{50,} | dop_v1_\w{40,}
    | eyJ[\w-]+\.eyJ[\w-]+\.[\w-]*             # JSON Web Tokens
    )
    | \b(?:AccountKey|SharedAccessKey)=[\w+/=]{20,}     # connection strings of Azure
    | [?&;]sig=[\w%+/=-]{20,}                           # shared access signatures of Azure
    | [?&]X-Amz-(?:Signature|Credential)=[\w%/-]{20,}   # signed URLs of AWS
    | hooks\.slack\.com/services/T\w+/\w+/\w+
    | -----BEGIN\ (?:[A-Z]+\ )*PRIVATE\ KEY(?:\ BLOCK)?-----
    | ^\w[\w+]*://[^/@\s:]*:[^/@\s]+@         # a password in an address
    """
NAMES = (
    r"(?i)(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?"
    r"|(?:API|ACCESS|SECRET|PRIVATE|ACCOUNT|STORAGE|SIGNING|ENCRYPTION)_?KEY)(?:_|$)"
    r"|(?:^|_)(?:PASS|PWD|PAT)$"
)
# Such a name is also used for what names or counts a secret, and for tokens of a language model.
OTHERS = (
    r"(?i)_(?:NAME|ARN|FILE|PATH|DIR|URL|URI|TYPE|COUNT|LIMIT|LENGTH|SIZE|VERSION|REGION|HEADER|ENV)$"
    r"|(?:^|_)(?:BOS|EOS|PAD|UNK|SEP|CLS|MASK|SPECIAL|START|END|STOP|IMAGE|AUDIO)_TOKEN$"
)
# It is also used for a path, a number, a switch or a special token such as <|endoftext|>.
RANDOM = r"(?=.*[0-9])(?=.*[A-Za-z])[^<>${}~./\s][^<>${}\s]{7,}"


def looks_secret(name: str, value: str) -> bool:
    """Return whether the variable *name* with this *value* is probably a secret.

    >>> looks_secret("HF_TOKEN", "hf_" + 34 * "a"), looks_secret("DB_PASSWORD", "tr0ub4dor&3")
    (True, True)
    >>> looks_secret("EOS_TOKEN", "<|endoftext|>"), looks_secret("MAX_TOKENS", "4096")
    (False, False)
    """
    if compiled(FORMATS).search(value):
        return True
    named = compiled(NAMES).search(name) and not compiled(OTHERS).search(name)
    return bool(named and compiled(RANDOM).fullmatch(value))


def find_notes(spec: Spec) -> Iterator[Problem]:
    """Yield a note for each variable in `env` that looks like a secret; the value is in no note."""
    for name, value in spec.env.items():
        if looks_secret(name, value):
            key = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            message = "the value looks like a secret, and plans and records contain env as it is"
            hint = f"write secrets: {{{name}: {key}}}, and say in the profile where {key} is stored"
            yield Problem(("env", name), message, hint, severity="note", private=True)
