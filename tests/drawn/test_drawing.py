"""What the drawn tests rest on: kept seeds, replies that break off, faults that are really put in."""

from __future__ import annotations

import http.client
import importlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from tests.drawn.drawing import COUNT, goes_wrong, tried
from tests.drawn.planted import Fault, planted
from tests.drawn.schema import Schema, values
from tests.support.http_server import ReceivedRequest, Reply, Server


def test_the_same_name_draws_the_same_things_and_another_draws_others() -> None:
    drawn: dict[str, list[int]] = {}

    for key, name in {"a": "one", "b": "one", "c": "two"}.items():
        assert tried(name, st.integers(), drawn.setdefault(key, []).append) >= COUNT

    assert drawn["a"] == drawn["b"] != drawn["c"]


def test_modules_that_were_loaded_meanwhile_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis takes constants from a project's own modules, those of other tests among them."""
    drawn: tuple[list[int], list[int]] = [], []
    name = "constants_that_are_not_drawn"
    (tmp_path / f"{name}.py").write_text(f"A = {list(range(7_000_000, 7_000_500))}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(providers, "is_local_module_file", lambda _: True)
    tried("constants", st.integers(), drawn[0].append)

    importlib.import_module(name)
    tried("constants", st.integers(), drawn[1].append)

    assert drawn[0] == drawn[1]


def test_a_check_that_fails_once_goes_wrong() -> None:
    def check(number: int) -> None:
        assert number != 7

    assert goes_wrong("seven", st.integers(0, 50), check)
    assert not goes_wrong("seven", st.integers(8, 50), check)


def test_optional_members_are_drawn_missing_null_empty_and_there() -> None:
    text = Schema("string", enum=("A", "B"))
    schema = Schema(
        "object",
        lambda: {"need": text, "may": text, "list": Schema("list", item_of=lambda: text)},
        frozenset({"need"}),
    )
    found: list[Any] = []

    # However few RUNSPEC_DRAWN wants, each kind is to be among these.
    tried("optional", values(schema), found.append, most=200)

    assert all("need" in value for value in found)
    wanted: dict[str, set[Any]] = {"may": {"A", "B", None}, "list": {"[]"}}
    for name, kinds in wanted.items():
        seen = {str(v[name]) if isinstance(v.get(name), list) else v.get(name) for v in found}
        assert kinds <= seen
    assert any("may" not in value for value in found)
    assert any(value["need"] not in ("A", "B") for value in found)
    assert any("xNotInTheDescription" in value for value in found)


@pytest.mark.process
def test_a_reply_breaks_off_where_it_is_told_to() -> None:
    def answer(asked: ReceivedRequest) -> Reply:
        assert asked[:3] == ("PUT", "/a", {"b": "c"})
        assert (asked.body, asked.target) == (b"body", "/a?b=c")
        return Reply(200, {}, b"0123456789", sent=4)

    with Server(answer) as server:
        link = http.client.HTTPConnection("127.0.0.1", server.port)
        link.request("PUT", "/a?b=c", b"body")
        with pytest.raises(http.client.IncompleteRead) as broken:
            link.getresponse().read()
        link.close()

    assert broken.value.partial == b"0123"
    assert server.wrong == []


def number() -> int:
    return 1


def test_a_planted_fault_is_there_for_its_time_alone() -> None:
    with planted(Fault(number, "return 1", "return 2")):
        assert number() == 2

    assert number() == 1
