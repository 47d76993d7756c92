"""A plan: all requests of a run, word for word, as data.

The functions are pure: equal arguments give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runspec_jobs.provider import Facts, Provider, Request, Response, Scope, Spec, Step
from runspec_jobs.provider.types import NOT_YET
from runspec_jobs.spec.chain_rules import with_copies

FORMAT = "runspec.plan/v1"
PREVIEW = "000000"  # the token of a run that does not exist yet

# A mapping with one of these keys stands for a value that is not known while planning.
REF, SECRET, FILE, SIGNED = "$ref", "$secret", "$file", "$signed"
ANSWER = "$answer"  # RUN/STEP.FIELD: of the answer that a step of another run got


@dataclass(frozen=True)
class Plan:
    """The steps of one run. *digest* does not depend on the run id: two runs of one plan have the same digest."""

    provider: str
    run: str
    digest: str
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        name, count = self.run.removesuffix(f"-{PREVIEW}"), len(self.steps)
        return f"<Plan of {name} on {self.provider}: {count} step{'s' * (count != 1)}>"

    def _repr_html_(self) -> str:
        from runspec_jobs.diagnostics.html_table import make_html_table  # no command needs it

        rows = [(number, step.title) for number, step in enumerate(self.steps, 1)]
        return make_html_table(repr(self)[1:-1], ("", "step"), rows)


def make_plan(provider: Provider, spec: Spec, token: str, facts: Facts) -> Plan:
    """Return the plan of *spec*, which must be valid, for the run with *token* in its name.

    A run that resumes another one has the digest of one that does not: it is the same job.
    """
    run, preview = f"{spec.name}-{token}", f"{spec.name}-{PREVIEW}"
    given = with_copies(spec, facts.sources.keys() - facts.outputs.keys())
    steps = tuple(provider.plan(given, run, facts))
    planned = steps
    # Whether a service waits for parents, or they have ended, makes no difference. What mounted outputs contain does,
    # but the caller compares that without the times of files.
    copied = {m.name: NOT_YET for m in spec.mounts if m.of_run and m.name in facts.sources}
    if facts.parents or facts.resume is not None or copied:
        sources = {**facts.sources, **copied}
        alone = facts._replace(parents=(), resume=None, sources=sources)
        planned = tuple(provider.plan(given, run, alone))
    # The id of the run is part of names, paths and tags; without it, equal specs have equal digests.
    neutral = replace_run([write_step(step) for step in planned], run, preview)
    for other in {output.run for output in facts.outputs.values()}:
        neutral = replace_run(neutral, other, f"{other.rpartition('-')[0]}-{PREVIEW}")
    return Plan(provider.name, run, _digest(neutral), steps)


def digest(steps: Iterable[Step]) -> str:
    """Return the digest of *steps*, in hexadecimal after "sha256:"."""
    return _digest([write_step(step) for step in steps])


def _digest(steps: Any) -> str:
    data = format_canonical(steps).encode(errors="backslashreplace")  # a path may have any bytes
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def replace_run(value: Any, run: str, other: str) -> Any:
    """Return JSON *value* with the name *other* wherever it contains the name *run*."""
    # As text, because the name may be anywhere inside a string, such as in a URL or a script.
    return json.loads(json.dumps(value).replace(json.dumps(run)[1:-1], other))


def format_canonical(value: Any) -> str:
    """Return *value* as JSON in a canonical form: equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def write_plan(plan: Plan) -> dict[str, Any]:
    """Return *plan* in the form that `plan --json` prints and the record of a run contains."""
    return {
        "format": FORMAT,
        "provider": plan.provider,
        "run": plan.run,
        "digest": plan.digest,
        "steps": [write_step(step) for step in plan.steps],
    }


def write_step(step: Step) -> dict[str, Any]:
    """Return *step* as JSON, with `settle_s` only if it is not 0."""
    content: dict[str, Any] = {"id": step.id, "title": step.title, "scope": str(step.scope)}
    content["do"] = step.do._asdict()
    content["undo"] = step.undo._asdict() if step.undo else None
    return content | ({"settle_s": step.settle_s} if step.settle_s else {})


def read_plan(value: Mapping[str, Any]) -> Plan:
    """Return the plan that `write_plan` wrote."""
    steps = tuple(
        Step(
            step["id"],
            step["title"],
            Scope(step["scope"]),
            Request(**step["do"]),
            Request(**step["undo"]) if step["undo"] else None,
            step.get("settle_s", 0.0),
        )
        for step in value["steps"]
    )
    return Plan(value["provider"], value["run"], value["digest"], steps)


def find_marked(value: Any, mark: str) -> Iterator[str]:
    """Yield the value of every mapping in *value* whose only key is *mark*.

    >>> list(find_marked({"a": [{"$ref": "queue.arn"}]}, "$ref"))
    ['queue.arn']
    """
    if isinstance(value, Mapping):
        if len(value) == 1 and isinstance(value.get(mark), str):
            yield value[mark]
            return
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from find_marked(item, mark)


def fill(value: Any, known: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return *value* with every mark replaced by its value in *known*, such as `{"$ref": {"queue.arn": "arn:..."}}`.

    >>> fill({"a": {"$ref": "queue.arn"}}, {"$ref": {"queue.arn": "arn:1"}})
    {'a': 'arn:1'}
    """
    if isinstance(value, Mapping):
        if len(value) == 1:
            mark, name = next(iter(value.items()))
            if mark in known and isinstance(name, str):
                return known[mark][name]
        return {key: fill(item, known) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill(item, known) for item in value]
    return value


def resolve_answers(request: Request, answers: Mapping[str, Response]) -> dict[str, Any]:
    """Return the value of every `$ref` in *request* from the *answers* of earlier steps."""
    values: dict[str, Any] = {}
    for ref in find_marked(request.params, REF):
        step, *path = ref.split(".")
        value: Any = answers[step]
        for part in path:
            value = value[int(part)] if isinstance(value, list) else value[part]
        values[ref] = value
    return values
