"""Sweeps: what becomes tasks, in which order, and with which values, to the last digit."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from hypothesis import given, strategies as st

from runspec_agent.base.task_identity import values
from runspec_jobs.document import reader
from runspec_jobs.provider import Facts, Spec
from runspec_jobs.provider.commands import tasks
from runspec_jobs.provider.job_manifest import job_record
from runspec_jobs.provider.signed_urls import signed_job_lines
from runspec_jobs.spec import validate
from runspec_jobs.spec.placeholders import count_tasks, list_parameters
from runspec_jobs.spec.sampling import Draw
from runspec_jobs.spec.types import LARGEST
from tests.support.spec_examples import SHORT


def spec(sweep: str) -> Spec:
    found, wrong = validate.parse_spec(reader.read(f"{SHORT}sweep: {sweep}\n"))
    assert found is not None, wrong
    return found


def draws(of: str) -> list[Mapping[str, str]]:
    return list(tasks(spec(f"{{random: {of}}}")))


RANDOM = (
    "{trials: 3, seed: 7, draw: {lr: {log_uniform: [1e-5, 1e-1]}, drop: {uniform: [0, 0.5]}, "
    "depth: {integer: [1, 8]}, how: {choice: [sgd, adam]}}}"
)


def test_lists_that_go_together_are_one_part_of_the_product() -> None:
    found = tasks(spec("{seed: 1..2, list: {lr: [0.1, 1e-2], batch: [32, 64]}}"))

    assert [" ".join(task.values()) for task in found] == [
        "1 0.1 32",
        "1 1e-2 64",
        "2 0.1 32",
        "2 1e-2 64",
    ]


def test_draws_of_a_seed_never_change() -> None:
    assert [tuple(task.values()) for task in draws(RANDOM)] == [
        ("0.0021335274662541105", "0.04103065384959899", "3", "adam"),
        ("0.004221973032890281", "0.4256097691837079", "2", "sgd"),
        ("6.783183298676966e-05", "0.4056454972046619", "6", "adam"),
    ]


def test_draws_follow_the_documented_formula() -> None:
    """By the digest and the formula of the module."""
    digest = hashlib.sha256(b"runspec-draw/v1 7 2 lr 0").digest()
    share = int.from_bytes(digest[:8], "big") / 2**64

    assert math.isclose(float(draws(RANDOM)[2]["lr"]), 1e-5 * 1e4**share)


def test_more_trials_keep_the_earlier_draws() -> None:
    fewer = draws("{trials: 2, seed: 7, draw: {lr: {log_uniform: [1e-5, 1e-1]}}}")

    more = draws(RANDOM)

    assert [task["lr"] for task in more][:2] == [task["lr"] for task in fewer]


def test_another_seed_draws_other_values() -> None:
    other = draws(RANDOM.replace("seed: 7", "seed: 8"))

    assert not {task["lr"] for task in draws(RANDOM)} & {task["lr"] for task in other}


def test_each_draw_may_be_tried_with_each_value() -> None:
    found = tasks(spec(f"{{random: {RANDOM}, fold: [a, b]}}"))

    assert [task["fold"] for task in found] == ["a", "b"] * 3
    assert [task["lr"] for task in found[::2]] == [task["lr"] for task in draws(RANDOM)]


@given(st.integers(), st.integers(0, 9), st.integers(0, 40), st.integers(0, 40))
def test_a_whole_number_is_among_those_it_is_drawn_from(
    seed: int, trial: int, low: int, more: int
) -> None:
    assert low <= int(Draw(seed, trial, "n").draw_integer(low, low + more)) <= low + more


@given(st.integers(0, 99), st.floats(1e-300, 1e300), st.floats(1, 1e6))
def test_a_number_lies_between_its_bounds_and_says_all_its_digits(
    seed: int, low: float, times: float
) -> None:
    high = low * times
    for drawn in (Draw(seed, 0, "x").draw_uniform, Draw(seed, 0, "x").log_uniform):
        text = drawn(repr(low), repr(high))
        assert low <= float(text) <= high
        assert repr(float(text)) == text


def test_each_magnitude_is_as_likely() -> None:
    found = [Draw(1, n, "lr").log_uniform("1e-4", "1") for n in range(400)]

    powers = [math.floor(math.log10(float(text))) for text in found]

    assert all(70 < powers.count(power) < 130 for power in (-4, -3, -2, -1))


def test_every_whole_number_is_as_likely() -> None:
    found = [Draw(1, n, "n").draw_integer(0, 4) for n in range(1000)]

    assert all(150 < found.count(str(n)) < 250 for n in range(5))


VALUES = st.lists(st.text("ab", max_size=2), min_size=1, max_size=3).map(tuple)
TOGETHER = st.integers(1, 3).flatmap(
    lambda n: st.fixed_dictionaries(
        {name: st.lists(st.text("xy"), min_size=n, max_size=n).map(tuple) for name in ("i", "j")}
    )
)
SWEEPS = st.fixed_dictionaries({}, optional={"lr": VALUES, "list": TOGETHER, "seed": VALUES})


@given(SWEEPS.flatmap(lambda found: st.permutations(list(found.items())).map(dict)))
def test_a_job_finds_the_values_that_were_planned(sweep: dict[str, Any]) -> None:
    made = spec("{}").model_copy(update={"sweep": sweep})
    record = job_record(made, "job-abc123", Facts(None))

    found = [values(record["sweep"], n) for n in range(count_tasks(sweep))]

    assert found == [dict(task) for task in tasks(made)]
    assert all(list(task) == list_parameters(sweep) for task in tasks(made))


def test_signed_urls_say_which_values_go_together() -> None:
    made = spec("{list: {a: [1, 2], b: [x, y]}}")

    lines = [*signed_job_lines(made, [], lambda mount: "", lambda name, task: [], str, str)]

    assert lines[1:-5] == [
        "sweep=RUNSPEC_SWEEP_A 2",
        "value=1",
        "value=2",
        "with=RUNSPEC_SWEEP_B",
        "value=x",
        "value=y",
    ]
    assert str(lines[-3]).startswith("sample=[ -r ")
    assert lines[-2:] == ["0", "1"]


def test_a_whole_number_with_too_many_digits_is_refused_in_words_and_the_widest_range_is_drawn() -> (
    None
):
    """A range of more than 64 bits was never drawn to its end."""
    wide = f"{{random: {{trials: 2, draw: {{n: {{integer: [{-LARGEST}, {LARGEST}]}}}}}}}}"
    text = f"{SHORT}sweep: {wide.replace(f', {LARGEST}', f', {10**399}')}\n"

    _, problems = validate.parse_spec(reader.read(text))

    assert [p.what for p in problems] == ["a number of 400 digits is too large"]
    assert all(abs(int(task["n"])) <= LARGEST for task in tasks(spec(wide)))
