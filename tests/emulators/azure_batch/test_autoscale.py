"""Autoscale formulas are evaluated as the guide says, and pools follow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from runspec_emulators.azure_batch.autoscale import formula
from runspec_emulators.azure_batch.autoscale.formula import Series
from runspec_emulators.azure_batch.autoscale.grammar import FormulaError
from tests.emulators.azure_batch.stand import Stand, until

# Samples of the last minutes: (seconds ago, value).
PENDING = Series([(120.0, 2.0), (90.0, 4.0), (60.0, 6.0), (30.0, 8.0)], 30.0)
VALUES: dict[str, Any] = {
    **{name: Series([], 30.0) for name in formula.SAMPLED},
    "$PendingTasks": PENDING,
    "$TargetDedicatedNodes": 3.0,
    "$TargetLowPriorityNodes": 0.0,
}


@pytest.mark.parametrize(
    "expression,value",
    [
        ("1 + 2 * 3 - 4 / 2", 5.0),
        ("-(1 + 2) * 3", -9.0),
        ("8 - 2 - 1 + 8 / 4 / 2", 6.0),
        ("2 > 1 && !(1 == 2) || 0", 1.0),
        ("1 < 0 ? 5 : 0 ? 6 : 7", 7.0),
        ("min(25, 7, 30)", 7.0),
        ("max($PendingTasks.GetSample(2))", 8.0),
        ("avg($PendingTasks.GetSample(TimeInterval_Minute * 1))", 7.0),
        ("avg($PendingTasks.GetSample(3 * TimeInterval_Minute, TimeInterval_Minute))", 4.0),
        ("sum($PendingTasks.GetSample(4) / 2)", 10.0),
        ("len($PendingTasks.GetSample(180 * TimeInterval_Second))", 4.0),
        ("$PendingTasks.GetSamplePercent(TimeInterval_Minute * 2)", 100.0),
        ("$PendingTasks.GetSamplePercent(TimeInterval_Minute * 4) < 70 ? 1 : 2", 1.0),
        ("val($PendingTasks.GetSample(3), 1)", 6.0),
        ("$TargetDedicatedNodes + 1", 4.0),
        ('(time("2026-01-01T10:30:00") + TimeInterval_Hour).hour', 11.0),
        ('time("2026-01-05").weekday', 1.0),
        ("percentile($PendingTasks.GetSample(4), 50)", 5.0),
        ("3 * ((7 > 0) + (7 > 3) + (7 > 6) + (7 > 9))", 9.0),
    ],
)
def test_an_expression_has_the_value_that_the_guide_says(expression: str, value: float) -> None:
    given = formula.evaluated(f"x = {expression}; // so\n", VALUES)

    assert given == {"x": value}


@pytest.mark.parametrize(
    "text,reason",
    [
        ("$TargetDedicatedNodes = $PendingTask.GetSample(1);", r"'\$PendingTask' is not known"),
        ("x = foo(1);", "'foo' is not known"),
        ("x = round(2.5);", "'round' is not known"),
        ("x = $PendingTasks.GetSamples(1);", "'GetSamples' is not known"),
        ("x = y; y = 1;", "'y' is not known"),
        ("$PendingTasks = 1;", "read only"),
        ("x = 1 +;", "an expression is expected"),
        ("x = (1;", "'\\)' is expected"),
        ("1 = 2;", "a variable is expected"),
        ("x = 1 y = 2", "';' is expected"),
        ("x = 1 # 2", "unexpected character '#'"),
        ("", "no statement"),
    ],
)
def test_a_formula_with_an_unknown_word_cannot_be_read(text: str, reason: str) -> None:
    with pytest.raises(FormulaError, match=reason):
        formula.check(text)


@pytest.mark.parametrize(
    "text",
    [
        "x = $ActiveTasks.GetSample(1);",
        "x = $PendingTasks.GetSample(TimeInterval_Hour, 70);",
        "x = 1 / 0;",
        "x = $PendingTasks + 1;",
        "$NodeDeallocationOption = 1;",
    ],
)
def test_a_formula_that_can_be_read_may_fail(text: str) -> None:
    formula.check(text)

    with pytest.raises(FormulaError):
        formula.evaluated(text, VALUES)


DRAIN = """
pending = max(0, $PendingTasks.GetSample(1));
$TargetDedicatedNodes = min(2, pending);
$TargetLowPriorityNodes = 0;
$NodeDeallocationOption = taskcompletion;
"""


@pytest.mark.slow
def test_a_pool_grows_with_its_tasks_and_drains_to_nothing(make: Callable[..., Stand]) -> None:
    stand = make().ready(enableAutoScale=True, autoScaleFormula=DRAIN)
    assert stand.nodes() == []

    for number in range(4):
        stand.sh("sleep 0.1", f"t{number}")

    until(lambda: len(stand.nodes()) == 2)
    for number in range(4):
        assert stand.end(f"t{number}")["executionInfo"]["requeueCount"] == 0
    until(lambda: stand.nodes() == [])
    pool = stand.client.get_pool("pool")
    assert "$TargetDedicatedNodes=0" in pool.auto_scale_run.results
    assert "$NodeDeallocationOption=taskcompletion" in pool.auto_scale_run.results


def test_a_gang_counts_as_many_pending_tasks_as_it_has_instances(
    make: Callable[..., Stand],
) -> None:
    more = {"enableInterNodeCommunication": True, "autoScaleFormula": DRAIN}
    stand = make().ready(enableAutoScale=True, **more)

    stand.sh(
        "true",
        multiInstanceSettings={"numberOfInstances": 2, "coordinationCommandLine": "/bin/true"},
    )

    assert stand.end()["executionInfo"]["exitCode"] == 0


@pytest.mark.parametrize(
    "more,code",
    [
        ({"autoScaleFormula": "x = $Nope;"}, "AutoScalingFormulaSyntaxError"),
        ({}, "autoScaleFormula"),
        ({"autoScaleFormula": DRAIN, "targetDedicatedNodes": 1}, "enableAutoScale is true"),
        ({"autoScaleFormula": DRAIN, "autoScaleEvaluationInterval": "PT1M"}, "5 minutes"),
    ],
)
def test_a_pool_is_refused_settings_of_autoscale_that_cannot_be(
    make: Callable[..., Stand], more: dict[str, Any], code: str
) -> None:
    with pytest.raises(HttpResponseError, match=code):
        make().pool(enableAutoScale=True, **more)


def test_a_formula_that_fails_leaves_the_pool_as_it_is(make: Callable[..., Stand]) -> None:
    stand = make()
    stand.pool(enableAutoScale=True, autoScaleFormula="$TargetDedicatedNodes = 1;")
    stand.idle(1)

    stand.client.enable_pool_auto_scale(
        "pool", {"autoScaleFormula": "$TargetDedicatedNodes = 1/0;"}
    )

    run = stand.client.get_pool("pool").auto_scale_run
    assert run.error.code == "AutoScalingFormulaEvaluationError"
    assert len(stand.nodes()) == 1


def test_a_formula_can_be_tried_without_being_used(make: Callable[..., Stand]) -> None:
    stand = make()
    stand.pool(enableAutoScale=True, autoScaleFormula="$TargetDedicatedNodes = 0;")
    body = {"autoScaleFormula": "$TargetDedicatedNodes = 2.1;"}

    run = stand.client.evaluate_pool_auto_scale("pool", body)

    assert "$TargetDedicatedNodes=3" in run.results
    assert stand.client.get_pool("pool").target_dedicated_nodes == 0


def test_a_pool_that_scales_by_itself_is_not_resized(make: Callable[..., Stand]) -> None:
    stand = make()
    stand.pool(enableAutoScale=True, autoScaleFormula="$TargetDedicatedNodes = 0;")

    status, _found = stand.raw("POST", "/pools/pool/resize", {"targetDedicatedNodes": 2})

    assert status == 409


def test_a_formula_that_is_given_again_is_evaluated_at_once(make: Callable[..., Stand]) -> None:
    """ "a new autoscale evaluation schedule will be started [...] when this request was issued"."""
    stand = make(autoscale_s=3600.0)
    stand.pool(enableAutoScale=True, autoScaleFormula="$TargetDedicatedNodes = 0;")

    body = {"autoScaleFormula": "$TargetDedicatedNodes = 2;", "autoScaleEvaluationInterval": "PT5M"}
    stand.client.enable_pool_auto_scale("pool", body)

    stand.idle(2)


def test_a_formula_is_not_given_twice_in_half_a_minute(make: Callable[..., Stand]) -> None:
    stand = make(enable_s=30.0)
    stand.pool(enableAutoScale=True, autoScaleFormula="$TargetDedicatedNodes = 0;")
    body = {"autoScaleFormula": "$TargetDedicatedNodes = 0;"}

    answers = [stand.raw("POST", "/pools/pool/enableautoscale", body) for _ in range(2)]

    assert [status for status, _ in answers] == [200, 503]
    assert answers[1][1]["code"] == "TooManyEnableAutoScaleRequests"


def test_a_formula_is_not_given_while_a_pool_is_resized(make: Callable[..., Stand]) -> None:
    stand = make(node_s=60.0)
    stand.pool(enableAutoScale=True, autoScaleFormula="$TargetDedicatedNodes = 1;")
    body = {"autoScaleFormula": "$TargetDedicatedNodes = 0;"}

    status, answer = stand.raw("POST", "/pools/pool/enableautoscale", body)

    assert (status, answer["code"]) == (409, "PoolBeingResized")
