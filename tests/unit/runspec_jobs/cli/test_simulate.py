"""`runspec simulate`: what it prints, and what it says of files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from tests.support.root import ROOT

TRACES = ROOT / "docs" / "traces"
HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: [echo]\n"
SPEC = HEAD + (
    "cluster: {nodes: {min: 2, max: 8}, capacity: spot}\n"
    "outputs: [{name: model, path: /job/model, sync: 5m}]\n"
    "retry: {spot_attempts: 10}\n"
)
STEADY = "pools:\n  on-demand: {price: 10, nodes: 8}\n  spot: {price: 3, nodes: 8}\n"
LINEAR = "rate: 10\nserial: 0\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(SPEC)
    (tmp_path / "prices.yaml").write_text(STEADY)
    (tmp_path / "scaling.yaml").write_text(LINEAR)
    return tmp_path


def words(*more: str, prices: str = "prices.yaml", scaling: str = "scaling.yaml") -> list[str]:
    files = ["job.yaml", "--prices", prices, "--scaling", scaling]
    return ["simulate", *files, "--samples", "288,000", *more]


def told(capsys: Capture, *more: str, **files: str) -> dict[str, Any]:
    assert run(words("--json", *more, **files)) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_elastic_and_fixed_are_compared(here: Path, capsys: Capture) -> None:
    """288,000 samples on 8 nodes with 10 a second each are an hour."""
    found = told(capsys)

    shown = [(c["kind"], c["take"], round(c["time_s"]["mean"], -1)) for c in found["cases"]]
    assert shown == [
        ("elastic", {"spot": 8}, 3600),
        ("fixed", {"spot": 8}, 3600),
        ("fixed", {"on-demand": 8}, 3600),
    ]
    assert [round(c["cost"]["mean"]) for c in found["cases"]] == [24, 24, 80]
    assert [c["runs"] for c in found["cases"]] == [1, 1, 1]


def test_the_outputs_say_how_often_is_saved(here: Path, capsys: Capture) -> None:
    assert told(capsys)["costs"]["checkpoint_s"] == 300
    assert told(capsys, "--checkpoint", "90s")["costs"]["checkpoint_s"] == 90


def test_the_command_line_says_how_many_of_which_pool(here: Path, capsys: Capture) -> None:
    found = told(capsys, "--take", "on-demand=2,spot=6", "--fixed", "4")

    elastic, gang, stays = found["cases"]
    assert round(elastic["cost"]["mean"]) == 2 * 10 + 6 * 3
    assert (gang["nodes"], round(gang["cost"]["mean"])) == ({"min": 4, "max": 4}, 2 * 26 + 0)
    assert stays["take"] == {"on-demand": 4}


def test_a_pool_of_the_spec_is_the_pool_of_that_name(here: Path, capsys: Capture) -> None:
    (here / "job.yaml").write_text(SPEC.replace("spot}", "'pool:night'}", 1))
    (here / "prices.yaml").write_text(STEADY + "  night: {price: 1, nodes: 8}\n")

    found = told(capsys)["cases"]

    assert [c["take"] for c in found] == [{"night": 8}, {"night": 8}, {"on-demand": 8}]
    assert round(found[0]["cost"]["mean"]) == 8


def test_a_seed_gives_the_same_and_another_one_something_else(here: Path, capsys: Capture) -> None:
    drawn = "  spot: {price: 3, nodes: 8, losses_per_hour: 1, wait: 30m}\n"
    (here / "prices.yaml").write_text("pools:\n" + drawn)

    first, again, other = (told(capsys, "--seed", s, "--runs", "9") for s in ("1", "1", "2"))

    assert first == again
    assert first["cases"] != other["cases"]
    assert first["cases"][0]["runs"] == 9


def test_a_person_sees_each_beside_the_last(here: Path, capsys: Capture) -> None:
    assert run(words()) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("work     288,000 samples; 10/s on 1, 20/s on 2, 80/s on 8 nodes")
    assert lines[1:3] == [
        "changes  10s without work after a node joined, 15s after one left or was lost",
        "saves    every 5m",
    ]
    assert [line.split("(")[0].strip() for line in lines[-3:]] == [
        "elastic 2..8",
        "fixed 8",
        "fixed 8",
    ]
    assert "-70 %" in lines[-3]


def test_figures_stand_below_each_other_however_long_the_names_are(
    here: Path, capsys: Capture
) -> None:
    assert run(words("--take", "on-demand=1,spot=7", "--fixed", "8")) == 0

    head, *rows = capsys.readouterr().out.splitlines()[-4:]
    assert len({len(line) for line in (head, *rows)}) == 1


def test_runs_that_never_finish_are_told(here: Path, capsys: Capture) -> None:
    (here / "job.yaml").write_text(SPEC.replace("10", "1"))
    table = "time,pool,price,nodes,lost\n0,spot,3,8,\n60,spot,,,8\n"
    (here / "prices.csv").write_text(table)

    assert run(words(prices="prices.csv")) == 0

    shown = capsys.readouterr().out
    assert "1 of 1 did not finish: too few machines or attempts are left" in shown
    assert "1 of 1 did not finish: all 1 attempts were reclaimed" in shown


def test_a_cost_is_not_compared_with_that_of_a_job_that_did_not_finish(
    here: Path, capsys: Capture
) -> None:
    table = "time,pool,price,nodes\n0,spot,3,8\n0,on-demand,10,8\n60,on-demand,,4\n"
    (here / "prices.csv").write_text(table)

    assert run(words(prices="prices.csv")) == 0

    elastic, _, fixed, why = capsys.readouterr().out.splitlines()[-4:]
    assert (fixed.split()[-6:-4], "did not finish" in why) == (["-", "-"], True)
    assert "%" not in elastic


@pytest.mark.parametrize("trace", sorted(TRACES.glob("*.csv")) + sorted(TRACES.glob("[!r]*.yaml")))
def test_every_trace_that_is_shipped_can_be_read_and_says_where_it_is_from(
    here: Path, capsys: Capture, trace: Path
) -> None:
    scaling = str(TRACES / "resnet50-p3.yaml")

    assert (
        run(words("--runs", "2", "--take", "on-demand=2", prices=str(trace), scaling=scaling)) == 0
    )
    assert "prices   made for the documentation of runspec" in capsys.readouterr().out


def test_a_table_says_the_same_as_a_file_in_yaml(here: Path, capsys: Capture) -> None:
    (here / "prices.csv").write_text(
        "# from nowhere\n"
        "time,pool,price,nodes,lost,boot\n"
        "0,spot,3,8,,1m\n"
        "10m,spot,4,,,\n"
        "1200,spot,,,2,\n"
    )
    (here / "prices.yaml").write_text(
        "pools: {spot: {price: 3, nodes: 8, boot: 1m}}\n"
        "events:\n"
        "  - {time: 600, pool: spot, price: 4}\n"
        "  - {time: 20m, pool: spot, lost: 2}\n"
    )

    assert told(capsys, prices="prices.csv") == told(capsys)


def report(*names: str) -> str:
    """Give what `runspec report --json` prints: GPUs, of which a node has two, and a size without a number."""
    rows = [
        {"size": 2, "throughput": 10.0, "speedup": 1.0, "why": "", "cost": None},
        {"size": 4, "throughput": None, "speedup": None, "why": "it failed"},
        {"size": 16, "throughput": 80.0, "speedup": 8.0, "why": ""},
    ]
    one = {"unit": "GPUs", "per_node": 2, "fit": {"rate": 1}, "points": rows}
    series = [{"name": name, **one} for name in names]
    return json.dumps({"format": "runspec.scaling/v1", "title": "t", "notes": [], "series": series})


def test_a_report_in_json_is_read_as_it_is(here: Path, capsys: Capture) -> None:
    (here / "report.json").write_text(report("job"))

    found = told(capsys, scaling="report.json")

    assert found["samples_per_s"] == [[1, 10], [8, 80]]
    assert round(found["cases"][-1]["time_s"]["mean"]) == 3600


def test_a_file_of_several_series_needs_the_option_series(here: Path, capsys: Capture) -> None:
    (here / "report.json").write_text(report("synthetic", "real"))

    assert told(capsys, "--series", "real", scaling="report.json")["samples_per_s"][1] == [8, 80]
    for more, what in (([], "several series"), (["--series", "unreal"], "no series 'unreal'")):
        assert run(words(*more, scaling="report.json")) == 2
        assert f"{what}; the series are synthetic, real" in capsys.readouterr().err


# What is wrong


@pytest.mark.parametrize(
    "text,where,what",
    [
        ("pools: {}\n", "1:8: pools", "must not be empty"),
        ("pools: {spot: {price: much, nodes: 1}}\n", "1:23", "'much' is not a number"),
        ("pools: {spot: {price: 1, nodes: 1.5}}\n", "1:33", "fractional"),
        ("pools: {spot: {price: -1, nodes: 1}}\n", "1:23", "must be at least 0 (got -1)"),
        ("pools: {spot: {price: 1}}\n", "1:15", "'nodes' is missing"),
        ("pools: {spot: {price: 1, nodes: 1, bot: 1m}}\n", "1:36", "unknown key 'bot'"),
        ("pools: {spot: {price: .inf, nodes: 1}}\n", "1:23", "'.inf' is not a number"),
        (STEADY + "events: [{time: 1x, pool: spot, lost: 1}]\n", "4:17", "not a length of time"),
        (STEADY + "events: [{time: 1, pool: sport, lost: 1}]\n", "4:26", "no pool 'sport'"),
        (STEADY + "events: [{time: 1, pool: spot}]\n", "4:10", "this event changes nothing"),
        (
            STEADY
            + "events:\n- {time: 9, pool: spot, lost: 1}\n- {time: 1m, pool: spot, lost: 1}\n"
            "- {time: 8, pool: spot, lost: 1}\n",
            "7:10",
            "this time is earlier than the one before",
        ),
        ("pools: {on-demand: {price: 1, nodes: 1}}\n", "1:1: pools", "there is no pool 'spot'"),
    ],
)
def test_a_mistake_in_prices_is_reported_at_its_line(
    here: Path, capsys: Capture, text: str, where: str, what: str
) -> None:
    (here / "prices.yaml").write_text(text)

    assert run(words()) == 2

    told = capsys.readouterr().err
    assert f"prices.yaml:{where}" in told
    assert what in told


@pytest.mark.parametrize(
    "text,where,what",
    [
        ("", "1:1", "the file is empty"),
        ("# only a word\n", "1:1", "the file is empty"),
        ("time,pool,prize\n", "1:11", "did you mean 'price'?"),
        ("time,price\n", "1:1", "there is no column 'pool'"),
        ("time,pool,price,nodes,price\n", "1:11", "'price' is used twice"),
        (
            "time,pool,price,nodes\n0,spot,1\n",
            "2:1",
            "this row has 3 values, but the table has 4 columns",
        ),
        ("time,pool,price,nodes\n0,spot,1,8\n\n9, spot,x,\n", "4:9", "'x' is not a number"),
        ("time,pool,price,nodes\n60,spot,1,8\n", "2:1", "is not for time 0"),
        ("time,pool,price,nodes\n0,spot,1,8\n60,,1,8\n", "3:1", "'pool' is missing"),
        ("time,pool,price,nodes,lost\n0,spot,1,8,2\n", "2:12", "unknown key 'lost'"),
        ("time,pool,price,nodes,boot\n0,spot,1,8,\n9,spot,1,8,1m\n", "3:12", "unknown key 'boot'"),
        ("time,pool,price,nodes\n0,spot,,8\n", "2:1", "'price' is missing"),
    ],
)
def test_a_mistake_in_a_csv_file_is_reported_at_its_line(
    here: Path, capsys: Capture, text: str, where: str, what: str
) -> None:
    (here / "prices.csv").write_text(text)

    assert run(words(prices="prices.csv")) == 2

    told = capsys.readouterr().err
    assert f"prices.csv:{where}" in told
    assert what in told


@pytest.mark.parametrize(
    "text,where,what",
    [
        ("about: nothing\n", "1:1", "either points or rate is required"),
        ("rate: 0\n", "1:7", "must be above 0 (got 0)"),
        (
            "points: [{size: 1, throughput: 1}]\nrate: 1\n",
            "1:1",
            "either points or rate is required",
        ),
        (
            "points: [{size: 1, throughput: 1}, {size: 1, throughput: 2}]\n",
            "1:43",
            "the size 1 is listed twice",
        ),
        (
            "points: [{size: 7, throughput: 70}, {size: 8, throughput: 60}]\n",
            "1:9",
            "no positive throughput follows from these points for 4 nodes",
        ),
    ],
)
def test_a_mistake_in_a_scaling_file_is_reported_at_its_line(
    here: Path, capsys: Capture, text: str, where: str, what: str
) -> None:
    (here / "scaling.yaml").write_text(text)

    assert run(words()) == 2

    told = capsys.readouterr().err
    assert f"scaling.yaml:{where}" in told
    assert what in told


@pytest.mark.parametrize(
    "more,what",
    [
        (["--take", "spot"], "'spot' is not POOL=N with N of at least 1"),
        (["--take", "spot=0"], "'spot=0' is not POOL=N with N of at least 1"),
        (["--take", "spot=1,spot=2"], "the pool 'spot' is used twice"),
        (["--take", "sport=1"], "prices.yaml has no pool 'sport'"),
        (["--join", "soon"], "--join: 'soon' is not a length of time"),
        (["--checkpoint", "0s"], "the time between two saves must be more than 0"),
        (["--runs", "0"], "'0' is not a whole number of at least 1"),
        (["--fixed", "1001"], "cannot simulate 1,001 nodes"),
        (["--epochs", "many"], "'many' is not a whole number"),
    ],
)
def test_a_wrong_option_is_refused(here: Path, capsys: Capture, more: list[str], what: str) -> None:
    assert run(words(*more)) == 2
    assert what in capsys.readouterr().err


def test_mistakes_in_all_files_are_reported_at_once(here: Path, capsys: Capture) -> None:
    for name in ("job.yaml", "prices.yaml", "scaling.yaml"):
        (here / name).write_text("nothing: here\n")

    assert run(words()) == 2

    told = capsys.readouterr().err
    for name in ("job.yaml", "prices.yaml", "scaling.yaml"):
        assert f"{name}:1:" in told
