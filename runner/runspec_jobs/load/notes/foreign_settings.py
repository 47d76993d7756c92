"""What a spec that was written for one provider loses on another: settings and variables of the first."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.errors import Unavailable
from runspec_jobs.load import registry
from runspec_jobs.provider import Spec
from runspec_jobs.provider.importing.protocols import SupportsForeignSettings
from runspec_jobs.regex import regex

VARIABLE = regex(r"\$\{?([A-Z][A-Z0-9_]*)")
LEAST_LETTERS = 4  # the least letters of a word of a variable that name a provider


def find_lost(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for everything in *spec* that only another provider has."""
    variables = _read_variables(spec)
    for name in registry.list_installed():
        is_named = name in spec.providers or (variables and _is_of(variables, name))
        if is_named and (other := _load_other(spec, name)) is not None:
            yield from other.lost_settings(spec)


def find_lost_of_profile(
    spec: Spec, settings: Callable[[str], Mapping[str, Any]]
) -> Iterator[Problem]:
    """Yield a problem for the *settings* of other providers in the profile, by their names, that *spec* relies on."""
    for name in spec.providers:
        if (other := _load_other(spec, name)) is not None:
            yield from other.lost_profile(spec, settings(name))


def _load_other(spec: Spec, name: str) -> SupportsForeignSettings | None:
    if name == spec.provider or name not in registry.list_installed():
        return None
    with contextlib.suppress(Unavailable):  # the job itself does not need it
        other = registry.load(name)
        if isinstance(other, SupportsForeignSettings):
            return other
    return None


def _read_variables(spec: Spec) -> set[str]:
    """Return the words in the names of all variables that *spec* mentions, in lower case."""
    texts = [spec.run or "", *(spec.command or ()), *spec.env.values()]
    for program in (spec.setup or (), spec.smoke or ()):
        texts += [program] if isinstance(program, str) else program
    variables: list[str] = VARIABLE.findall("\n".join(texts))
    return {word.lower() for variable in variables for word in variable.split("_")}


def _is_of(words: Iterable[str], name: str) -> bool:
    """Return whether one of *words*, which name variables, is in the name of the provider *name*.

    A part that several names share, such as `batch`, does not count. This avoids the import of providers that a spec
    does not mention, which takes longer than all else.
    """
    # Counted over all names: a part that two providers share does not say which of them is meant.
    parts = Counter(part for name in registry.list_installed() for part in name.split("-"))
    letters = name.replace("-", "")
    return any(len(word) >= LEAST_LETTERS and parts[word] < 2 and word in letters for word in words)
