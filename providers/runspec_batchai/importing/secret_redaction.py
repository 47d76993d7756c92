"""Find secrets in imported files, so that their values are written nowhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# 64 bytes in base64: https://learn.microsoft.com/azure/storage/common/storage-account-keys-manage
ACCOUNT_KEY = r"[A-Za-z0-9+/]{86}=="
SHOWN = re.compile(
    rf"{ACCOUNT_KEY}|(?<=\bsig=)[^&\s\"']+|(?<=password=)[^,\s\"']+|(?<=pass=)[^,\s\"']+"
)
TELLING = re.compile(
    r"SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|(ACCOUNT|ACCESS|API|STORAGE|PRIVATE)_?KEY|CONNECTION_?STRING",
    re.IGNORECASE,
)
GONE = "REMOVED"
SHORTEST = 6  # a shorter value would occur in too many other texts


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable is probably a secret, by its name or the form of its value.

    >>> is_secret("HF_TOKEN", "x"), is_secret("EPOCHS", "20")
    (True, False)
    """
    return bool(TELLING.search(name) or SHOWN.search(value))


class SecretRedactor:
    """Removes the values of known secrets from texts."""

    def __init__(self) -> None:
        self.values: set[str] = set()

    def add(self, value: str | None) -> None:
        if value and len(value) >= SHORTEST:
            self.values.add(value)

    def scrubbed(self, value: Any, path: str, notes: list[str]) -> Any:
        """Return *value* without any secrets; add each replacement to *notes*."""
        if isinstance(value, Mapping):
            return {
                self._text(k, path, notes): self.scrubbed(v, f"{path}.{k}".lstrip("."), notes)
                for k, v in value.items()
            }
        if isinstance(value, list):
            return [self.scrubbed(v, f"{path}[{i}]", notes) for i, v in enumerate(value)]
        return self._text(value, path, notes) if isinstance(value, str) else value

    def _text(self, text: str, path: str, notes: list[str]) -> str:
        found = text
        for secret in sorted(self.values, key=len, reverse=True):
            found = found.replace(secret, GONE)
        found = SHOWN.sub(GONE, found)
        if found != text:
            notes.append(f"{path} would contain a secret, which was replaced by {GONE}")
        return found
