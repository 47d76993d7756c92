"""Reports: what a sweep found, what is stopped early, and how a job scales."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.cli.app import run
from runspec_jobs.document import reader
from runspec_jobs.errors import UsageError
from runspec_jobs.logs import measure
from runspec_jobs.logs.follow import Line
from runspec_jobs.spec import validate
from runspec_jobs.spec.metric import Metric
from runspec_jobs.spec.scaling import select_size, write_size
from runspec_jobs.state import run_group, run_record
from runspec_local.provider import PROVIDER
from tests.e2e.test_slurm_nodes import TORCHRUN
from tests.support.pages import dots, parsed, shown
from tests.support.root import ROOT
from tests.support.wait import SOON_S, until

pytestmark = pytest.mark.process

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\nproviders: {local: {engine: process}}\n"
SWEEP = "sweep: {n: [3, 1, 2]}\nmetric: {name: loss, goal: min, pattern: 'loss=(.*)'}\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "job.yaml"


def applied(spec: Path, text: str, *more: str) -> int:
    spec.write_text(HEAD + text)
    return run(["apply", str(spec), *more])


def reported(capsys: Capture, *words: str) -> Any:
    capsys.readouterr()
    assert run(["report", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# What is tried


def test_a_plan_shows_the_values_that_were_drawn(capsys: Capture) -> None:
    assert run(["plan", str(ROOT / "specs" / "search.yaml")]) == 0

    lines = capsys.readouterr().out.splitlines()

    assert lines[-12].split() == ["0", "0.00015642140528861185", "25", "tanh"]
    assert lines[-13].split() == ["task", "lr", "width", "activation"]


# Rankings


def test_tasks_are_ranked_and_those_without_a_number_say_why(spec: Path, capsys: Capture) -> None:
    script = (
        "run: |\n  [ $RUNSPEC_SWEEP_N != 1 ] || exit 9\n  echo loss=9; echo loss=$RUNSPEC_SWEEP_N\n"
    )
    assert applied(spec, SWEEP + script) == 1

    found = reported(capsys, "job")

    assert [(row["place"], row["task"], row["value"]) for row in found["tasks"]] == [
        (1, 2, 2.0),
        (2, 0, 3.0),
        (None, 1, None),
    ]
    assert found["tasks"][2]["why"] == "exited with code 9; it printed nothing"
    assert (found["state"], found["tasks"][2]["state"]) == ("failed", "failed")


def test_a_failed_task_is_never_the_best(spec: Path, capsys: Capture, tmp_path: Path) -> None:
    script = "run: |\n  echo loss=$RUNSPEC_SWEEP_N\n  [ $RUNSPEC_SWEEP_N != 1 ] || exit 9\n"
    assert applied(spec, SWEEP + script) == 1
    assert "best task 2 (n 2) with loss 2" in capsys.readouterr().err

    rows = reported(capsys, "job", "--html", "page.html")["tasks"]

    assert [(row["place"], row["task"], row["value"]) for row in rows] == [
        (1, 2, 2.0),
        (2, 0, 3.0),
        (None, 1, 1.0),
    ]
    assert rows[2]["why"] == "exited with code 9"
    assert "The best is task 2: n=2, with loss 2." in shown((tmp_path / "page.html").read_text())


def test_a_task_that_has_not_started_is_not_said_to_have_printed_nothing(
    spec: Path, capsys: Capture
) -> None:
    script = "max_parallel: 1\nrun: |\n  echo loss=1\n  sleep 600\n"
    spec.write_text(HEAD + SWEEP + script)
    assert run(["apply", "--detach", str(spec)]) == 0
    until(lambda: reported(capsys, "job")["tasks"][0]["value"] == 1.0)

    assert run(["cancel", "job"]) == 0

    rows = reported(capsys, "job")["tasks"]
    assert [(row["state"], row["why"]) for row in rows if row["value"] is None] == [
        ("not-started", "it has not started"),
        ("not-started", "it has not started"),
    ]


def test_a_ranking_is_columns_where_nobody_watches(spec: Path, capsys: Capture) -> None:
    applied(spec, SWEEP + "run: echo loss=$RUNSPEC_SWEEP_N.5\n")
    capsys.readouterr()

    assert run(["report", "job"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "place  task  n  loss  state",
        "    1     1  1   1.5  succeeded",
        "    2     2  2   2.5  succeeded",
        "    3     0  3   3.5  succeeded",
    ]


def test_a_metric_may_stand_in_a_file_of_an_output(spec: Path, capsys: Capture) -> None:
    text = (
        "sweep: {n: [3, 1, 2]}\noutputs: [{name: o, path: /job/o}]\n"
        "metric: {name: acc, goal: max, file: o/m/x.json, key: val.acc}\n"
        "run: |\n  [ $RUNSPEC_SWEEP_N != 2 ] || exit 0\n  mkdir ${outputs.o}/m\n"
        '  echo "{\\"val\\": {\\"acc\\": $RUNSPEC_SWEEP_N}}" > ${outputs.o}/m/x.json\n'
    )
    assert applied(spec, text) == 0

    rows = reported(capsys, "job")["tasks"]

    assert [(row["task"], row["value"], row["why"]) for row in rows] == [
        (0, 3.0, ""),
        (1, 1.0, ""),
        (2, None, "o/m/x.json was not saved"),
    ]


def test_a_file_that_is_too_large_is_not_read(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "FILE_BYTES", 10)
    text = "outputs: [{name: o, path: /job/o}]\nmetric: {name: a, goal: max, file: o/x, pattern: (x)}\n"
    applied(spec, text + "run: echo 123456789ab > ${outputs.o}/x\n")

    assert reported(capsys, "job")["tasks"][0]["why"] == "o/x has 12 bytes, more than 10"


def test_another_spec_may_say_what_is_measured(spec: Path, tmp_path: Path, capsys: Capture) -> None:
    applied(spec, "sweep: {n: [3, 1]}\nrun: echo speed $RUNSPEC_SWEEP_N\n")
    capsys.readouterr()
    assert run(["report", "job"]) == 0
    assert "--spec" in capsys.readouterr().err
    other = tmp_path / "other.yaml"
    other.write_text(HEAD + "metric: {name: v, goal: max, pattern: 'speed (.)'}\nrun: echo\n")

    found = reported(capsys, "job", "--spec", str(other))

    assert [row["value"] for row in found["tasks"]] == [3.0, 1.0]


def test_the_first_node_that_says_the_number_is_heard(spec: Path, capsys: Capture) -> None:
    text = "cluster: {nodes: 3}\nmetric: {name: v, goal: max, pattern: 'v=(.)'}\n"
    applied(spec, text + "run: '[ $RUNSPEC_RANK = 0 ] || echo v=$RUNSPEC_RANK'\n")

    assert reported(capsys, "job")["tasks"][0]["value"] == 1.0


def test_a_page_of_a_sweep_is_whole_and_names_its_tasks(spec: Path, tmp_path: Path) -> None:
    applied(spec, SWEEP + "run: echo loss=$RUNSPEC_SWEEP_N\n")

    assert run(["report", "job", "--html", "page.html"]) == 0

    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    (plot,) = [one for one in parsed(page).iter("figure") if dots(one)]
    assert plot.findtext("figcaption") == "loss by n" and len(dots(plot)) == 3
    text = shown(page)
    assert "The best is task 1: n=1, with loss 1." in text and "Phases and attempts" in text
    assert "3 attempts ended" in text and "echo loss=$RUNSPEC_SWEEP_N" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.yaml", "page.html"]


def test_a_run_without_a_metric_has_a_report_and_a_page(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    text = "retry: {attempts: 2}\nrun: '[ $RUNSPEC_ATTEMPT = 2 ] || exit 7'\n"
    assert applied(spec, text) == 0

    assert run(["report", "job", "--html", "page.html"]) == 0
    assert "metric" not in capsys.readouterr().err
    found = reported(capsys, "job", "--html", "page.html")

    assert {**found, "run": "job"} == {
        "format": "runspec.report/v1",
        "run": "job",
        "state": "succeeded",
        "reason": "",
        "exit_code": 0,
        "cost": None,
        "usage": {"sampled": 0, "why": "", "nodes": [], "advice": []},
    }
    page = (tmp_path / "page.html").read_text()
    assert "2 attempts ended, 1 failed" in shown(page)
    bars = [one.attrib["class"] for one in parsed(page).iter("rect") if "%" in one.attrib["x"]]
    assert bars.count("bar failed") == 1 and bars.count("bar succeeded") == 1
    capsys.readouterr()
    assert run(["report", "job"]) == 0
    told = capsys.readouterr()
    assert "    attempt 1 of 2: exit code 7" in told.out.splitlines()
    assert "the spec has no metric, so nothing is compared" in told.err


def test_the_numbers_of_a_log_are_a_curve_on_the_page(spec: Path, tmp_path: Path) -> None:
    lines = "for x in 5e9 300 0.2 nan 0.01; do echo loss=$x; done"
    applied(spec, f"metric: {{name: loss, goal: min, pattern: 'loss=(.*)'}}\nrun: {lines}\n")

    assert run(["report", "job", "--html", "page.html"]) == 0

    page = (tmp_path / "page.html").read_text()
    (curve,) = [one for one in parsed(page).iter("polyline") if len(one)]
    assert [at.split(",")[0] for at in curve.attrib["points"].split()] == [
        "0",
        "250",
        "500",
        "1000",
    ]
    assert "loss (log)" in page and "0.01 (last of 5 values)" in shown(page)


def test_a_page_of_a_run_that_goes_on_can_be_written(spec: Path, tmp_path: Path) -> None:
    applied(spec, "run: sleep 60\n", "-d")

    assert run(["report", "job", "--html", "page.html"]) == 0
    assert run(["cancel", "job"]) == 0

    assert "the page does not change" in shown((tmp_path / "page.html").read_text())


def test_a_long_progress_bar_is_read_to_its_end() -> None:
    watch = measure.MetricCollector(Metric(name="loss", goal="min", pattern="loss=([0-9.]+)"))

    watch.read_line(
        Line(0, 0, b"\r".join(b"%d loss=%d" % (n, 9000 - n) for n in range(8000)) + b"\r")
    )

    assert watch.get_measured(0).value == 1001


@pytest.mark.parametrize(
    "option", [["--baseline", "2"], ["--price-per-node-hour", "3"], ["--samples", "9"]]
)
def test_options_about_sizes_are_refused_for_a_sweep(
    option: list[str], spec: Path, capsys: Capture
) -> None:
    applied(spec, SWEEP + "run: echo loss=1\n")

    assert run(["report", "job", *option]) == 2
    assert (
        f"{option[0]} cannot be used with job, which has no sizes to compare"
        in capsys.readouterr().err
    )


def test_a_page_cannot_be_a_folder(spec: Path, capsys: Capture) -> None:
    applied(spec, SWEEP + "run: echo loss=1\n")

    assert run(["report", "job", "--html", "."]) == 2
    assert "--html: . is a folder" in capsys.readouterr().err
    assert [file.name for file in spec.parent.iterdir()] == ["job.yaml"]


def test_a_pattern_that_takes_too_long_is_ended() -> None:
    metric = Metric(name="m", goal="max", pattern=r"(\w*\w*\w*\w*\w*\w*\w*\w*\w*)!")
    line = Line(0, 0, b"x" * 4000)

    with measure.Bounded(0.2) as bounded, pytest.raises(UsageError, match="took more than"):
        bounded.read_line(measure.MetricCollector(metric), line)


def test_the_time_limit_of_a_pattern_is_for_each_line() -> None:
    metric = Metric(name="m", goal="max", pattern="x(.)")
    watch, end = measure.MetricCollector(metric), time.process_time() + 0.2

    with measure.Bounded(0.02) as bounded:
        while time.process_time() < end:
            bounded.read_line(watch, Line(0, 0, b"xy x1"))

    assert watch.get_measured(0).why == "the text that was found is not a number"


# Stopping the rest

STOPPED = (
    "sweep: {n: 1..4}\nmax_parallel: 3\n"
    "metric: {name: acc, goal: max, pattern: 'acc=(.*)', stop: {above: 0.9}}\n"
    "run: |\n  echo acc=0.1\n  [ $RUNSPEC_TASK != 1 ] || { echo acc=0.95; sleep 0.5; exit 0; }\n  sleep 600\n"
)


def test_the_rest_is_stopped_once_a_task_is_good_enough(spec: Path, capsys: Capture) -> None:
    began = time.monotonic()

    assert applied(spec, STOPPED) == 0

    assert time.monotonic() - began < SOON_S
    told = capsys.readouterr().err
    assert "task 1 has acc 0.95: stopping the others" in told
    assert "3 tasks were stopped" in told
    found = reported(capsys, "job")["tasks"]
    assert {row["task"]: row["state"] for row in found} == {
        0: "cancelled",
        1: "succeeded",
        2: "cancelled",
        3: "cancelled",
    }
    assert run_record.find("job").read_memory().stopped == {0, 2, 3}


def test_a_task_that_fails_stops_no_other(spec: Path, capsys: Capture) -> None:
    text = (
        "sweep: {n: [1, 2]}\n"
        "metric: {name: acc, goal: max, pattern: 'acc=(.*)', stop: {above: 0.9}}\n"
        "run: |\n  [ $RUNSPEC_TASK != 1 ] || { echo acc=0.95; exit 1; }\n  sleep 2\n  echo acc=0.1\n"
    )
    assert applied(spec, text) == 1

    assert "stopping the others" not in capsys.readouterr().err
    rows = reported(capsys, "job")["tasks"]
    assert [(row["place"], row["task"], row["state"]) for row in rows] == [
        (1, 0, "succeeded"),
        (None, 1, "failed"),
    ]


def test_report_follow_stops_the_other_tasks(spec: Path, capsys: Capture) -> None:
    applied(spec, STOPPED, "-d")

    found = reported(capsys, "job", "--follow")

    assert (found["state"], found["tasks"][0]["task"], found["tasks"][0]["value"]) == (
        "succeeded",
        1,
        0.95,
    )
    assert applied(spec, STOPPED) == 0  # it is done: nothing is started again
    assert len(run_record.list_runs("job")) == 1
    capsys.readouterr()
    assert run(["report", "job", "--follow"]) == 0
    assert "are stopped" not in capsys.readouterr().err


def test_logs_stops_no_task(spec: Path, capsys: Capture) -> None:
    applied(spec, STOPPED, "-d")
    until(lambda: run(["logs", "job"]) == 0 and "acc=0.95" in capsys.readouterr().out)

    assert run(["logs", "-f", "--timeout", "1s", "job"]) == 124

    assert run_record.find("job").read_memory().stopped == set()
    assert run(["cancel", "job"]) == 0


def test_all_but_the_best_are_stopped_when_asked(spec: Path, capsys: Capture) -> None:
    text = "sweep: {n: [5, 7, 6]}\nmax_parallel: 3\nmetric: {name: acc, goal: max, pattern: 'acc=(.*)'}\n"
    applied(spec, text + "run: echo acc=$RUNSPEC_SWEEP_N; sleep 60\n", "-d")
    until(lambda: [row["value"] for row in reported(capsys, "job")["tasks"]] == [7, 6, 5])

    assert run(["report", "job", "--stop-rest"]) == 0
    until(
        lambda: (
            [row["state"] for row in reported(capsys, "job")["tasks"]]
            == ["running", "cancelled", "cancelled"]
        )
    )
    assert run(["cancel", "job"]) == 0


def test_a_task_that_failed_is_not_what_the_others_are_stopped_for(
    spec: Path, capsys: Capture
) -> None:
    script = (
        "run: |\n  echo loss=$RUNSPEC_SWEEP_N\n  [ $RUNSPEC_SWEEP_N != 1 ] || exit 9\n  sleep 60\n"
    )
    applied(spec, SWEEP + script, "-d")
    until(lambda: [t["value"] for t in reported(capsys, "job")["tasks"]] == [2, 3, 1])

    assert run(["report", "job", "--stop-rest"]) == 0

    assert "stopping 1 task; task 2 is the best so far" in capsys.readouterr().err
    assert run(["cancel", "job"]) == 0


def test_nothing_is_stopped_before_there_is_a_best(spec: Path, capsys: Capture) -> None:
    applied(spec, SWEEP + "run: sleep 60\n", "-d")

    assert run(["report", "job", "--stop-rest"]) == 2
    assert "no task has a value of the metric yet" in capsys.readouterr().err
    assert run(["cancel", "job"]) == 0


def test_a_provider_that_cannot_stop_tasks_says_so_and_all_of_them_end(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unable:
        """All that the client of this machine can, but one thing."""

        def __init__(self, client: Any) -> None:
            for name in set(dir(client)) - {*dir(self), "stop"}:
                setattr(self, name, getattr(client, name))

    connect = type(PROVIDER).connect
    monkeypatch.setattr(type(PROVIDER), "connect", lambda *of: Unable(connect(*of)))

    assert applied(spec, STOPPED.replace("sleep 60", "sleep 0.2")) == 0

    told = capsys.readouterr().err
    assert "'local' cannot stop single tasks: all of them run to their end" in told
    assert run(["report", "job", "--stop-rest"]) == 0  # nothing is left to stop


def test_the_rest_is_stopped_by_the_same_command_after_it_was_killed(
    spec: Path, capsys: Capture
) -> None:
    spec.write_text(HEAD + STOPPED)
    program = [sys.executable, "-m", "runspec_jobs", "apply", str(spec)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as killed:
        until(lambda: run_record.list_all() and run_record.find("job").read_memory().answers)
        killed.send_signal(signal.SIGKILL)

    assert applied(spec, STOPPED) == 0

    assert len(run_record.list_runs("job")) == 1
    assert reported(capsys, "job")["state"] == "succeeded"


# Sizes

SIZES_PATH = str(ROOT / "specs" / "scaling" / "resnet50-imagenet.json")


@pytest.mark.parametrize(
    "word", ["job", "--follow", "--stop-rest", "--timeout=1m", "--spec=x.yaml"]
)
def test_options_about_a_run_are_refused_with_points(word: str, capsys: Capture) -> None:
    assert run(["report", "--points", SIZES_PATH, word]) == 2
    said = capsys.readouterr().err
    assert f"{word.partition('=')[0]} cannot be used with --points FILE" in said


SCALING = "scaling: {nodes: [1, 2, 4], batch: 64, data: synthetic, software: none}\n"
SPEED = "metric: {name: speed, goal: max, pattern: 'speed (.*)'}\n"
PRINT = "run: '[ $RUNSPEC_RANK != 0 ] || echo speed $((RUNSPEC_NODES * 100 - (RUNSPEC_NODES - 1) * 10))'\n"


def test_a_job_is_run_at_each_size_and_compared(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert applied(spec, SCALING + SPEED + PRINT) == 0

    asked = ["--price-per-node-hour", "3.6", "--samples", "1e6", "--html", "page.html"]
    found = reported(capsys, "job", *asked)

    (series,) = found["series"]
    assert [(p["size"], p["throughput"]) for p in series["points"]] == [
        (1, 100),
        (2, 190),
        (4, 370),
    ]
    assert [round(p["efficiency"], 3) for p in series["points"]] == [1, 0.95, 0.925]
    assert series["points"][0]["cost_per_million"] == pytest.approx(10)
    assert 0.02 < series["fit"]["lost"] < 0.06
    assert series["baseline"] == {
        "size": 1,
        "gpus_per_node": 0,
        "processes_per_node": 1,
        "batch": 64,
        "data": "synthetic",
        "software": "none",
        "provider": "local",
        "metric": "speed: the pattern speed (.*) in the log, last",
    }
    assert [p["note"][:7] for p in series["points"]] == ["job-n1-", "job-n2-", "job-n4-"]
    assert (tmp_path / "page.html").read_text().count("<figure>") == 2


def test_the_same_apply_again_starts_nothing(spec: Path, capsys: Capture) -> None:
    applied(spec, SCALING + SPEED + PRINT)
    capsys.readouterr()

    assert applied(spec, SCALING + SPEED + PRINT) == 0

    assert capsys.readouterr().err.count("starting no other") == 3
    assert len(run_record.list_all()) == 3


def test_a_size_that_failed_is_told_and_is_all_that_is_tried_again(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    broken = (
        f"run: |\n  [ $RUNSPEC_NODES != 2 ] || [ -e {tmp_path}/go ] || exit 3\n  echo speed 7\n"
    )
    assert applied(spec, "scaling: [1, 2]\n" + SPEED + broken) == 1
    points = reported(capsys, "job")["series"][0]["points"]
    assert [p["throughput"] for p in points] == [7, None]
    assert "exited with code 3" in points[1]["why"]
    (tmp_path / "go").touch()

    assert applied(spec, "scaling: [1, 2]\n" + SPEED + broken) == 0

    assert [len(run_record.list_runs(f"job-n{n}")) for n in (1, 2)] == [1, 2]
    points = reported(capsys, "job")["series"][0]["points"]
    assert [p["throughput"] for p in points] == [7, 7]


def test_numbers_of_processes_on_one_node_are_compared(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Each is a run of its own; a process has its share of what the node costs."""
    (tmp_path / "torchrun").write_text(TORCHRUN)
    (tmp_path / "torchrun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = "run: '[ $RANK != 0 ] || echo speed $((WORLD_SIZE * 100))'\n"

    assert applied(spec, "launch: torchrun\nscaling: {processes: [1, 2]}\n" + SPEED + told) == 0

    assert [r.name for r in run_record.list_all()] == ["job-p1", "job-p2"]
    (found,) = reported(capsys, "job", "--price-per-node-hour", "3.6")["series"]
    assert (found["unit"], found["per_node"]) == ("processes", 2)
    shown = ("size", "throughput", "efficiency", "cost_per_million")
    assert [tuple(p[key] for key in shown) for p in found["points"]] == [
        (1, 100, 1, 5),
        (2, 200, 1, 5),
    ]
    assert run(["report", "job"]) == 0
    assert "1 process; 0 GPUs a node" in capsys.readouterr().out
    assert run(["destroy", "job"]) == 0
    assert run_group.find("job") is None


def test_sizes_that_were_never_applied_are_told(spec: Path, capsys: Capture) -> None:
    applied(spec, "scaling: [1]\n" + SPEED + PRINT)
    found = run_group.find("job")
    assert found is not None
    run_group.keep(found, (HEAD + "scaling: [1, 3]\n" + SPEED + PRINT).encode())

    points = reported(capsys, "job")["series"][0]["points"]

    assert [(p["size"], p["why"]) for p in points] == [(1, ""), (3, "not applied yet")]


def test_every_size_is_planned_and_checked_before_any_is_run(spec: Path, capsys: Capture) -> None:
    spec.write_text(HEAD + "scaling: [1, 2]\n" + PRINT)
    assert run(["plan", str(spec)]) == 0
    assert capsys.readouterr().out.count("plan for local") == 2

    assert applied(spec, "scaling: [1, 2]\ncluster: {gpus: 64}\n" + PRINT) != 0
    assert run_record.list_all() == []


def test_a_group_is_cancelled_and_destroyed_by_its_name(spec: Path, capsys: Capture) -> None:
    applied(spec, "scaling: [1, 2]\nrun: sleep 60\n", "-d")
    capsys.readouterr()

    assert run(["status", "job"]) == 2
    assert "name one of them: job-n1, job-n2" in capsys.readouterr().err
    assert run(["cancel", "job"]) == 0
    assert [r.read_memory().want for r in run_record.list_all()] == ["cancel", "cancel"]
    assert run(["destroy", "job"]) == 0
    assert [r.read_memory().deleted for r in run_record.list_all()] == [True, True]
    assert run_group.find("job") is None


def test_a_group_none_of_whose_runs_was_made_can_be_destroyed(spec: Path) -> None:
    applied(spec, "scaling: [1]\n" + SPEED + PRINT)
    group = run_group.find("job")
    assert group is not None
    assert run(["destroy", "job"]) == 0
    run_group.keep(group, spec.read_bytes())

    assert run(["destroy", "job"]) == 0
    assert run_group.find("job") is None


def test_the_name_of_a_group_means_a_run_once_one_was_applied(spec: Path, capsys: Capture) -> None:
    applied(spec, "scaling: [1]\n" + SPEED + PRINT)
    applied(spec, SPEED + PRINT)

    assert reported(capsys, "job")["tasks"][0]["value"] == 100


def test_a_group_is_its_owners_alone(spec: Path) -> None:
    applied(spec, "scaling: [1]\n" + SPEED + PRINT)

    folder = Path(os.environ["RUNSPEC_HOME"]) / "groups"

    assert (folder.stat().st_mode & 0o777, (folder / "job.yaml").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
SCALARS = st.sampled_from(["3.10", "NO", "1:00", "0777", "true", "1e3", "0x1f", "~x", "'true'"])


UNITS = st.sampled_from(["scaling: [{}]\n", "launch: mpi\nscaling: {{processes: [{}]}}\n"])


@given(st.lists(WORDS, min_size=1, max_size=3), SCALARS, st.integers(1, 99), UNITS)
def test_the_text_of_a_size_reads_as_the_spec_of_that_size(
    words: list[str], value: str, size: int, unit: str
) -> None:
    command = json.dumps(["x", *words]) if "\x7f" not in "".join(words) else "[x]"
    more = f"cluster: {{cpus: 2}}\ncommand: {command}\nenv: {{A: {value}}}\n"
    text = f"{HEAD}{unit.format(size)}{more}"
    try:
        document = reader.read(text)
    except reader.YamlError:
        return  # what no reader takes is in no spec
    found, wrong = validate.parse_spec(document)
    assert found is not None, wrong

    again, problems = validate.parse_spec(reader.read(write_size(document.value, size)))

    assert problems == []
    assert again == select_size(found, size)


# Figures from elsewhere


def test_published_figures_are_reported_with_what_they_are_of(capsys: Capture) -> None:
    path = str(ROOT / "specs" / "scaling" / "resnet50-imagenet.json")
    assert run(["report", "--points", path, "--samples", "115305030"]) == 0

    told = capsys.readouterr().out

    assert "74.48" in told and "90.97" in told and "a = 0.01105" in told
    assert "22,742" in told and told.count("baseline:") == 3
    assert told.count("source:") == 3


def test_the_example_of_sizes_is_right() -> None:
    assert run(["validate", str(ROOT / "specs" / "scaling" / "pretend.yaml")]) == 0


def test_a_report_as_json_is_figures_for_another(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    applied(spec, SCALING + SPEED + PRINT)
    before = reported(capsys, "job")
    (tmp_path / "points.json").write_text(json.dumps(before))

    again = reported(capsys, "--points", "points.json", "--baseline", "2")

    assert again["series"][0]["baseline"]["size"] == 2
    assert [p["throughput"] for p in again["series"][0]["points"]] == [100, 190, 370]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "x"}',
        '{"format": "runspec.scaling/v1", "series": [{}]}',
        "[" * 99999,
    ],
)
def test_a_file_without_figures_is_told(text: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "points.json").write_text(text)

    assert run(["report", "--points", str(tmp_path / "points.json")]) == 2
    assert "cannot read measurements from" in capsys.readouterr().err


def test_a_missing_field_of_points_is_named(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "points.json").write_text('{"format": "runspec.scaling/v1"}')

    assert run(["report", "--points", str(tmp_path / "points.json")]) == 2
    assert "points.json: 'series' is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nothing"],
        ["--points", "no-such-file"],
        ["job", "--baseline", "x"],
        ["job", "--samples", "0"],
        ["job", "--price-per-node-hour", "nan"],
    ],
)
def test_a_report_of_nothing_is_a_mistake_that_is_told(words: list[str], capsys: Capture) -> None:
    assert run(["report", *words]) == 2
    assert capsys.readouterr().err
