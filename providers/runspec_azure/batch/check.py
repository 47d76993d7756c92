"""What Azure Batch cannot do of a spec, each with a way out."""

from __future__ import annotations

from collections.abc import Iterator

from runspec.provider import Facts, Problem, Spec

NEEDED = ("batch_url", "storage_account", "container")


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    if not facts.complete:
        return
    for name in NEEDED:
        if getattr(facts.options, name) is None:
            hint = f"add providers: {{azure-batch: {{{name}: ...}}}} to the profile"
            yield Problem(("provider",), f"the profile names no {name}", hint)
    for variable, name in spec.secrets.items():
        if name not in facts.options.secrets:
            hint = f"add providers: {{azure-batch: {{secrets: {{{name}: env:{variable}}}}}}}"
            yield Problem(("secrets", variable), f"nobody says where '{name}' is", hint)
