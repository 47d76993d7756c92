"""The record of what a node used stays small, and keeps the most of everything."""

from __future__ import annotations

import random
from collections.abc import Sequence

from runspec_agent.usage.series import FORMAT, MOST, Point, Series
from runspec_jobs.machines.usage import FORMAT as READ, read_usage
from runspec_jobs.report.usage import Asked, Used, describe_gpus, give_advice

DAY_S, MIB = 86_400, 1 << 20
ABOUT = {"of": "processes", "began_s": 1.0, "cpus": 96, "memory_bytes": 1 << 40, "disk_bytes": 9}


def day(gpus: int) -> Series:
    """Give a day of samples, one of which has the most of everything."""
    found, dice = Series({**ABOUT, "gpus": [80 << 30] * gpus}), random.Random(7)
    for n in range(DAY_S // 10):
        peak = n == 4711
        pairs = tuple((dice.uniform(0, 100), dice.randrange(80 << 30)) for _ in range(gpus))
        memory = 900 << 30 if peak else dice.randrange(800 << 30)
        cpus = 95.5 if peak else dice.uniform(0, 90)
        found.add(Point(10.0 * (n + 1), cpus, memory, 10 * MIB, pairs))
    return found


def test_a_day_of_sixteen_gpus_takes_less_than_a_megabyte() -> None:
    record = day(16).document()

    assert len(record) < 64 * 1024
    assert record.count(b"\n") <= MOST + 1


def test_the_most_of_a_day_is_in_its_record() -> None:
    (node,) = read_usage(["3/2/1"], lambda names: [day(1).document()], None).nodes

    assert (node.task, node.attempt, node.rank) == (3, 2, 1)
    assert node.most_cpus == 95.5
    assert max(point.memory_bytes for point in node.points) == 900 << 30
    assert node.points[-1].at_s == DAY_S
    assert 40 < sum(point.cpus for point in node.points) / len(node.points) < 50


def test_a_record_has_times_and_processors_in_few_digits() -> None:
    found = Series({**ABOUT, "gpus": []})
    found.add(Point(10.06, 1.2345, 3 * MIB, 2 * MIB, ()))

    assert found.document().splitlines()[1:] == [b"[10.1,1.23,3,2]"]


def read(record: bytes) -> Used:
    nodes = read_usage(["0/1/0"], lambda names: [record], None).nodes
    return Used(Asked(gpus=1), nodes, 1)


def test_gpus_of_which_only_the_first_samples_know_are_kept() -> None:
    """nvidia-smi may fail for ever, minutes after the job began."""
    found = Series({**ABOUT, "gpus": [80 << 30]})
    for n in range(5_000):
        gpus = ((50.0, 1 << 30),) if 1 < n < 9 else ()
        found.add(Point(10.0 * (n + 1), 1.0, MIB, MIB, gpus))

    assert "memory 1 GiB of 80 GiB" in describe_gpus(read(found.document()))


def test_gpus_of_which_no_sample_or_no_size_is_known_are_no_error() -> None:
    unsampled, unknown = Series({**ABOUT, "gpus": [80 << 30]}), Series({**ABOUT, "gpus": []})
    for n in range(10):
        unsampled.add(Point(10.0 * (n + 1), 1.0, MIB, MIB, ()))
        unknown.add(Point(10.0 * (n + 1), 1.0, MIB, MIB, ((0.0, 5),)))

    for record in (unsampled.document(), unknown.document()):
        assert describe_gpus(read(record)) == ""
        assert give_advice(read(record)) == []


def test_the_agent_and_the_client_name_the_same_format() -> None:
    assert FORMAT == READ


def test_a_record_that_is_cut_off_is_left_out() -> None:
    record = day(1).document()

    found = read_usage(["0/1/0", "1/1/0"], lambda names: [record[:-9], record], None)

    assert [node.task for node in found.nodes] == [1]
    assert found.total == 2


def test_the_newest_attempt_counts() -> None:
    asked = list[str]()

    def read(names: Sequence[str]) -> list[bytes | None]:
        asked.extend(names)
        return [None] * len(asked)

    read_usage(["0/9/0", "0/10/0", "0/10/1", "state.json", "0/x/0"], read, None)

    assert asked == ["0/10/0", "0/10/1"]
