"""What holds of every plan and every problem, whoever made it; each says what is not so."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.diagnostics.problem import Path, Problem, dotted
from runspec_jobs.plan.model import FILE, REF, SECRET, canonical, marked, step_json
from runspec_jobs.provider import Facts, Model, Options, Scope, Spec, Step


def problems_are_told_well(problems: Iterable[Problem], spec: Spec, options: type[Options]) -> None:
    """Each problem has a place in *spec*, words, and a way out if it is an error.

    Words may quote a value of the spec with a newline in it; whoever prints them makes it visible.
    """
    for found in problems:
        assert has_place(spec, found.path, options), f"{dotted(found.path)} is no place of a spec"
        assert found.what.strip(), f"no words: {found}"
        assert found.severity == "note" or found.hint, f"no way out of: {found}"


def has_place(spec: Spec, path: Path, options: type[Options]) -> bool:
    """Say whether *path* is there in *spec*, or only its last key is missing there."""
    if path[:2] == ("providers", spec.provider):
        return len(path) == 2 or path[2] in options.model_fields
    value: Any = spec
    for i, part in enumerate(path):
        if isinstance(value, Model) and part in _keys(value):
            value = getattr(value, _keys(value)[str(part)])
        elif isinstance(value, Mapping) and isinstance(part, str):
            if part not in value:
                return i == len(path) - 1
            value = value[part]
        elif isinstance(value, tuple) and isinstance(part, int) and 0 <= part < len(value):
            value = value[part]
        else:
            return False
    return True


def _keys(model: Model) -> dict[str, str]:
    """Return the names of the fields of *model*, by what a file calls them."""
    return {field.alias or name: name for name, field in type(model).model_fields.items()}


def values_are_json(steps: Sequence[Step]) -> None:
    """Params hold what JSON can hold, and nothing that comes back from it as something else."""
    for step in steps:
        for request in filter(None, (step.do, step.undo)):
            assert list(_not_json(request.params, f"{step.id}: {request.operation}")) == []
            there = json.loads(json.dumps(request.params, allow_nan=False))
            assert there == request.params
    "".join(canonical(step_json(step)) for step in steps).encode()


def _not_json(value: Any, at: str) -> Iterator[str]:
    """Give a complaint for every part of *value* that is no JSON value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                yield f"{at}: the key {key!r} is no text"
            yield from _not_json(item, f"{at}.{key}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _not_json(item, f"{at}[{i}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{at}: {value} is no number in JSON"
    elif not (value is None or isinstance(value, str | int | float)):
        yield f"{at}: {value!r} is no JSON value but a {type(value).__name__}"


def ids_are_unique(steps: Sequence[Step]) -> None:
    """No two steps share an id, and each can stand before the dot of a `$ref`."""
    times = Counter(step.id for step in steps)
    assert [name for name, count in times.items() if count > 1] == []
    assert [name for name in times if not name or "." in name] == []


def titles_are_words(steps: Sequence[Step]) -> None:
    """Each step says what it does."""
    assert [step.id for step in steps if not step.title.strip()] == []


def refs_point_back(steps: Sequence[Step]) -> None:
    """A step needs answers of earlier steps only; what undoes it may need its own as well."""
    known: set[str] = set()
    for step in steps:
        assert _refs(step.do.params) <= known, f"{step.id} needs what comes later"
        known.add(step.id)
        if step.undo is not None:
            assert _refs(step.undo.params) <= known, f"undoing {step.id} needs what comes later"


def _refs(params: Any) -> set[str]:
    return {ref.partition(".")[0] for ref in marked(params, REF)}


def run_steps_hold_the_run(steps: Sequence[Step], run: str) -> None:
    """What is made for one run carries its id, or two runs would make the same thing."""
    run_steps = [step for step in steps if step.scope is Scope.RUN]
    assert [s.id for s in run_steps if run not in canonical(dict(s.do.params))] == []


def site_steps_are_shared(steps: Sequence[Step], others: Sequence[Step]) -> None:
    """Two runs of one spec share each site step, word for word."""
    assert [s for s in steps if s.scope is Scope.SITE] == [
        s for s in others if s.scope is Scope.SITE
    ]


def folders_are_those_of_the_spec(steps: Sequence[Step], spec: Spec) -> None:
    """`$file` names a mount that is a folder of this machine, one in a request."""
    known = {mount.name for mount in spec.mounts if mount.scheme == "file"}
    for step in steps:
        files = list(marked(step.do.params, FILE))
        assert set(files) <= known and len(files) <= 1, f"{step.id} has {files}"
        if step.undo is not None:
            assert list(marked(step.undo.params, FILE)) == [], f"undoing {step.id} has a folder"


def secrets_are_marks(steps: Sequence[Step], spec: Spec, facts: Facts) -> None:
    """Each secret that this machine reads is `{"$secret": source}`, where the core puts it in.

    A service may need secrets of the profile beside those of the spec, such as the key of an account.
    """
    wanted = {facts.options.secrets[name] for name in spec.secrets.values()}
    local = {source for source in wanted if source.startswith(("env:", "file:"))}
    found = {source for step in steps for source in marked(step.do.params, SECRET)}
    assert local <= found <= set(facts.options.secrets.values())


def every_one_of_a_plan(steps: Sequence[Step], run: str, spec: Spec, facts: Facts) -> None:
    values_are_json(steps)
    ids_are_unique(steps)
    titles_are_words(steps)
    refs_point_back(steps)
    run_steps_hold_the_run(steps, run)
    folders_are_those_of_the_spec(steps, spec)
    secrets_are_marks(steps, spec, facts)
