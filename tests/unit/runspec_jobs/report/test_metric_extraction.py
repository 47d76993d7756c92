"""Metrics: what is found in logs and files, and what is not."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.report.log_tables import Reader, Row, make_table
from runspec_jobs.report.metric_extraction import (
    LINE_CHARACTERS,
    Measured,
    measure_file,
    measure_text,
)
from runspec_jobs.spec.metric import Metric
from runspec_jobs.spec.regex_safety import find_trouble

HOROVOD = """\
Horovod size:  8
- Step 1
  Step Epoch Speed   Loss  FinLoss   LR
     0   0.0   305.9  6.942  8.332 0.00100
    50   0.3  5874.2  6.917  8.290 0.06400
   100   0.6  5880.0    nan  8.290 0.06400
Finished in 99.9
 1 2 3 4 5 6 7
"""
MXNET = """\
INFO:root:Start training with [gpu(0)]
INFO:root:Epoch[0] Batch [100]\tSpeed: 15554.63 samples/sec\taccuracy=0.512000
INFO:root:Epoch[0] Batch [100-200]\tSpeed: 15500.00 samples/sec\taccuracy=0.6\tloss=1e-2
INFO:root:Epoch[0] Train-accuracy=0.9
INFO:root:Epoch[0] Time cost=3.190
INFO:root:Epoch[0] Validation-accuracy=0.969
"""
CHAINER = """\
Num process (COMM_WORLD): 2
==========================================
epoch       main/loss   validation/main/loss  main/accuracy  validation/main/accuracy  elapsed_time
\x1b[J1           1.28782     0.292442              0.62625        0.90898                   1.23484
     total [#.....]  5.00%
this epoch [##....] 30.00%
\x1b[4A\x1b[J2           0.252395                          0.928571                                 2.05
"""


def metric(**fields: Any) -> Metric:
    return Metric(**{"name": "m", "goal": "max", **fields})


def rows(reader: Reader, lines: list[str]) -> list[Row]:
    read = make_table(reader)
    return [row for line in lines if (row := read.read_row(line)) is not None]


def measured(of: str, **fields: Any) -> float | None:
    return measure_text(metric(**fields), of.splitlines()).value


# Tables


def test_horovods_table_begins_with_its_title() -> None:
    assert [row["speed"] for row in rows("horovod", HOROVOD.splitlines())] == [305.9, 5874.2, 5880]
    assert rows("horovod", HOROVOD.splitlines()[3:]) == []


def test_a_table_is_read_behind_the_rank_that_mpirun_puts_first() -> None:
    tagged = [f"[1,0]<stdout>:{line}" for line in HOROVOD.splitlines()]

    assert rows("horovod", tagged)[1]["speed"] == 5874.2


def test_the_name_of_a_job_may_stand_before_the_rank() -> None:
    """As Open MPI 5 says it."""
    lines = [f"[prterun-node-1-42@1,0]<stdout>:{line}" for line in HOROVOD.splitlines()]

    assert [row["speed"] for row in rows("horovod", lines)] == [305.9, 5874.2, 5880.0]


def test_mxnets_lines_have_a_speed_or_results() -> None:
    found = rows("mxnet", MXNET.splitlines())

    assert [row.get("speed") for row in found] == [15554.63, 15500, None, None, None]
    assert found[1] == {"epoch": 0, "batch": 200, "speed": 15500, "accuracy": 0.6, "loss": 0.01}
    assert (found[3]["time-cost"], found[4]["validation-accuracy"]) == (3.19, 0.969)


def test_chainers_table_may_have_gaps() -> None:
    first, second = rows("chainer", CHAINER.splitlines())

    assert (first["validation/main/accuracy"], first["elapsed_time"]) == (0.90898, 1.23484)
    assert second == {
        "epoch": 2,
        "main/loss": 0.252395,
        "main/accuracy": 0.928571,
        "elapsed_time": 2.05,
    }


@pytest.mark.parametrize(
    ("text", "fields", "value"),
    [
        (HOROVOD, {"reader": "horovod", "take": "median"}, 5874.2),
        (HOROVOD, {"reader": "horovod", "take": "best"}, 5880),
        (MXNET, {"reader": "mxnet"}, 15500),
        (MXNET, {"reader": "mxnet", "column": "validation-accuracy"}, 0.969),
        (MXNET, {"reader": "mxnet", "column": "Validation-accuracy"}, 0.969),
        (MXNET, {"reader": "mxnet", "column": "Time cost"}, 3.19),
        (HOROVOD, {"reader": "horovod", "column": "FinLoss"}, 8.29),
        (CHAINER, {"reader": "chainer"}, 0.90898),
        (CHAINER, {"reader": "chainer", "column": "main/loss", "goal": "min"}, 0.252395),
    ],
)
def test_a_column_of_a_table_is_the_metric(text: str, fields: dict[str, Any], value: float) -> None:
    assert measured(text, **fields) == value


@given(st.sampled_from(["horovod", "mxnet", "chainer"]), st.lists(st.text()))
def test_no_text_breaks_a_reader(reader: Any, lines: list[str]) -> None:
    head = [HOROVOD.splitlines()[2], CHAINER.splitlines()[2]]

    assert all(isinstance(row, dict) for row in rows(reader, [*head, *lines]))


# Patterns


@pytest.mark.parametrize(("take", "value"), [("last", 2.0), ("best", 9.0), ("median", 3.0)])
def test_take_chooses_one_of_many_matches(take: str, value: float) -> None:
    lines = ["loss=3 loss=100", "nothing", "loss=9", "loss=2"]

    found = measure_text(metric(pattern="loss=([0-9]+)", take=take), lines)

    assert found == Measured(value, among=3, numbers=[3.0, 9.0, 2.0])


def test_a_group_of_a_name_is_the_value() -> None:
    assert measured("epoch 3 acc 0.5", pattern=r"epoch (\d+) acc (?P<value>\S+)") == 0.5


@pytest.mark.parametrize(
    ("fields", "text", "why"),
    [
        ({"pattern": "a=(.*)"}, "b=1", "no line matches the pattern"),
        ({"pattern": "a=(.*)"}, "a=x", "the text that was found is not a number"),
        ({"pattern": "a=(.*)"}, "a=1_0", "the text that was found is not a number"),
        (
            {"pattern": "a=(.*)"},
            "a=\N{ARABIC-INDIC DIGIT ONE}",
            "the text that was found is not a number",
        ),
        ({"pattern": "a=(.*)"}, "a=1\na=nan", "the number is nan"),
        ({"reader": "mxnet"}, "a", "the log has no mxnet table"),
        ({"reader": "mxnet", "column": "x"}, MXNET, "the mxnet table has no column 'x'"),
    ],
)
def test_why_there_is_no_number_is_told(fields: dict[str, Any], text: str, why: str) -> None:
    assert measure_text(metric(**fields), text.splitlines()).why == why


@pytest.mark.parametrize("end", ["", "\r"])
def test_of_a_line_that_draws_over_itself_the_last_that_it_shows_counts(end: str) -> None:
    """As progress bars do, and programs whose lines end as in DOS."""
    text = "1/9 loss: 2.5\r5/9 loss: 1.5\r9/9 loss: \x1b[1m0.5\x1b[0m" + end

    found = measure_text(metric(pattern=r"loss: ([\d.]+)$", take="best"), [text])

    assert (found.value, found.among) == (0.5, 1)


def test_the_end_of_an_endless_line_is_not_looked_at() -> None:
    line = "x" * LINE_CHARACTERS + "a=1"

    assert measured(line, pattern="a=(.)") is None
    assert measured(line[1:], pattern="a=(.)") is None
    assert measured(line[3:], pattern="a=(.)") == 1


@pytest.mark.parametrize(
    "pattern",
    [
        *("((a+)+)b", "((?:a|ab)*)c", "((a?b?)*)", r"((\d+,)*)x", "((x{1,9}){2,})", "(a*)*"),
        *(
            "((a+)+?)b",
            "(([ab]|[bc])+)",
            "(?x)(a)",
            "a",
            "(a)(b)",
            "(",
            "(" + "a" * 600 + ")",
            "([[a]+)",
        ),
    ],
)
def test_a_pattern_that_cannot_be_used_is_told(pattern: str) -> None:
    assert find_trouble(pattern) is not None


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "loss=([0-9.]+)",
            r"^\s*(\d+)",
            "(?P<value>[^ ]+) of (.*)",
            r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)",
        ),
        *(r"(?:\d\d:){2}(\d\d)", "[](+*]*(x)", r"\(\)+\\(a+)", "(?i)ACC(?:uracy)?: ([0-9.]{1,8})"),
        *("a|b(c)", "(?=x)(x)", r"[^]\]()]+(.)"),
    ],
)
def test_a_pattern_that_can_be_used_is_not_in_the_way(pattern: str) -> None:
    assert find_trouble(pattern) is None


@given(st.text("ab(){}[]|*+?\\,19^$.", max_size=16))
def test_every_pattern_that_is_taken_ends_soon(pattern: str) -> None:
    if find_trouble(pattern) is None:
        began = time.process_time()
        measure_text(metric(pattern=pattern), ["ab" * 15 + "!"])
        assert time.process_time() - began < 1


# Files

JSON = '{"val": {"acc": 0.5, "all": [0.1, 0.7, 0.6]}, "name": "x"}'


@pytest.mark.parametrize(
    ("file", "fields", "text", "value"),
    [
        ("o/m.json", {"key": "val.acc"}, JSON, 0.5),
        ("o/m.json", {"key": "val.all"}, JSON, 0.6),
        ("o/m.json", {"key": "val.all", "take": "best"}, JSON, 0.7),
        ("o/m.json", {"key": "val.all.0"}, JSON, 0.1),
        ("o/m.jsonl", {"key": "a"}, '{"a": 1}\n\n{"b": 2}\n{"a": 3}\n', 3),
        ("o/m.csv", {"column": "acc"}, "step,acc\n1,0.5\n2,0.25\n3,\n", 0.25),
        ("o/m.txt", {"pattern": "acc (.*)"}, "acc 0.125\n", 0.125),
    ],
)
def test_a_file_of_an_output_says_it(
    file: str, fields: dict[str, Any], text: str, value: float
) -> None:
    assert measure_file(metric(file=file, **fields), text).value == value


@pytest.mark.parametrize(
    ("file", "fields", "text", "why"),
    [
        ("o/m.json", {"key": "val.x"}, JSON, "o/m.json has no 'val.x'"),
        ("o/m.json", {"key": "name"}, JSON, "the text that was found is not a number"),
        *(
            ("o/m.json", {"key": "a"}, text, "the text that was found is not a number")
            for text in ('{"a": true}', '{"a": [0.5, false]}', '{"a": null}', '{"a": "1_0"}')
        ),
        ("o/m.json", {"key": "a"}, "{", "o/m.json is not JSON"),
        ("o/m.json", {"key": "a"}, "[" * 100_000, "o/m.json is not JSON"),
        ("o/m.csv", {"column": "x"}, "a,b\n1,2\n", "o/m.csv has no column 'x'"),
        ("o/m.csv", {"column": "x"}, "", "o/m.csv has no column 'x'"),
    ],
)
def test_a_file_that_does_not_say_it_is_told(
    file: str, fields: dict[str, Any], text: str, why: str
) -> None:
    assert measure_file(metric(file=file, **fields), text).why == why
