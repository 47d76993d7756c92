"""Recognizes values that look like secrets, by their form and by the names of their variables."""

from __future__ import annotations

from runspec_jobs.regex import regex

# Formats that their issuers document, by the prefix that tells them apart, anywhere in a value:
# https://docs.github.com/code-security/secret-scanning/introduction/supported-secret-scanning-patterns
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
# https://learn.microsoft.com/en-us/rest/api/storageservices/create-service-sas
FORMATS = regex(r"""(?x)
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
    """)
NAMES = regex(
    r"(?i)(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?"
    r"|(?:API|ACCESS|SECRET|PRIVATE|ACCOUNT|STORAGE|SIGNING|ENCRYPTION)_?KEY)(?:_|$)"
    r"|(?:^|_)(?:PASS|PWD|PAT)$"
)
# Such a name is also used for what names or counts a secret, and for tokens of a language model.
OTHERS = regex(
    r"(?i)_(?:NAME|ARN|FILE|PATH|DIR|URL|URI|TYPE|COUNT|LIMIT|LENGTH|SIZE|VERSION|REGION|HEADER|ENV)$"
    r"|(?:^|_)(?:BOS|EOS|PAD|UNK|SEP|CLS|MASK|SPECIAL|START|END|STOP|IMAGE|AUDIO)_TOKEN$"
)
# In texts: whole private keys, and passwords in addresses.
LONG = regex(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-----END[^-]*-----)?"
    r"|(?<=://)[^/@\s:$]*:[^/@\s$]+(?=@)"
)
# It is also used for a path, a number, a switch or a special token such as <|endoftext|>.
RANDOM = regex(r"(?=.*[0-9])(?=.*[A-Za-z])[^<>${}~./\s][^<>${}\s]{7,}")

# A name in a profile has a word or a dash; a key of an API, such as that of Weights & Biases, has neither.
KEY_ALONE = regex(r"(?=(?:[a-z]*[0-9]){3})[a-z0-9]{20,}")
SHORTEST = 6  # of a secret: a shorter value is a switch or a placeholder


def looks_secret(name: str, value: str) -> bool:
    """Return whether the variable *name* with this *value* is probably a secret.

    >>> looks_secret("HF_TOKEN", "hf_" + 34 * "a"), looks_secret("DB_PASSWORD", "tr0ub4dor&3")
    (True, True)
    >>> looks_secret("EOS_TOKEN", "<|endoftext|>"), looks_secret("MAX_TOKENS", "4096")
    (False, False)
    """
    if len(value) <= SHORTEST:  # a switch or a number; the expressions take 2 ms to compile
        return False
    if FORMATS.search(value):
        return True
    named = NAMES.search(name) and not OTHERS.search(name)
    return bool(named and RANDOM.fullmatch(value))


def is_pasted(name: str) -> bool:
    """Return whether *name*, where the name of a secret is expected, is probably the secret.

    >>> is_pasted("hf_" + 34 * "a"), is_pasted("c0ffee" * 6), is_pasted("wandb-team-2026-prod")
    (True, True, False)
    """
    return bool(FORMATS.search(name) or KEY_ALONE.fullmatch(name))


def is_named_secret(name: str, value: str) -> bool:
    """Return whether an import leaves *value* out: by `looks_secret`, or by the name alone, however plain it is.

    >>> is_named_secret("DB_PASSWORD", "hunter-two"), is_named_secret("DB_PASSWORD", "$PASSWORD")
    (True, False)
    """
    is_plain = len(value) >= SHORTEST and not any(char in value for char in "$<{")
    named = NAMES.search(name) and not OTHERS.search(name) and is_plain
    return bool(named) or looks_secret(name, value)


def redact(text: str) -> str:
    """Return *text* with REMOVED in place of everything that has the form of a secret.

    >>> redact("login --token hf_" + 34 * "a")
    'login --token REMOVED'
    """
    return FORMATS.sub("REMOVED", LONG.sub("REMOVED", text))
