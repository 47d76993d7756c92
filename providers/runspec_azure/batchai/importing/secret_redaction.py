"""Secrets of files that are taken in: they become names, and their values reach nothing."""

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
SHORTEST = 6  # a shorter value is part of too many words to look for it everywhere


def is_secret(name: str, value: str) -> bool:
    """Return whether a plain variable is a secret, by its name or by what it looks like.

    >>> is_secret("HF_TOKEN", "x"), is_secret("EPOCHS", "20")
    (True, False)
    """
    return bool(TELLING.search(name) or SHOWN.search(value))


class SecretRedactor:
    """The values of secrets that were seen, so that they can be looked for everywhere else."""

    def __init__(self) -> None:
        self.values: set[str] = set()

    def add(self, value: str | None) -> None:
        if value and len(value) >= SHORTEST:
            self.values.add(value)

    def scrubbed(self, value: Any, path: str, notes: list[str]) -> Any:
        """Return *value* without any secret in it; each place is told in *notes*."""
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
            notes.append(f"a secret stood in what became {path}: {GONE} stands there now")
        return found
