"""Assertions about plans and problems that hold for every provider."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.diagnostics.problem import Path, Problem, format_path
from runspec_jobs.plan.model import FILE, REF, SECRET, find_marked, format_canonical, write_step
from runspec_jobs.provider import Facts, Options, Scope, Spec, Step
from runspec_jobs.provider.settings import Model


def assert_problems_are_complete(
    problems: Iterable[Problem], spec: Spec, options: type[Options]
) -> None:
    """Assert that each problem has a path in *spec*, a message, and a hint if it is an error.

    A message may quote a value of the spec with a newline in it, which is escaped when it is printed.
    """
    for problem in problems:
        assert has_place(spec, problem.path, options), (
            f"{format_path(problem.path)} is not a path of the spec"
        )
        assert problem.what.strip(), f"no message: {problem}"
        assert problem.severity == "note" or problem.hint, f"no hint: {problem}"


def has_place(spec: Spec, path: Path, options: type[Options]) -> bool:
    """Return whether *path* exists in *spec*, or all of it but the last key."""
    if path[:2] == ("providers", spec.provider):
        return len(path) == 2 or path[2] in options.model_fields
    value: Any = spec
    for i, part in enumerate(path):
        if isinstance(value, Model) and part in _list_keys(value):
            value = getattr(value, _list_keys(value)[str(part)])
        elif isinstance(value, Mapping) and isinstance(part, str):
            # The last key may be missing: that it is missing may be the problem.
            if part not in value:
                return i == len(path) - 1
            value = value[part]
        elif isinstance(value, tuple) and isinstance(part, int) and 0 <= part < len(value):
            value = value[part]
        else:
            return False
    return True


def _list_keys(model: Model) -> dict[str, str]:
    """Return the names of the fields of *model* by their keys in a file."""
    return {field.alias or name: name for name, field in type(model).model_fields.items()}


def assert_values_are_json(steps: Sequence[Step]) -> None:
    """Assert that params contain only JSON values, which JSON does not change."""
    for step in steps:
        for request in filter(None, (step.do, step.undo)):
            assert list(_find_not_json(request.params, f"{step.id}: {request.operation}")) == []
            there = json.loads(json.dumps(request.params, allow_nan=False))
            assert there == request.params
    # A text that UTF-8 cannot hold would fail only when the plan is written to disk.
    "".join(format_canonical(write_step(step)) for step in steps).encode()


def _find_not_json(value: Any, at: str) -> Iterator[str]:
    """Yield a message for every part of *value* that is not a JSON value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                yield f"{at}: the key {key!r} is not a string"
            yield from _find_not_json(item, f"{at}.{key}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _find_not_json(item, f"{at}[{i}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{at}: {value} is not a number in JSON"
    elif not (value is None or isinstance(value, str | int | float)):
        yield f"{at}: {value!r} is not a JSON value but a {type(value).__name__}"


def assert_ids_are_unique(steps: Sequence[Step]) -> None:
    """Assert that step ids are unique, not empty, and contain no dot, so that a `$ref` can name them."""
    times = Counter(step.id for step in steps)
    assert [name for name, count in times.items() if count > 1] == []
    assert [name for name in times if not name or "." in name] == []


def assert_titles_exist(steps: Sequence[Step]) -> None:
    """Assert that each step has a title."""
    assert [step.id for step in steps if not step.title.strip()] == []


def assert_refs_point_back(steps: Sequence[Step]) -> None:
    """Assert that a step refers only to answers of earlier steps; its undo may also refer to its own."""
    known: set[str] = set()
    for step in steps:
        assert _find_refs(step.do.params) <= known, f"{step.id} refers to a later step"
        known.add(step.id)
        if step.undo is not None:
            assert _find_refs(step.undo.params) <= known, (
                f"undoing {step.id} refers to a later step"
            )


def _find_refs(params: Any) -> set[str]:
    return {ref.partition(".")[0] for ref in find_marked(params, REF)}


def run_steps_hold_the_run(steps: Sequence[Step], run: str) -> None:
    """Assert that requests of run steps contain the run's id, since otherwise two runs would make the same resource."""
    run_steps = [step for step in steps if step.scope is Scope.RUN]
    assert [s.id for s in run_steps if run not in format_canonical(dict(s.do.params))] == []


def assert_site_steps_are_shared(steps: Sequence[Step], others: Sequence[Step]) -> None:
    """Assert that two runs of one spec have exactly the same site steps."""
    assert [s for s in steps if s.scope is Scope.SITE] == [
        s for s in others if s.scope is Scope.SITE
    ]


def assert_folders_of_spec(steps: Sequence[Step], spec: Spec) -> None:
    """Assert that each request has at most one `$file`, which names a mount with a folder of this machine."""
    known = {mount.name for mount in spec.mounts if mount.scheme == "file"}
    for step in steps:
        files = list(find_marked(step.do.params, FILE))
        assert set(files) <= known and len(files) <= 1, f"{step.id} has {files}"
        if step.undo is not None:
            assert list(find_marked(step.undo.params, FILE)) == [], (
                f"undoing {step.id} has a folder"
            )


def assert_secrets_are_marks(steps: Sequence[Step], spec: Spec, facts: Facts) -> None:
    """Assert that each secret that this machine reads appears as `{"$secret": source}`, which the core replaces.

    A service may need secrets of the profile beside those of the spec, such as the key of an account.
    """
    wanted = {facts.options.secrets[name] for name in spec.secrets.values()}
    local = {source for source in wanted if source.startswith(("env:", "file:"))}
    sources = {source for step in steps for source in find_marked(step.do.params, SECRET)}
    assert local <= sources <= set(facts.options.secrets.values())


def assert_all_of_plan(steps: Sequence[Step], run: str, spec: Spec, facts: Facts) -> None:
    assert_values_are_json(steps)
    assert_ids_are_unique(steps)
    assert_titles_exist(steps)
    assert_refs_point_back(steps)
    run_steps_hold_the_run(steps, run)
    assert_folders_of_spec(steps, spec)
    assert_secrets_are_marks(steps, spec, facts)
