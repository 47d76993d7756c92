"""Finds values in `env` that look like secrets, which belong under `secrets`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.diagnostics.secret_values import looks_secret as looks_secret
from runspec_jobs.provider import Spec


def find_notes(spec: Spec) -> Iterator[Problem]:
    """Yield a note for each variable in `env` that looks like a secret; the value is in no note."""
    for name, value in spec.env.items():
        if looks_secret(name, value):
            key = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            message = "the value looks like a secret, and plans and records contain env as it is"
            hint = f"write secrets: {{{name}: {key}}}, and say in the profile where {key} is stored"
            yield Problem(("env", name), message, hint, severity="note", private=True)
