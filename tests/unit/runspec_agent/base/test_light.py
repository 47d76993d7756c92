"""What stands for modules of the standard library in compiled modules does what they do."""

from __future__ import annotations

import contextlib
import json
import random
import sys
import threading
import time
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from runspec_agent.base.light import light_contextlib, light_json, light_threading, light_typing
from runspec_agent.base.light.lazy_module import LazyModule

WORDS = ("", "a", "\u00fc\u20ac\U0001f600", '\x00"\\/\n', "\ud800")
NUMBERS = (0, -1, 2**70, 0.1, -1e300, float("inf"), float("-inf"))


def test_documents_are_written_and_read_alike() -> None:
    dice = random.Random(7)

    for _ in range(300):
        value = document(dice, 4)
        options: dict[str, Any]
        for options in ({}, {"sort_keys": True}, {"sort_keys": True, "separators": (",", ":")}):
            text = json.dumps(value, **options)
            assert light_json.dumps(value, **options) == text
            assert light_json.loads(text) == json.loads(text) == light_json.loads(f" {text}\n")


def document(dice: random.Random, depth: int) -> Any:
    kind = dice.randrange(6 if depth else 4)
    if kind == 4:
        return [document(dice, depth - 1) for _ in range(dice.randrange(4))]
    if kind == 5:
        return {dice.choice(WORDS): document(dice, depth - 1) for _ in range(dice.randrange(4))}
    return (dice.choice(WORDS), dice.choice(NUMBERS), dice.random() < 0.5, None)[kind]


@pytest.mark.parametrize("text", ["", "{", "[1] 2", "nul", '{"a": 1,}', b"[1]", b"\xff"])
def test_what_is_no_document_is_refused_alike(text: Any) -> None:
    assert said(light_json.loads, text) == said(json.loads, text)


def test_what_cannot_be_written_is_refused_alike() -> None:
    ring: list[Any] = []
    ring.append(ring)

    for value in ({1j}, {"a": object}, ring, {(1, 2): 3}):
        assert said(light_json.dumps, value)[0] == said(json.dumps, value)[0]


def said(do: Any, value: Any) -> Any:
    try:
        return do(value), None
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def test_named_tuples_are_alike() -> None:
    found = []
    for base in (typing.NamedTuple, light_typing.NamedTuple):
        space: dict[str, Any] = {"NamedTuple": base}
        exec(
            "class Place(NamedTuple):\n"
            "    task: int\n"
            "    name: str = 'a'\n"
            "    @property\n"
            "    def both(self): return self.task, self.name\n",
            space,
        )
        kind = space["Place"]
        one = kind(1)
        found.append(
            (
                one == (1, "a") == kind(task=1) == kind(1, "a"),
                repr(one),
                one._replace(name="b").both,
                one._asdict(),
                kind._fields,
                {one: 2}[kind(1)],
                [
                    error(kind),
                    error(kind, 1, 2, 3),
                    error(kind, 1, other=2),
                    error(kind, 1, task=2),
                ],
                error(setattr, one, "task", 2),
            )
        )

    assert found[0] == found[1]


def error(do: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return do(*args, **kwargs)
    except (TypeError, AttributeError) as raised:
        return type(raised)


@pytest.mark.parametrize("kind", [contextlib, light_contextlib])
@pytest.mark.parametrize("raised", [None, KeyError("a"), ValueError("b"), StopIteration()])
def test_contexts_are_alike(kind: Any, raised: BaseException | None) -> None:
    """A ValueError is handled by the context, and another error is not."""
    steps: list[str] = []

    @kind.contextmanager  # type: ignore[untyped-decorator]  # of any of the two
    def around(name: str) -> Iterator[str]:
        try:
            yield name
        except ValueError:
            steps.append("handled")
        finally:
            steps.append("after")

    with contextlib.suppress(KeyError, StopIteration, RuntimeError), around("x") as name:
        steps.append(name)
        if raised is not None:
            raise raised

    assert steps == ["x", *(["handled"] if isinstance(raised, ValueError) else []), "after"]
    assert suppressed(kind) == ["before"]
    with pytest.raises(ValueError, match="c"), kind.suppress(LookupError):
        raise ValueError("c")


def suppressed(kind: Any) -> list[str]:
    found = ["before"]
    with kind.suppress(ArithmeticError):
        found += [str(1 / len(found[1:])) for _ in found]
    return found


@pytest.mark.parametrize("kind", [threading, light_threading])
def test_threads_and_events_are_alike(kind: Any) -> None:
    event, over, steps = kind.Event(), kind.Event(), []

    def wait() -> None:
        steps.append(event.wait(30))
        over.set()

    threads = [kind.Thread(target=wait, daemon=True) for _ in range(8)]
    assert not threads[0].is_alive()
    for thread in threads:
        thread.start()
    threads[0].join(0.01)
    alive = [thread.is_alive() for thread in threads]
    event.set()
    for thread in threads:
        thread.join(30)

    assert (alive, steps, over.is_set()) == ([True] * 8, [True] * 8, True)
    assert not any(thread.is_alive() for thread in threads)
    event.clear()
    began_s = time.monotonic()
    assert (event.wait(0.05), event.wait(0), event.is_set()) == (False, False, False)
    assert time.monotonic() - began_s >= 0.04
    with pytest.raises(RuntimeError):
        threads[0].start()


@pytest.mark.parametrize("kind", [threading, light_threading])
def test_conditions_are_alike(kind: Any) -> None:
    condition = kind.Condition()
    seen: list[int] = []
    ready: list[int] = []

    def wait() -> None:
        with condition:
            while not ready:
                condition.wait()
            seen.append(1)

    threads = [kind.Thread(target=wait, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    with condition:
        ready.append(1)
        condition.notify_all()
    for thread in threads:
        thread.join(30)

    assert len(seen) == 4


def test_a_lazy_module_is_imported_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    found = LazyModule("colorsys")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)

    before = "colorsys" in sys.modules
    value = found.ONE_THIRD

    assert (before, value, "colorsys" in sys.modules) == (False, 1 / 3, True)
