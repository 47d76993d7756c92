"""Scaling: the law, what follows from it, and figures that others have published."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.report.metric_extraction import Measured
from runspec_jobs.report.ranking import Task, find_reached, rank_tasks
from runspec_jobs.report.scaling_law import (
    Asked,
    Baseline,
    Fit,
    Point,
    Scaled,
    Series,
    fit,
    make_report,
    read_series,
    write_report,
)
from runspec_jobs.report.tables import list_scaling_facts, make_scaling_table
from runspec_jobs.spec.metric import Metric, Stop
from tests.support.root import ROOT

PUBLISHED = json.loads((ROOT / "specs" / "scaling" / "resnet50-imagenet.json").read_text())
IMAGES = 1_281_167  # of the training set: https://www.image-net.org/challenges/LSVRC/2012/
PRICE = 24.48  # of a P3.16xlarge and hour in 2018


def published(name: str, **asked: float) -> Scaled:
    (found,) = (one for one in PUBLISHED["series"] if one["name"] == name)
    return make_report(read_series(found), Asked(**asked))


def series(*found: tuple[float, float | None], **fields: object) -> Series:
    points = tuple(Point(size, speed) for size, speed in found)
    return Series("job", "nodes", points, **fields)  # type: ignore[arg-type] # what a test is about


def of_law(sizes: list[float], rate: float, lost: float) -> list[tuple[float, float | None]]:
    return [(n, n * rate / (1 + lost * (n - 1))) for n in sizes]


# Published figures of ResNet-50


def test_published_efficiency_at_256_gpus_is_what_the_figures_say() -> None:
    of = {name: published(name).rows[-1] for name in ("CUDA 9", "CUDA 10")}

    assert {name: row.size for name, row in of.items()} == {"CUDA 9": 256, "CUDA 10": 256}
    assert [round((row.efficiency or 0) * 100, 1) for row in of.values()] == [74.5, 91.0]


def test_published_efficiency_beside_4_gpus_is_another() -> None:
    """Which baseline it is makes the difference; three figures do not lie on one line."""
    found = published("CUDA 9, beside half a machine")

    assert [round((row.efficiency or 0) * 100, 1) for row in found.rows] == [100, 97.5, 72.6]
    assert found.base == 4
    assert found.fit is not None and 0 < found.fit.worst < 0.02


def test_the_law_of_the_published_figures_foretells_the_time_at_32_gpus() -> None:
    """The text says "about 4x" of 8 GPUs, and 90 to 110 minutes with start-up: no input of the fit."""
    found = published("CUDA 9", samples=90 * IMAGES, price_per_node_hour=PRICE)

    row = found.rows[1]

    assert found.fit is not None and round(found.fit.lost, 5) == 0.01105
    assert row.throughput is None and row.why
    assert (round(row.expected or 0), round((row.expected or 0) / 5874, 2)) == (22742, 3.87)
    assert round((row.hours or 0) * 60) == 85
    assert round(row.cost or 0) == 138


def test_the_published_256_gpus_take_less_than_15_minutes() -> None:
    row = published("CUDA 9", samples=90 * IMAGES).rows[-1]

    assert round((row.hours or 0) * 60, 1) == 13.7


def test_a_report_says_what_its_figures_are_of() -> None:
    told = dict(list_scaling_facts(published("CUDA 9", price_per_node_hour=PRICE)))

    assert told["baseline"] == "8 GPUs; 8 GPUs a node"
    assert (told["data"], told["batch"]) == ("synthetic", "2,048")
    assert "CUDA 9" in told["software"] and told["source"].startswith("https://")
    assert "a = 0.01105" in told["law"] and "parallel part 98.895%" in told["law"]


def test_facts_that_nobody_gave_are_shown_as_not_said() -> None:
    told = dict(list_scaling_facts(make_report(series((1, 10)), Asked())))

    assert (told["batch"], told["data"], told["software"]) == ("not said",) * 3
    assert told["law"] == "none: at least two sizes with a throughput are needed"


@pytest.mark.parametrize(
    ("throughput", "said"),
    [
        (19.0, "parallel part 94.737%"),
        (21.0, "faster than linear"),
        (8.0, "slower with more nodes"),
    ],
)
def test_the_law_names_a_parallel_part_only_where_there_is_one(
    throughput: float, said: str
) -> None:
    told = dict(list_scaling_facts(make_report(series((1, 10), (2, throughput)), Asked())))

    assert said in told["law"]
    assert ("parallel part" in told["law"]) == said.startswith("parallel part")


def test_a_size_that_is_slower_than_the_baseline_says_so() -> None:
    report = make_report(series((1, 10), (2, 18), (4, 9)), Asked())

    remarks = [row[-1] for row in make_scaling_table(report).rows]
    assert remarks == ["", "", "slower than 1 node"]


@pytest.mark.parametrize(("throughput", "parallel"), [(19.0, 0.9473), (21.0, None), (8.0, None)])
def test_a_program_is_told_no_share_below_0_or_above_1(
    throughput: float, parallel: float | None
) -> None:
    told = write_report(make_report(series((1, 10), (2, throughput)), Asked()))

    assert told["fit"]["parallel"] == (parallel and pytest.approx(parallel, abs=1e-4))


# The law


@given(
    st.lists(st.integers(1, 500), min_size=2, max_size=8, unique=True),
    st.floats(0.1, 1e6),
    st.floats(0, 0.5),
)
def test_a_law_is_found_again_in_what_follows_from_it(
    sizes: list[float], rate: float, lost: float
) -> None:
    found = fit([Point(*one) for one in of_law(sizes, rate, lost)], 1)

    assert found is not None
    assert found.rate == pytest.approx(rate, rel=1e-6)
    assert found.lost == pytest.approx(lost, abs=1e-6)
    assert found.worst < 1e-9


@pytest.mark.parametrize("rate", [0.999, 1.0, 1.001])
@pytest.mark.parametrize("lost", [0.997, 1.0, 1.003])
def test_no_law_beside_the_fitted_one_is_nearer(rate: float, lost: float) -> None:
    """By the relative distances of n / T: of a large size 1 % counts as much as of a small one."""
    points = [Point(1, 100), Point(2, 170), Point(8, 640), Point(64, 2000)]
    found = fit(points, 1)
    assert found is not None

    def distance(law: Fit) -> float:
        return sum(
            ((p.throughput or 0) / (law.compute_throughput(p.size) or 1) - 1) ** 2 for p in points
        )

    other = found._replace(rate=found.rate * rate, lost=found.lost * lost)
    assert distance(found) <= distance(other)
    assert distance(found) > 1e-3


def test_two_points_give_the_law_in_closed_form() -> None:
    one, other = (8.0, 5874.0), (256.0, 140_000.0)
    ratio = other[1] / one[1] / 32

    found = fit([Point(*one), Point(*other)], 8)

    assert found is not None and found.lost == pytest.approx((1 - ratio) / (ratio * 31))


def test_the_parallel_part_is_amdahls() -> None:
    """A tenth of the work is not parallel: no number of nodes is ten times as fast as one."""
    found = fit([Point(*one) for one in of_law([1, 2, 4], 10, 0.1)], 1)

    assert found is not None and found.parallel == pytest.approx(0.9)
    assert 99 < (found.compute_throughput(10_000) or 0) < 100


def test_sizes_without_a_number_are_told_and_do_not_count() -> None:
    found = make_report(series((1, None), (2, 10), (4, 16)), Asked())

    assert found.base == 2
    assert [row.efficiency for row in found.rows] == [None, 1.0, 0.8]


def test_the_baseline_can_be_named() -> None:
    found = make_report(series((1, 10), (2, 16), (4, 24)), Asked(base=2))

    assert [row.speedup for row in found.rows] == [0.625, 1.0, 1.5]
    assert make_report(series((1, 10)), Asked(base=3)).base is None


def test_a_sample_costs_what_its_nodes_cost_while_it_takes() -> None:
    found = make_report(series((1, 100), (4, 200)), Asked(price_per_node_hour=3.6, samples=720_000))

    assert [row.cost_per_million for row in found.rows] == pytest.approx([10, 20])
    assert [row.hours for row in found.rows] == pytest.approx([2, 1])
    assert [row.cost for row in found.rows] == pytest.approx([7.2, 14.4])


def test_fewer_than_two_sizes_have_no_law() -> None:
    assert fit([Point(2, 10), Point(2, 11)], 2) is None


def test_a_report_as_json_can_be_read_again() -> None:
    told = Baseline(8, 1, 256, "real", "torch", "slurm", "speed")
    before = series((1, 10.5), (2, None), baseline=told)

    again = read_series(json.loads(json.dumps(write_report(make_report(before, Asked())))))

    assert again == before


@pytest.mark.parametrize(
    "wrong", [{"size": 1e300}, {"size": 0}, {"size": 1, "throughput": -1}, {"size": "x"}, {}]
)
def test_a_point_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        read_series({"name": "a", "unit": "nodes", "points": [wrong]})


# Rankings

METRIC = Metric(name="acc", goal="max", pattern="(x)")


def tasks(*values: float | None) -> list[Task]:
    found = [Measured(v, "" if v is not None else "not begun") for v in values]
    return [Task(i, {"lr": f"1e-{i}"}, "succeeded", one) for i, one in enumerate(found)]


def test_the_best_comes_first_and_equals_share_a_place() -> None:
    found = rank_tasks(METRIC, tasks(0.5, 0.9, None, 0.5, 0.1))

    assert [(p.place, p.task.number) for p in found] == [(1, 1), (2, 0), (2, 3), (4, 4), (None, 2)]


def test_the_least_may_be_the_best() -> None:
    found = rank_tasks(Metric(name="loss", goal="min", pattern="(x)"), tasks(0.5, 0.1))

    assert [p.task.number for p in found] == [1, 0]


@pytest.mark.parametrize(("above", "number"), [("0.8", 1), ("0.9", None), ("0.4", 1)])
def test_the_rest_is_not_needed_once_one_is_good_enough(above: str, number: int | None) -> None:
    metric = Metric(name="acc", goal="max", pattern="(x)", stop=Stop(above=above))

    found = find_reached(metric, tasks(0.5, 0.9, None))

    assert (None if found is None else found.number) == number
