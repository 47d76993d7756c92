"""Checks of a spec that several providers make in the same way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean
from runspec_jobs.provider.types import Options
from runspec_jobs.spec.model import Spec

SecretCheck = Callable[[Path, str, str], Iterable[Problem]]
"""Gets the path of a secret in the spec, its name, and its source, such as `env:TOKEN`."""


def not_in_profile(what: str, at: Path, key: str, known: Collection[str], entry: str) -> Problem:
    """Return the problem that the profile has no *what* called *key*.

    *known* are the names that the profile has. *entry* is an entry to add, such as `slurm: {shared: {data: /data}}`.
    """
    hint = did_you_mean(key, known) or f"add providers: {{{entry}}} to the profile"
    return Problem(at, f"the profile has no {what} '{key}'", hint)


def secret_problems(
    spec: Spec, options: Options, provider: str, example: str, check: SecretCheck
) -> Iterator[Problem]:
    """Yield a problem for each secret that the profile lacks, and those that *check* finds in the others.

    *example* is a source, in which `{}` stands for the variable.
    """
    for variable, key in spec.secrets.items():
        at, source = ("secrets", variable), options.secrets.get(key)
        if source is None:
            entry = f"{provider}: {{secrets: {{{key}: {example.format(variable)}}}}}"
            yield not_in_profile("secret", at, key, options.secrets, entry)
        else:
            yield from check(at, key, source)
