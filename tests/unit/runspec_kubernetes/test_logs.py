"""The logs of pods: whatever nodes rotate and delete, a reader gets each byte once, from the node or from the store."""

from __future__ import annotations

import random

import pytest

from runspec_jobs.provider import RemoteError
from runspec_kubernetes import logs
from runspec_kubernetes.logs import Position
from tests.unit.runspec_kubernetes.fake_node import BEGAN_S, RUN, Cluster, Store, read, reader


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let chunks be small, so that the tests have many."""
    monkeypatch.setattr(logs, "CHUNK_BYTES", 64)


def test_the_node_and_the_store_have_the_same_bytes() -> None:
    """A reader that begins at the node goes on in the store when the pod is gone, at the same byte."""
    cluster = Cluster(Store())
    node = cluster.begins()
    for number in range(30):
        node.prints(b"line %d\r\n" % number)
    node.prints(b"no end")
    of_node, position = read(cluster)
    node.prints(b" of it\n\xff")
    node.saves()
    node.gone = True

    rest, _ = read(cluster, position)
    of_store, _ = read(cluster)

    assert of_node == node.log[: len(of_node)]
    assert of_node.endswith(b"no end")
    assert of_node + rest == of_store == node.log


def test_a_log_that_the_node_has_rotated_is_read_from_the_store_first() -> None:
    """And on from the node, which has what the store does not have yet."""
    cluster = Cluster(Store())
    node = cluster.begins()
    for number in range(40):
        node.prints(b"old %d\n" % number)
    node.saves()
    node.rotates()
    for number in range(40):
        node.prints(b"new %d\n" % number)

    first, position = read(cluster)
    node.saves()
    rest, position = read(cluster, position)
    node.prints(b"newest\n")
    last, _ = read(cluster, position)

    assert first == node.log[: len(first)]
    assert first + rest + last == node.log
    assert last == b"newest\n"


@pytest.mark.parametrize("of_store", [True, False])
def test_a_pod_that_replaces_one_of_the_same_attempt_is_read_from_its_beginning(
    of_store: bool,
) -> None:
    """Also after the rest of the first one was read from the store, and in the same second."""
    cluster = Cluster(Store())
    node = cluster.begins()
    node.prints(b"begun\n")
    _, position = read(cluster)
    if of_store:
        node.prints(b"it was told to end\n")
        node.saves()
        node.gone = True
        _, position = read(cluster, position)

    node = cluster.begins_again()
    node.prints(b"begun\ndone\n")

    assert read(cluster, position)[0] == node.log


@pytest.mark.parametrize("with_store", [True, False])
@pytest.mark.parametrize("seed", range(150))
def test_nothing_is_lost_or_doubled(seed: int, with_store: bool) -> None:
    """Whatever is printed, rotated, saved and deleted in between; the reader is now and then another machine."""
    dice = random.Random(seed)
    cluster = Cluster(Store() if with_store else None)
    found, position, of = b"", None, reader(cluster)
    for number in range(dice.choice([1, 1, 2, 3])):
        node = cluster.begins()
        for _ in range(dice.randrange(40)):
            for _ in range(dice.randrange(12)):
                text = dice.choice(
                    [b"y\n", b"\n", b"part", b"step %d\n" % number, b"z" * 300 + b"\n"]
                )
                node.prints(text, dice.choice([0, 1_000, 10**8, 2 * 10**9]))
            if with_store and dice.random() < 0.2:
                node.saves()
            if with_store and dice.random() < 0.1:
                node.rotates()
            if dice.random() < 0.4:
                of = reader(cluster) if dice.random() < 0.3 else of
                more, position = read(cluster, position, of)
                found += more
        if with_store:
            node.saves()
            node.gone = dice.random() < 0.5
        node.phase = "Failed"
        cluster.now_s += 60

    more, _ = read(cluster, position)

    assert found + more == b"".join(node.log for node in cluster.nodes)


def test_a_long_log_is_read_once() -> None:
    """Each chunk is of the same answer; a later one begins at the second of the last line."""
    cluster = Cluster()
    node, of = cluster.begins(), reader(cluster)
    for number in range(2000):
        node.prints(b"line %d\n" % number, 10**7)

    _, position = read(cluster, None, of)
    node.prints(b"more\n", 10**9)
    more, _ = read(cluster, position, of)

    assert more == b"more\n"
    assert len(cluster.requests) == 4  # each time, a last one finds nothing
    assert max(cluster.requests[1:]) < cluster.requests[0] / 15


def test_a_pod_that_has_ended_is_asked_once() -> None:
    cluster = Cluster()
    node, of = cluster.begins(), reader(cluster)
    node.prints(b"done\n")
    node.phase = "Succeeded"
    found, position = read(cluster, None, of)

    again = [read(cluster, position, of)[0] for _ in range(5)]

    assert (found, again) == (b"done\n", [b""] * 5)
    assert len(cluster.requests) == 1


def test_a_line_that_a_node_cut_is_read_on() -> None:
    """Runtimes write a long line in parts, of which the first alone has a time in an answer."""
    cluster = Cluster()
    node = cluster.begins()
    node.prints(b"x" * 1000)
    first, position = read(cluster)
    node.prints(b"y" * 1000 + b"\n", 3 * 10**9)

    rest, _ = read(cluster, position)

    assert first + rest == node.log


def test_what_a_node_says_in_the_place_of_a_log_is_no_part_of_it() -> None:
    """It answers with 200 and this text when the log of a container was deleted."""
    cluster = Cluster(Store())
    node = cluster.begins()
    node.prints(b"kept\n")
    node.saves()
    node.records, node.phase = [], "Failed"
    node.says = b"unable to retrieve container logs for containerd://1"

    assert read(cluster)[0] == b"kept\n"


def test_a_container_that_could_not_start_the_agent_has_a_log() -> None:
    """It prints no marks: the image has no Python."""
    cluster = Cluster(Store())
    node = cluster.begins()
    node.records, node.phase = [], "Failed"
    node.writes(b"runspec: this image has no python3\n")

    assert read(cluster)[0] == b"runspec: this image has no python3\n"


def test_what_neither_node_nor_store_has_is_left_out() -> None:
    """The agent was killed together with its container, so that the rest of the log still is worth to be read."""
    cluster = Cluster(Store())
    node = cluster.begins()
    node.prints(b"a" * 99 + b"\n")
    node.saves()
    node.prints(b"lost\n")
    node.rotates()
    node.prints(b"b" * 99 + b"\n")
    node.prints(b"c\n")
    node.phase = "Failed"

    assert read(cluster)[0] == b"a" * 99 + b"\n" + b"b" * 99 + b"\nc\n"


def test_a_node_that_cannot_be_reached_is_an_error_unless_the_store_has_more() -> None:
    cluster = Cluster(Store())
    node = cluster.begins()
    node.prints(b"saved\n")
    node.saves()
    cluster.fails = RemoteError("no route to the node", transient=True)
    stream = reader(cluster).streams(RUN)[0]

    chunk = stream.read(None)

    assert chunk.data == b"saved\n"
    with pytest.raises(RemoteError, match="no route"):
        stream.read(chunk.position)


def test_lines_have_the_times_of_the_node_and_of_the_agent() -> None:
    """To a second; in the store, to the second at which the agent looked."""
    cluster = Cluster(Store())
    node = cluster.begins()
    node.prints(b"one\n")
    node.prints(b"two\n", 2 * 10**9)
    node.saves()
    stream = reader(cluster).streams(RUN)[0]

    of_node = stream.timed(None)
    node.gone = True
    of_store = stream.timed(None)

    assert of_node.chunk.data == of_store.chunk.data == b"one\ntwo\n"
    assert of_node.times == [(4, BEGAN_S), (8, BEGAN_S + 2)]
    assert of_store.times == [(8, BEGAN_S + 2.5)]


def test_a_position_is_the_same_on_another_machine() -> None:
    """All of a position is in its text, so a client elsewhere can go on from it."""
    cluster = Cluster()
    cluster.begins().prints(b"one\n")

    _, position = read(cluster)

    assert str(logs.parse(position)) == position
    assert logs.parse(position).offset == 4
    assert logs.parse(None) == Position()
