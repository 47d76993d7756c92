"""What tests of importers share: the spec of an import, which is always valid, and what it lists as lost."""

from __future__ import annotations

from typing import Any

from runspec_jobs.document import reader
from runspec_jobs.load import profile, registry, source
from runspec_jobs.provider import Spec
from runspec_jobs.provider.types import Imported


def read_all(imported: Imported) -> list[Spec]:
    """Return the specs of *imported*, which have no error."""
    specs = []
    for text in imported.spec.split("\n---\n"):
        spec, problems = source.validate_text(source.read("job.yaml", text.encode()))
        errors = [problem for problem in problems if problem.severity == "error"]
        assert spec is not None and not errors, (problems, imported.spec)
        specs.append(spec)
    return specs


def read_only(imported: Imported) -> Spec:
    specs = read_all(imported)
    assert len(specs) == 1
    return specs[0]


def list_losses(imported: Imported) -> list[str]:
    """Return what is lost, as `FILE:LINE: WHAT: WHY`."""
    return [
        note.replace("not imported: ", "") for note in imported.notes if "not imported: " in note
    ]


def read_profile(imported: Imported, provider: str) -> dict[str, Any]:
    """Return the settings of *provider* in the profile of *imported*, which are valid."""
    document = reader.read(imported.profile.encode())
    account, problems = profile.read(document.value)
    assert account is not None, problems
    spec = read_all(imported)[0]
    model = registry.load(provider).options_model
    options, *wrong = profile.merge_options(model, provider, spec, account)
    assert options is not None, wrong
    found: Any = reader.resolve(document.value)
    return dict(found["providers"].get(provider) or {})
