"""What clients do that takes an operation, tried with its drawn answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from hypothesis import strategies as st

from tests.drawn.azure_cases import Case, cases, judged, outcome
from tests.drawn.azure_cloud import Cloud, Truth
from tests.drawn.azure_table import operations
from tests.support.http_server import Server


class Account(Protocol):
    """A cloud with something in it, and clients of it."""

    cloud: Cloud
    server: Server

    def reset(self) -> None: ...

    def truths(self) -> dict[str, Any]: ...

    def told(self, operation: str) -> st.SearchStrategy[Truth] | None: ...


class Way(NamedTuple):
    """Something that a client does and that takes the operation; *absent* is what it may say of what is not there."""

    phase: str
    drive: Callable[[Any], Any]
    absent: tuple[Any, ...] = ()


class Tried(NamedTuple):
    """A case, and with whom and how it is tried."""

    name: str
    way: Way
    account: Account
    expected: Any
    case: Case

    def __repr__(self) -> str:
        return f"{self.name}, {self.way.phase}: {self.case}"


def drawn(
    name: str, ways: Sequence[Way], opened: Callable[[str], Account]
) -> st.SearchStrategy[Tried]:
    """Return a strategy for all *ways* in which an operation is taken, by accounts that *opened* gives."""
    return st.one_of([_tried(name, way, opened(way.phase)) for way in ways])


def _tried(name: str, way: Way, account: Account) -> st.SearchStrategy[Tried]:
    account.reset()
    expected = way.drive(account)
    strategy = cases(operations()[name], account.truths().get(name), account.told(name))
    return strategy.map(lambda case: Tried(name, way, account, expected, case))


def check(one: Tried) -> None:
    """Raise AssertionError, or what is no RunspecError, where the client takes the case for what it is not."""
    account = one.account
    account.reset()
    account.cloud.draw(one.name, one.case.answer, one.case.often)
    found = outcome(lambda: one.way.drive(account))
    assert account.cloud.served, f"{one.name} was not asked for"
    wrong = account.cloud.unknown, account.server.wrong
    assert not any(wrong), wrong
    judged(one.case, found, one.expected, absent=one.way.absent)
