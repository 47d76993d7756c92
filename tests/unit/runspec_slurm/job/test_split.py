"""A sweep larger than an array of the cluster becomes several arrays, whose tasks have the numbers of the sweep."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs.provider import Request, Step
from runspec_jobs.provider.job_manifest import PARTED_FORMAT, read_record
from runspec_slurm.job import following
from runspec_slurm.provider import PROVIDER
from tests.support.slurm.specs import FOUND, RUN, facts, problems, spec


def submitting(found: Any = FOUND, **fields: Any) -> list[Step]:
    """Give the steps that submit the arrays of a sweep."""
    wanted = spec(**fields)
    steps = PROVIDER.plan(wanted, RUN, facts(wanted, None, found))
    return [step for step in steps if step.do.operation == "sbatch"]


def said(steps: list[Step], option: str) -> list[str]:
    words = [word.partition("=") for step in steps for word in step.do.params["argv"]]
    return [value for name, _, value in words if name == option]


def test_the_arrays_cover_the_sweep_and_say_the_numbers_of_its_tasks() -> None:
    steps = submitting(sweep={"n": "1..2345"})

    assert [step.id for step in steps] == ["job", "job-1", "job-2"]
    assert said(steps, "--job-name") == [RUN, f"{RUN}.1", f"{RUN}.2"]
    assert said(steps, "--array") == ["0-999", "0-999", "0-344"]
    logs = said(steps, "--output")
    assert logs == [f"runs/{RUN}/logs/{task}-0.txt" for task in ("%a", "1%3a", "2%3a")]
    first, _, last = (step.do.params["script"] for step in steps)
    assert 'export RUNSPEC_TASK="${SLURM_ARRAY_TASK_ID:-0}"' in first
    assert 'export RUNSPEC_TASK="$((SLURM_ARRAY_TASK_ID + 2000))"' in last
    assert "RUNSPEC_CLAIM" not in first
    assert "export RUNSPEC_CLAIM=claim.2" in last
    assert steps[2].title == "submit tasks 2,000 to 2,344, array 3 of 3"
    assert [step.undo for step in steps] == [Request("slurm", "scancel", {"name": RUN})] * 3


def test_a_version_that_knows_one_job_of_a_run_refuses_the_record_of_several() -> None:
    def record(count: int) -> dict[str, Any]:
        wanted = spec(sweep={"n": f"1..{count}"})
        steps = PROVIDER.plan(wanted, RUN, facts(wanted, None, FOUND))
        (text,) = (step.do.params["content"] for step in steps if step.id == "record")
        return dict(read_record(text.encode(), RUN))

    assert [record(count)["format"] for count in (1000, 2345)] == ["runspec.run/v1", PARTED_FORMAT]


@pytest.mark.parametrize(
    ("most", "arrays"),
    [(1001, ["0-1000"]), (1000, ["0-999", "0-0"]), (999, ["0-99"] * 10 + ["0-0"])],
)
def test_a_sweep_is_split_only_where_it_does_not_fit(most: int, arrays: list[str]) -> None:
    steps = submitting({**FOUND, "max_array": most}, sweep={"n": "1..1001"})

    assert said(steps, "--array") == arrays


def test_an_array_of_one_task_has_no_index_in_the_names_of_its_logs() -> None:
    """Slurm takes `%0a` for `%a`, so the log of task 1 would be that of task 10."""
    steps = submitting({**FOUND, "max_array": 9}, sweep={"n": "1..11"})

    logs = said(steps, "--output")
    assert logs == [f"runs/{RUN}/logs/{task}-0.txt" for task in ("%a", *range(1, 11))]


@pytest.mark.parametrize(
    ("max_parallel", "share", "after"),
    [
        (None, "", [None, None, None]),
        (4, "%4", [None, "job", "job-1"]),
        (1000, "%1000", [None, "job", "job-1"]),
        (1500, "%750", [None, None, "job"]),
    ],
)
def test_max_parallel_holds_for_all_arrays_together(
    max_parallel: int | None, share: str, after: list[str | None]
) -> None:
    """Slurm bounds one array alone, so the others wait; of those that run at once, each has its share."""
    given = {} if max_parallel is None else {"max_parallel": max_parallel}

    steps = submitting(sweep={"n": "1..2345"}, **given)

    assert said(steps, "--array") == [f"0-999{share}", f"0-999{share}", f"0-344{share}"]
    found = [step.do.params.get("after") for step in steps]
    assert found == [step and {"$ref": f"{step}.job"} for step in after]


def test_an_array_that_waits_for_another_keeps_its_other_dependencies() -> None:
    argv = ["--parsable", "--dependency=afterok:1,afterany:2", "--nodes=1"]

    assert set(following(argv, "7")) == {
        "--parsable",
        "--dependency=afterok:1,afterany:2,afterany:7",
        "--nodes=1",
    }


def test_a_plan_says_how_a_sweep_is_split_and_what_it_assumes() -> None:
    wanted = spec(sweep={"n": "1..1002"})

    asked, unknown = problems(wanted, facts(wanted)), problems(wanted, facts(wanted, None, None))

    (known,) = (p.what for p in asked if p.path == ("sweep",))
    (guess,) = (p.what for p in unknown if p.path == ("sweep",))
    begin = "1,002 tasks are 2 arrays of up to 1,000: an array "
    assert known == f"{begin}of this cluster has 1,001 at most (MaxArraySize)"
    assert (
        guess == f"{begin}has 1,001 at most unless MaxArraySize is set higher, which is not known"
    )


def test_pairs_of_tasks_need_one_array() -> None:
    def told(count: int) -> list[str]:
        wanted = spec(sweep={"n": f"1..{count}"})
        found = problems(wanted, facts(wanted, {"after": ["aftercorr:123"]}))
        return [problem.what for problem in found if problem.severity == "error"]

    assert told(1000) == []
    assert told(2345) == ["2,345 tasks are 3 arrays, and `aftercorr` pairs the tasks of one array"]
