"""A disk that takes nothing more: said in one line before anything is started, and mended by space alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import cells, chosen
from tests.faults.cells import slow
from tests.faults.world import (
    LONG,
    Driver,
    Ended,
    World,
    always,
    applied,
    ended_as,
    is_temporary,
    new_world,
)
from tests.support.requirements import lack, need, need_root

UNAVAILABLE = 69
USAGE = 2


def clear(ended: Ended) -> list[str]:
    """Give what is wrong with how a command line says that the disk takes nothing."""
    wrong = []
    if ended.code != UNAVAILABLE:
        wrong.append(f"exit code {ended.code}: {ended.err.strip()[-200:]}")
    errors = [
        line for line in ended.err.splitlines() if "space left" in line or "read-only" in line
    ]
    if ended.code == UNAVAILABLE and len(errors) != 1:
        wrong.append(f"the disk is named {len(errors)} times: {ended.err.strip()[-200:]}")
    if any("None" in line or "Traceback" in line for line in ended.err.splitlines()):
        wrong.append(f"not for a person: {ended.err.strip()[-200:]}")
    return wrong


def half_left(world: World) -> list[str]:
    """Give the folders that were not made whole. (Bytes of a single temporary file are written over.)"""
    return [
        f"half left: {p.relative_to(world.home)}"
        for p in world.home.rglob("*")
        if is_temporary(p.name) and p.is_dir() and p.parent.name == "blobs"
    ]


def refused(driver: Driver, at: int | str, error: str = "ENOSPC") -> list[str]:
    """The disk is full (or read-only) from boundary *at* of an apply on; then there is space again."""
    with new_world(driver) as world:
        ended = world.run("apply", "faults.yaml", at=at, do=error)
        begun = any(step["label"] == "called call start" for step in ended.steps)
        wrong = clear(ended)
        if not begun:
            wrong += [f"started: {line}" for line in world.truth()]
        if (
            not begun and error == "ENOSPC"
        ):  # nothing can be taken away where nothing can be changed
            wrong += half_left(world)
        world.again("apply", "faults.yaml")
        return wrong + [w for w in applied(world) if not w.startswith("exit code 69")]


def refused_ending(driver: Driver, at: int, verb: str, error: str) -> list[str]:
    with new_world(driver, LONG) as world:
        run = cells.started(world)
        wrong = clear(world.run(verb, run, at=at, do=error))
        world.again(verb, run)
        state = {"cancel": "cancelled", "destroy": "destroyed"}[verb]
        return wrong + [w for w in ended_as(world, run, state) if not w.startswith("exit code 69")]


def places(driver: Driver) -> list[int]:
    """Give the boundaries of an apply at which something is still to be written."""
    with new_world(driver) as world:
        steps = [step for step in world.run("apply", "faults.yaml").steps if step["n"]]
    last = max(step["n"] for step in steps if step["what"] == "write")
    return [
        step["n"]
        for step in steps
        if step["what"] in ("write", "half", "open", "mkdir")
        and step["n"] <= last
        and step["paths"][0] != "pipe"
        and not step["label"].endswith("pipe")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ENOSPC", "EROFS"])
def test_a_disk_that_refuses_at_any_step_is_an_error_and_the_same_command_works_later(
    pool: list[Driver], error: str
) -> None:
    labels = labelled(pool[0])

    found = chosen.spaced(places(pool[0]))
    if error == "EROFS":  # the same steps as above; a few show that the words are right
        found = [found[n - 1] for n in cells.sample(len(found), 16)]

    wrong = cells.spread(pool, lambda driver, at: refused(driver, at, error), found)

    assert {labels[at - 1]: what for at, what in wrong.items()} == {}


def labelled(driver: Driver) -> list[str]:
    with new_world(driver) as world:
        return world.run("apply", "faults.yaml").labels


@pytest.mark.parametrize(
    "label",
    [
        slow("mkdir home"),
        slow("write home/runs/.new-faults/.plan.json.new"),
        "write home/local/blobs/.new-DIGEST/one",
        slow("half home/local/runs/RUN/.job.json.new"),
    ],
)
def test_a_full_disk_is_an_error_before_anything_is_started(driver: Driver, label: str) -> None:
    assert refused(driver, label) == []


@pytest.mark.parametrize(
    "error,verb",
    [
        ("EROFS", "cancel"),
        slow("ENOSPC", "cancel"),
        slow("EROFS", "destroy"),
        slow("ENOSPC", "destroy"),
    ],
)
def test_a_wish_that_cannot_be_written_down_is_not_carried_out(
    driver: Driver, verb: str, error: str
) -> None:
    assert refused_ending(driver, 1, verb, error) == []


def test_a_full_disk_stops_a_call_before_it_is_sent(driver: Driver) -> None:
    """The line that announces a call is on the disk, or the call is not made."""
    with new_world(driver) as world:
        steps = world.run("apply", "faults.yaml").steps
    begun = next(s["n"] for s in steps if '"begun", ' in s.get("line", "") and '"job"' in s["line"])

    with new_world(driver) as world:
        ended = world.run("apply", "faults.yaml", at=begun, do="ENOSPC")

        assert ended.code == UNAVAILABLE
        assert "call call start" not in ended.labels
        assert world.truth() == []


@pytest.mark.parametrize("words", [("apply", "faults.yaml"), ("apply", "faults.yaml", "--json")])
def test_a_home_that_cannot_be_is_an_error_in_one_line(
    driver: Driver, words: tuple[str, ...]
) -> None:
    with new_world(driver) as world:
        world.home.write_text("a file where the folder is to be")

        ended = world.run(*words)

        assert ended.code == USAGE
        told = [line for line in ended.err.splitlines() if "hint" not in line]
        assert len([line for line in told if "profile" not in line]) == 1, ended.err
        if "--json" in words:
            assert json.loads(ended.out)["exit_code"] == USAGE


def test_the_journal_has_no_half_line_after_a_full_disk(driver: Driver) -> None:
    with new_world(driver) as world:
        world.run("apply", "faults.yaml", at="half home/runs/RUN/journal.jsonl", do="ENOSPC")

        (journal,) = Path(world.home, "runs").glob("faults-*/journal.jsonl")
        assert journal.read_bytes().endswith(b"\n")
        assert list(always(world, (UNAVAILABLE,))) == []


@pytest.fixture
def small(driver: Driver) -> Iterator[tuple[World, Callable[[str], None]]]:
    """Give a world whose home is a disk of its own, and what mounts it anew with other options."""
    need_root()
    need("mount", "umount")
    with new_world(driver) as world:
        world.home.mkdir()
        line = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(world.home)]
        if subprocess.run(line, capture_output=True).returncode:
            lack("the right to mount")

        def remount(options: str) -> None:
            subprocess.run(["mount", "-o", f"remount,{options}", str(world.home)], check=True)

        yield world, remount
        remount("rw")
        world.await_quiet()
        subprocess.run(["umount", str(world.home)], check=True)


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("size", ["4k", "16k", "48k", "64k", "80k"])
def test_on_a_disk_that_is_really_full_the_same_command_works_once_there_is_space(
    small: tuple[World, Callable[[str], None]], size: str
) -> None:
    world, remount = small
    remount(f"size={size}")

    ended = world.run("apply", "faults.yaml")

    assert clear(ended) == []
    assert world.truth() == []
    remount("size=16m")
    assert world.run("apply", "faults.yaml").code == 0
    assert [wrong for wrong in applied(world) if "exit code 69" not in wrong] == []


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("verb", ["apply", "cancel", "destroy"])
def test_on_a_disk_that_is_really_read_only_every_verb_that_writes_says_so(
    small: tuple[World, Callable[[str], None]], verb: str
) -> None:
    world, remount = small
    remount("size=16m")
    world.spec(last=LONG)
    run = cells.started(world)
    world.run("cancel", run)
    world.await_quiet()
    remount("ro")

    ended = world.run(verb, "faults.yaml" if verb == "apply" else run)

    assert clear(ended) == []
    remount("rw")
    assert world.run("destroy", run).code == 0
