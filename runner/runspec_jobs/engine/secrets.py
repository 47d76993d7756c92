"""Reads the values of secrets just before they are sent; specs, plans and records contain only their names."""

from __future__ import annotations

import os

from runspec_jobs.errors import CredentialsError
from runspec_jobs.provider.paths import expand_home

VALUE_BYTES = 130_000  # with its name, what Linux allows for a variable: MAX_ARG_STRLEN, 131,072


def read_secret(source: str) -> str:
    """Return the value of the secret at *source*: `env:NAME` or `file:/path`.

    The last line break of a file is not part of the value. Raises CredentialsError, whose message has
    the source and never the value.
    """
    value = _read(source)
    if "\0" in value:
        raise CredentialsError(
            f"the secret {source} contains a NUL character, which no environment variable can"
        )
    try:
        count = len(value.encode())
    except UnicodeEncodeError:  # `from None`: the error of the codec has the value
        raise CredentialsError(
            f"the secret {source} is not text in UTF-8, and services take no other",
            "encode it, for example with base64, and decode it in the job",
        ) from None
    if count > VALUE_BYTES:
        raise CredentialsError(
            f"the secret {source} has {count:,} bytes, and a variable at most {VALUE_BYTES:,}"
        )
    return value


def _read(source: str) -> str:
    kind, _, location = source.partition(":")
    if kind == "env":
        if location not in os.environ:
            raise CredentialsError(
                f"the secret {source} is not set", f"export {location} before you apply"
            )
        return os.environ[location]
    if kind == "file":
        try:
            return expand_home(location).read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as exc:
            reason = getattr(exc, "strerror", None) or "it is not text"
            raise CredentialsError(f"the secret {source} cannot be read: {reason.lower()}") from exc
    raise CredentialsError(
        f"secrets cannot be read from '{kind}:' on this machine", "use env: or file:"
    )
