"""The Python API in a notebook: what it takes, shows and returns."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import traceback
from collections.abc import Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs import api
from runspec_jobs.api.specs import read_spec
from runspec_jobs.errors import Unavailable, UsageError

SPEC = {
    "apiVersion": "runspec/v1",
    "name": "primes",
    "provider": "local",
    "sweep": {"limit": [10, 20], "opt": ["sgd", "adam"]},
    "metric": {"name": "found", "goal": "max", "pattern": r"found (\d+)"},
    "run": "echo found ${sweep.limit}; test ${sweep.opt} = sgd",
}
numpy: Any = importlib.import_module("numpy")
SHOW = methodcaller("_repr_html_")  # what a notebook calls


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shown_in_a_notebook(value: object) -> str:
    """Return the HTML that IPython asks *value* for."""
    html: str = methodcaller("_repr_html_")(value)
    return html


def members() -> Iterator[tuple[str, object]]:
    for name in api.__all__:
        member = getattr(api, name)
        if not callable(member) or not str(getattr(member, "__module__", "")).startswith("runspec"):
            continue
        yield name, member
        if inspect.isclass(member):
            fields = {"_fields", *getattr(member, "_fields", ())}
            for key, value in vars(member).items():
                if (
                    not key.startswith("_")
                    and key not in fields
                    and (inspect.isfunction(value) or isinstance(value, property))
                ):
                    yield f"{name}.{key}", value


def test_every_public_member_is_documented() -> None:
    found = dict(members())

    assert {"Run.id", "Run.frame", "Job.spec", "apply", "Plan"} <= found.keys()
    assert [name for name, member in found.items() if not inspect.getdoc(member)] == []


def test_an_error_of_a_spec_shows_its_problems_with_carets() -> None:
    with pytest.raises(api.InvalidSpec) as caught:
        api.load({**SPEC, "env": {"TOKEN": "hf_abcdefghijklmnopqrst"}, "comand": 3})

    said = str(caught.value)
    assert "1 problem\n" in said and "unknown key 'comand'" in said and "| ^^^^^^" in said
    assert "did you mean 'command'?" in said
    assert "hf_abc" not in said
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == said


def test_a_traceback_shows_the_hint_of_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        api.load("no-such.yaml")

    assert "hint: runspec init writes a first spec" in "".join(
        traceback.format_exception(caught.value)
    )


def test_paths_ranges_and_numpy_are_values_of_a_sweep() -> None:
    values = {
        "a": range(2, 6, 2),
        "b": numpy.linspace(0, 1, 3),
        "c": [numpy.float64(0.5), numpy.int64(3)],
        "d": [Path("x/y"), numpy.str_("z")],
    }

    job = api.load({**SPEC, "sweep": values, "run": "echo ${sweep.a}"})

    tasks = job.tasks()
    assert len(tasks) == 2 * 3 * 2 * 2
    assert tasks[0] == {"a": "2", "b": "0.0", "c": "0.5", "d": "x/y"}
    assert tasks[-1] == {"a": "4", "b": "1.0", "c": "3", "d": "z"}


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", numpy.array([1, 2j])])
def test_a_value_that_yaml_lacks_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="cannot have a value of the type"):
        api.load({**SPEC, "sweep": {"a": [value]}})


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        {**SPEC, "env": {}, "sweep": {"a": []}},
        {},
        {"a": {"b": {"c": [{"d": {}}]}, "e": None}},
    ],
)
def test_a_mapping_becomes_a_text_that_says_the_same(spec: dict[str, Any]) -> None:
    from runspec_jobs.document.nodes import resolve

    document = read_spec(spec).document

    assert document is not None and resolve(document.value) == spec


def test_plan_and_estimate_take_what_load_takes(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: runspec/v1\nname: a\nprovider: local\nrun: date\n")

    assert api.plan(SPEC).digest == api.plan(api.load(SPEC)).digest
    assert api.plan(file).digest == api.plan(str(file)).digest
    assert api.estimate(SPEC) is None


def test_a_job_and_its_plan_are_shown_in_a_line_and_as_a_table() -> None:
    job = api.load({**SPEC, "name": "a-b", "sweep": {"x": ["<b>", *range(60)]}, "run": "date"})
    plan: Any = api.plan(job)

    assert repr(job) == "<Job a-b on local: 1 node, 61 tasks>"
    assert "<td>&lt;b&gt;</td>" in shown_in_a_notebook(
        job
    ) and "<p>and 11 more</p>" in shown_in_a_notebook(job)
    assert (
        repr(plan) == f"<Plan of a-b on local: {len(plan.steps)} step{'s' * (len(plan.steps) > 1)}>"
    )
    assert plan.steps[0].title in shown_in_a_notebook(plan)


def test_a_job_above_max_usd_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("runspec-profile.yaml").write_text("prices: {local: 3}\nproviders: {local: {}}\n")
    spec = {**SPEC, "timeout": "1h"}

    with pytest.raises(UsageError, match=r"max_usd: the job may cost 12\.00 USD"):
        api.apply(spec, max_usd=11.9)
    with pytest.raises(UsageError, match="no known limit"):
        api.apply(SPEC, max_usd=100)
    with pytest.raises(UsageError, match="not an amount"):
        api.apply(spec, max_usd=float("nan"))
    assert api.runs() == []


@pytest.mark.process
def test_a_run_gives_a_typed_row_for_each_task() -> None:
    Path("runspec-profile.yaml").write_text("prices: {local: 3600}\nproviders: {local: {}}\n")

    run = api.apply(SPEC)
    before = repr(run)
    status = run.wait()

    rows = run.rows()
    assert [(r["task"], r["limit"], r["opt"], r["state"], r["found"]) for r in rows] == [
        (0, 10, "sgd", "succeeded", 10),
        (1, 10, "adam", "failed", 10),
        (2, 20, "sgd", "succeeded", 20),
        (3, 20, "adam", "failed", 20),
    ]
    assert all(r["usd"] == pytest.approx(r["seconds"], rel=0.01, abs=0.01) for r in rows)
    frame = run.frame()
    assert frame.loc[2, "limit"] == 20 and frame["limit"].dtype == "int64"
    assert frame[frame.state == "succeeded"]["found"].max() == 20
    assert (
        before.startswith(f"<Run {run.id} on local")
        and repr(run) == f"<Run {run.id} on local: failed>"
    )
    assert repr(status).startswith("<Status failed") and "failed" in shown_in_a_notebook(run)
    assert "<td>adam" not in shown_in_a_notebook(status) and "<td>3</td>" in shown_in_a_notebook(
        status
    )
    assert copy.copy(run) == run


@pytest.mark.process
def test_a_run_without_a_metric_has_rows_without_one() -> None:
    plain = {key: value for key, value in SPEC.items() if key != "metric"}
    run = api.apply({**plain, "sweep": {"state": [1], "seconds": ["x"]}, "run": "date"})
    run.wait()

    (row,) = run.rows()
    assert (row["param_state"], row["param_seconds"], row["state"]) == (1, "x", "succeeded")
    assert row.keys() == {"task", "param_state", "param_seconds", "state", "seconds", "usd"}


@pytest.mark.process
def test_a_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(importlib.import_module("sys").modules, "pandas", None)
    run = api.apply({**SPEC, "run": "true"})

    with pytest.raises(Unavailable) as caught:
        run.frame()

    assert caught.value.hint == "pip install pandas, or use rows()"
    run.destroy()


def test_an_error_in_a_notebook_shows_the_line_with_carets_and_escapes_it() -> None:
    with pytest.raises(api.InvalidSpec) as caught:
        api.load(b"apiVersion: runspec/v1\nname: n\nprovider: local\ncomand: [<script>]\n")

    shown = SHOW(caught.value)
    assert "^^^^^^" in shown
    assert "hint: did you mean &#x27;command&#x27;?" in shown
    assert "<script>" not in shown


def test_an_error_without_a_spec_shows_its_hint_in_a_notebook() -> None:
    shown = SHOW(UsageError("no <b>", "write a&b"))

    assert shown == "<b>UsageError</b><pre>no &lt;b&gt;\nhint: write a&amp;b</pre>"
