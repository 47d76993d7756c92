"""The page of a run: it says what there is to say, is one file, and takes what strangers wrote as text."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.provider import State, Status
from runspec_jobs.report.metric_extraction import Measured
from runspec_jobs.report.page.frame import draw_table
from runspec_jobs.report.page.run_page import FailedLog, RunReport, run_page
from runspec_jobs.report.ranking import Task, rank_tasks
from runspec_jobs.report.tables import Table
from runspec_jobs.spec.metric import Metric
from tests.support.pages import dots, parsed, rows_of, shown
from tests.support.report_runs import (
    LOSS,
    RUNS,
    attempt,
    diverged,
    failed,
    node,
    node_usage,
    report,
    running,
    spot,
    sweep,
    used,
    when,
)

EVIL = "</title><script>alert(1)</script>&\"'"


@pytest.mark.parametrize("name", RUNS)
def test_a_page_is_one_file_that_runs_nothing(name: str) -> None:
    page = run_page(RUNS[name](), when)

    found = parsed(page)
    tags = {one.tag for one in found.iter()}
    assert not tags & {"script", "link", "img", "iframe", "object", "use", "image", "form", "a"}
    named = {attribute for one in found.iter() for attribute in one.attrib}
    assert not {n for n in named if n in ("src", "href", "action") or n.startswith("on")}
    assert not re.search(r"https?:|//|url\(|@import", page.replace("</", ""))
    assert "default-src 'none'" in page and "prefers-color-scheme: dark" in page


@pytest.mark.parametrize("name", RUNS)
def test_no_section_is_empty_and_no_number_has_many_digits(name: str) -> None:
    page = run_page(RUNS[name](), when)

    found = parsed(page).find("body")
    assert found is not None
    blocks = [one.tag for one in found]
    assert ("h2", "h2") not in set(pairwise(blocks)) and blocks[-1] != "h2"
    assert all(one.tag != "dl" or len(one) for one in found.iter())
    assert not re.search(r"\d\.0*[1-9]\d{4}", shown(page))


@pytest.mark.parametrize("name", RUNS)
def test_a_picture_has_a_name_and_a_description(name: str) -> None:
    figures = list(parsed(run_page(RUNS[name](), when)).iter("figure"))

    assert figures
    for figure in figures:
        picture = next(one for one in figure if one.tag == "svg")
        assert picture.attrib["role"] == "img" and picture.attrib["aria-label"]
        assert picture.findtext("desc")


def test_equal_reports_make_equal_pages() -> None:
    assert run_page(sweep(), when) == run_page(sweep(), when)


def test_ten_tasks_of_which_one_diverged_are_told_apart() -> None:
    """On a linear axis up to 9e10, nine dots were one."""
    page = parsed(run_page(diverged(), when))

    plots = [one for one in page.iter("figure") if "lr" in (one.findtext("figcaption") or "")]

    heights = sorted(y for _, y in dots(plots[0]))
    assert len(heights) == 10
    assert len({round(y / 3) for y in heights}) >= 7
    assert "loss (log)" in "".join(plots[0].itertext())


def test_the_best_task_is_marked_in_each_plot_and_in_the_table() -> None:
    found = sweep()
    best = found.ranking[0].task

    page = parsed(run_page(found, when))

    (row,) = [one for one in page.iter("tr") if one.attrib.get("class") == "best"]
    cells = ["".join(cell.itertext()) for cell in row]
    assert cells[:2] == ["★ 1", str(best.number)]
    assert f"The best is task {best.number}" in shown(run_page(found, when))
    curve, *by = [
        one for one in page.iter("figure") if "loss" in (one.findtext("figcaption") or "")
    ]
    of_best = [o for o in curve.iter("polyline") if o.attrib["class"] == "best" and len(o)]
    assert [o.findtext("title", "").startswith(f"task {best.number}:") for o in of_best] == [True]
    for figure in by:
        (group,) = [g for g in figure.iter("g") if g.attrib["class"] == "best" and dots(g)]
        assert len(dots(group)) == 1


def test_reclaims_are_counted_and_drawn() -> None:
    page = run_page(spot(), when)

    assert "3 attempts ended, 2 of spot machines that were reclaimed" in shown(page)
    bars = [one.attrib["class"] for one in parsed(page).iter("rect") if "%" in one.attrib["x"]]
    assert bars.count("bar reclaimed") == 2 and bars.count("bar succeeded") == 1


def test_a_page_of_a_run_that_goes_on_says_when_it_was_made() -> None:
    text = shown(run_page(running(), when))

    assert "This is what was known at 2025-11-24 00:33" in text
    assert "1 node" in text and "waiting for a machine" in text


def test_a_run_of_which_nothing_is_known_yet_has_a_page() -> None:
    found = report(Status(State.WAITING, "its apply was interrupted"))
    clock = found.clock._replace(submitted_s=None, ended_s=None)

    text = shown(run_page(found._replace(clock=clock, took_s={}), when))

    assert "its apply was interrupted" in text and "Phases" not in text


def test_prices_are_on_the_page_of_a_run_that_has_some() -> None:
    text = shown(run_page(RUNS["single"](), when))

    assert "g5.xlarge: 1.12 USD an hour, or g6.xlarge: price unknown" in text
    assert "No price is known" in shown(run_page(spot(), when))


def test_text_of_specs_and_logs_is_escaped_on_a_page() -> None:
    metric = Metric(name=EVIL, goal="max", pattern="(x)")
    tasks = [Task(i, {EVIL: f"{i}"}, EVIL, Measured(i / 3, EVIL, 2, [1.0, i])) for i in range(3)]
    nodes = tuple(node(n, 0, State.FAILED, reason=EVIL) for n in range(3))
    found = RunReport(
        EVIL,
        EVIL,
        Status(State.FAILED, EVIL, 1, nodes),
        (1, 3),
        report(Status(State.FAILED)).clock,
        {"job": EVIL},
        {"job": 1.0},
        EVIL,
        EVIL,
        ((EVIL, EVIL),),
        metric,
        rank_tasks(metric, tasks),
        machines={"catalogue": EVIL, "chosen": [{"name": EVIL, "usd_hour": 1.0}]},
    )

    page = parsed(run_page(found, lambda at: EVIL))

    assert "script" not in {one.tag for one in page.iter()}
    assert "".join(page.itertext()).count(EVIL) > 20


@given(
    st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.floats()), max_size=4)
)
def test_a_page_can_be_made_of_any_ranking(found: list[tuple[float, float]]) -> None:
    measured = [(x, Measured(y if math.isfinite(y) else None, "none", 2, [x, y])) for x, y in found]
    rows = [Task(i, {"x": repr(x)}, "failed", one) for i, (x, one) in enumerate(measured)]
    told = report(Status(State.FAILED), (1, len(rows)), metric=LOSS, ranking=rank_tasks(LOSS, rows))

    page = parsed(run_page(told, when))

    if len(rows) > 1:
        assert rows_of(page) >= len(rows)


def test_a_thousand_tasks_with_a_thousand_numbers_stay_below_2_mb() -> None:
    page = run_page(sweep(1000, 1000), when)

    assert len(page.encode()) < 2_000_000
    curves = [one for one in parsed(page).iter("polyline") if len(one)]
    assert len(curves) == 1000
    heights = [int(at.split(",")[1]) for one in curves for at in one.attrib["points"].split()]
    assert min(heights) <= 50 and max(heights) >= 950  # the extremes of all: the axis has 5 % more


def test_ten_thousand_tasks_with_ten_or_long_parameters_stay_below_2_mb() -> None:
    whole = sweep(10_000, 2)
    for name, more in (
        ("ten", {f"p{n}": f"0.0{n}234567890123456" for n in range(10)}),
        ("long", {f"text{n}": 300 * "x" for n in range(5)}),
    ):
        found = [
            p._replace(task=p.task._replace(values={**p.task.values, **more}))
            for p in whole.ranking
        ]
        page = run_page(whole._replace(ranking=found), when)

        assert len(page.encode()) < 2_000_000, name
        assert rows_of(parsed(page)) > (1000 if name == "ten" else 300)
        assert ("9,000 more tasks" in shown(page)) == (name == "ten")


def test_of_equal_tasks_the_first_is_marked() -> None:
    tasks = [Task(n, {"x": str(n)}, "succeeded", Measured(0.5, "", 2, [1, 0.5])) for n in (0, 1, 2)]
    told = report(Status(State.SUCCEEDED), (1, 3), metric=LOSS, ranking=rank_tasks(LOSS, tasks))

    page = parsed(run_page(told, when))

    best = [one for one in page.iter() if one.attrib.get("class") == "best"]
    assert sum(one.tag == "polyline" and len(one) > 0 for one in best) == 1
    assert sum(len(dots(one)) for one in best if one.tag == "g") == 1
    assert "(2 more have the same value)" in shown(run_page(told, when))


def test_more_tasks_than_a_page_can_hold_are_counted() -> None:
    assert "200 more tasks" in shown(run_page(sweep(1200, 2), when))


def test_a_title_stands_as_the_cells_below_it() -> None:
    found = Table(
        ("n", "lr", "remarks"), ((1.0, "0.00015642140528861185", "a"), (2.0, "1e-3", None))
    )

    made = draw_table(found)

    assert '<th>n</th><th>lr</th><th class="word">remarks</th>' in made
    assert '<td title="0.00015642140528861185">0.0001564</td>' in made


def test_a_page_shows_the_usage_of_a_run() -> None:
    page = run_page(RUNS["used"](), when)

    text = shown(page)
    assert "6.1 of 16 (mean 3.3)" in text
    assert "asked 64 GiB of memory, used 9 GiB at most: write memory: 12GiB" in text
    assert "asked 8 GPUs, used 4: write gpus: 4" in text
    titles = [one.findtext("figcaption") for one in parsed(page).iter("figure")]
    usage = [
        "CPUs in use",
        "Memory in use",
        "Disk of the job",
        "GPUs busy",
        "Memory of GPUs in use",
    ]
    assert titles[-5:] == usage
    assert "12.40 USD" in text and "2.40 USD (1 attempt, 0.50 h)" in text


def test_each_gpu_of_an_only_node_is_drawn() -> None:
    told = used()
    assert told.usage is not None
    told = told._replace(usage=told.usage._replace(nodes=(node_usage(0, 0, 3),)))

    page = parsed(run_page(told, when))

    figures = {one.findtext("figcaption"): one for one in page.iter("figure")}
    legend = ["".join(one.itertext()) for one in figures["GPUs busy"].iter("li")]
    assert legend == ["GPU 0", "GPU 1", "GPU 2"]


def test_of_many_nodes_five_are_drawn_and_all_are_in_the_table() -> None:
    page = run_page(RUNS["nodes_used"](), when)

    assert "5 of 18 nodes are drawn" in shown(page)
    figures = {one.findtext("figcaption"): one for one in parsed(page).iter("figure")}
    assert len(list(figures["Memory in use"].iter("li"))) == 6, "five nodes, and what was asked for"
    last = list(parsed(page).iter("table"))[-1]
    assert rows_of(last) == 18


def test_the_end_of_the_log_of_a_failed_job_is_on_its_page_as_text() -> None:
    end = FailedLog(0, 0, ["loss 1", "</pre><script>alert(1)</script>", "Killed"])

    page = run_page(failed()._replace(ends=[end]), when)

    assert "<script>" not in page
    (text,) = [one.text for one in parsed(page).iter("pre") if "Killed" in (one.text or "")]
    assert text == "loss 1\n</pre><script>alert(1)</script>\nKilled"
    assert "✗ the job: exit code 137" in shown(page)


def test_of_long_lines_of_a_log_the_last_ones_are_shown() -> None:
    end = FailedLog(0, 0, ["x" * 5000, "Killed"])

    page = run_page(failed()._replace(ends=[end]), when)

    (text,) = [one.text or "" for one in parsed(page).iter("pre") if "Killed" in (one.text or "")]
    assert text.startswith("…x") and text.endswith("x\nKilled") and len(text) == 4000


def test_failed_tasks_beyond_those_with_a_log_are_counted() -> None:
    nodes = tuple(node(n, 0, State.FAILED, attempt(1, 90, 400, 1), exit_code=1) for n in range(12))
    ends = [FailedLog(n, 0, None if n else []) for n in range(10)]
    run = report(Status(State.FAILED, "12 tasks failed", 1, nodes), (1, 12), ends=ends)

    text = shown(run_page(run, when))

    assert "✗ task 3: exit code 1" in text
    assert "2 more failed tasks are not shown." in text
    assert "Its log is empty." in text and "Its log was not read." in text


def test_failed_tasks_are_marked_by_a_cross_and_others_are_not() -> None:
    told = [placed.task for placed in sweep(3).ranking]
    told[1] = told[1]._replace(state="failed")

    page = parsed(run_page(sweep(3)._replace(ranking=rank_tasks(LOSS, told)), when))

    crossed = [row for row in page.iter("tr") if row.get("class") == "failed"]
    assert len(crossed) == 1
    assert "".join(crossed[0].itertext()).startswith("✗ ")


def test_attempts_that_failed_are_marked() -> None:
    page = parsed(run_page(failed(), when))

    assert len([row for row in page.iter("tr") if row.get("class") == "failed"]) == 2


def test_places_of_outputs_and_logs_are_on_the_page() -> None:
    places = [("outputs", "s3://b/<x>"), ("logs", "/logs")]

    text = shown(run_page(failed()._replace(places=places), when))

    assert "s3://b/<x>" in text and "/logs" in text


def test_a_run_without_a_price_says_where_to_write_one() -> None:
    run = report(Status(State.SUCCEEDED, "", 0, ()))

    assert "No price is known for" in shown(run_page(run._replace(machines={}, spent=[]), when))


def test_the_disk_of_a_job_is_what_it_filled_since_its_start() -> None:
    text = shown(run_page(used(), when))

    assert "disk 9 GiB more than at the start, of 100 GiB" in text
