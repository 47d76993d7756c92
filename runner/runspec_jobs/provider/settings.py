"""Types for `Options` and their blocks: the values that a setting takes, and who may set it."""

from __future__ import annotations

from runspec_jobs.provider.types import (
    SECRET_SOURCE as SECRET_SOURCE,
    LocalSecret as LocalSecret,
    SecretSource as SecretSource,
)
from runspec_jobs.spec.field_marks import (
    Anyone as Anyone,
    User as User,
)
from runspec_jobs.spec.types import (
    Bytes as Bytes,
    Key as Key,
    Model as Model,
    Positive as Positive,
    Seconds as Seconds,
    SecretName as SecretName,
    Truth as Truth,
    Whole as Whole,
    Word as Word,
    text_like as text_like,
)

__all__ = [
    "SECRET_SOURCE",
    "Anyone",
    "Bytes",
    "Key",
    "LocalSecret",
    "Model",
    "Positive",
    "Seconds",
    "SecretName",
    "SecretSource",
    "Truth",
    "User",
    "Whole",
    "Word",
    "text_like",
]
