"""Plans: equal for equal arguments, whole as JSON, and compared field by field."""

from __future__ import annotations

import json

import pytest

from runspec_jobs.plan import diff, model
from runspec_jobs.plan.diff import Change
from runspec_jobs.provider import Facts, Options, Request, Scope, Spec, Step

SPEC = Spec.model_validate(
    {"apiVersion": "runspec/v1", "name": "job", "provider": "fake", "command": ("a",)}
)


class Fake:
    """Plans one shared thing and one job."""

    name = "fake"
    options_model = Options

    def __init__(self, size: int = 1) -> None:
        self.size = size

    def plan(self, spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
        queue = Request("svc", "make_queue", {"name": "q-123", "size": self.size})
        job = {"name": run, "queue": {"$ref": "queue.arn"}, "words": list(spec.command or ())}
        return (
            Step("queue", "make a queue", Scope.SITE, queue, Request("svc", "del", {}), 2.5),
            Step("job", "submit", Scope.RUN, Request("svc", "submit", job)),
        )


def made(token: str = "abcdef", size: int = 1) -> model.Plan:
    return model.make_plan(Fake(size), SPEC, token, Facts(Options()))  # type: ignore[arg-type]  # no client


def test_a_plan_survives_its_json() -> None:
    assert model.read_plan(json.loads(json.dumps(model.write_plan(made())))) == made()


def test_json_has_the_fields_that_were_promised() -> None:
    found = model.write_plan(made())

    assert list(found) == ["format", "provider", "run", "digest", "steps"]
    assert list(found["steps"][1]) == ["id", "title", "scope", "do", "undo"]
    assert list(found["steps"][1]["do"]) == ["service", "operation", "params"]


def test_the_digest_is_of_what_is_done_and_not_of_the_run() -> None:
    assert made("abcdef").digest == made("ghjkmn").digest
    assert made("abcdef").digest != made("abcdef", size=2).digest


def test_differences_name_the_fields_and_not_the_runs() -> None:
    assert diff.find_differences(made("abcdef"), made("ghjkmn")) == []
    assert diff.find_differences(made(), made(size=2)) == [Change("queue.do.params.size", 1, 2)]


def test_a_step_that_came_or_went_is_one_difference() -> None:
    whole, short = made(), model.Plan("fake", "job-abcdef", "", made().steps[:1])

    assert [c.path for c in diff.find_differences(short, whole)] == ["job"]
    assert [c.path for c in diff.find_differences(whole, short)] == ["job"]


def test_placeholders_are_filled_wherever_they_are() -> None:
    value = {"a": [{"$ref": "queue.arn"}], "b": {"$secret": "env:X"}, "c": {"$ref": 3}}

    filled = model.fill(value, {"$ref": {"queue.arn": "arn:1"}, "$secret": {"env:X": "s"}})

    assert filled == {"a": ["arn:1"], "b": "s", "c": {"$ref": 3}}


def test_a_reference_goes_into_answers_as_deep_as_it_says() -> None:
    request = Request("svc", "op", {"x": {"$ref": "queue.list.1.arn"}})

    known = model.resolve_answers(request, {"queue": {"list": [{}, {"arn": "arn:2"}]}})

    assert known == {"queue.list.1.arn": "arn:2"}


@pytest.mark.parametrize("mark", ["$ref", "$secret", "$file"])
def test_marks_are_found_at_any_depth(mark: str) -> None:
    assert list(model.find_marked([{"a": ({mark: "x"},)}, {mark: "y"}], mark)) == ["x", "y"]
