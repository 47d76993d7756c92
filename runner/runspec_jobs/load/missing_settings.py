"""Reports all settings that the profile lacks as one problem, with what to write and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.provider import Provider, SupportsProfileTemplate, SupportsSetup, paths


def join_missing_settings(
    problems: Iterable[Problem], provider: Provider, profile: Path | None, *, empty: bool
) -> list[Problem]:
    """Return *problems* with those of missing settings joined into one.

    *profile* is the profile in use, and *empty* says that it has no setting of *provider*: the hint then has the
    template of the whole profile.
    """
    all_problems = list(problems)
    missing = [problem for problem in all_problems if problem.lacks]
    if not missing:
        return all_problems
    names = join_words([f"`{problem.lacks.partition(':')[0]}`" for problem in missing])
    if profile is None:
        message = f"there is no profile, and {provider.name} needs {names}"
    elif empty:
        message = f"the profile {profile} has no settings of {provider.name}, which needs {names}"
    elif len(missing) > 1:
        message = f"the profile {profile} has no {names}"
    else:
        message = f"{missing[0].what} (it is {profile})"
    hint = _hint(missing, provider, profile, empty=empty)
    # In the place of the first one, so that the order of all problems stays.
    joined = missing[0]._replace(what=message, hint=hint)
    others = [problem for problem in all_problems if not problem.lacks]
    return [joined, *others]


def _hint(
    missing: Sequence[Problem], provider: Provider, profile: Path | None, *, empty: bool
) -> str | None:
    """Return what to run or write so that nothing is missing."""
    if empty and isinstance(provider, SupportsProfileTemplate):
        run = f"runspec init --provider {provider.name}"
        if profile is None:
            text = f"run `{run}`, which writes these settings to {paths.PROFILE} here, and fill them in:"
        else:
            text = f"add these settings to {profile}, which `{run}` prints, and fill them in:"
        if isinstance(provider, SupportsSetup):
            text = f"`runspec setup {provider.name}` makes what the account lacks and writes them; or {text}"
        return "\n".join([text, *provider.first_profile().rstrip("\n").split("\n")])
    if len(missing) == 1:
        return missing[0].hint
    lines = [f"      {problem.lacks}" for problem in missing]
    return "\n".join(["add to it:", "  providers:", f"    {provider.name}:", *lines])


def join_words(words: Sequence[str]) -> str:
    """Return *words* joined as in an English sentence.

    >>> join_words(["a"]), join_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), words[-1]])
