"""Repeats a check over what hypothesis draws, with seeds that are kept: every run draws the same.

A failure is shown with the smallest example that hypothesis finds. `RUNSPEC_DRAWN=5000` draws more, and
`RUNSPEC_DRAWN_SEED=1` draws others.
"""

from __future__ import annotations

import contextlib
import os
import unittest.mock
import zlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.support.http_server import Reply

Thing = TypeVar("Thing")
COUNT = int(os.environ.get("RUNSPEC_DRAWN", "200"))
SEED = int(os.environ.get("RUNSPEC_DRAWN_SEED", "0"))

HTML = b"<html><head><title>503 Service Temporarily Unavailable</title></head><body>x</body></html>"


def tried(
    name: str, things: st.SearchStrategy[Thing], check: Callable[[Thing], None], most: int = COUNT
) -> int:
    """Call *check* with *most* of *things*, which depend on *name* alone, and return how many these were."""
    return _repeated(name, things, check, (Phase.generate, Phase.shrink), most)


def goes_wrong(name: str, things: st.SearchStrategy[Thing], check: Callable[[Thing], None]) -> bool:
    """Say whether any of *things* fails *check*: of the same ones and, so that luck has no part in it, of 1,000."""
    try:
        _repeated(name, things, check, (Phase.generate,), max(COUNT, 1000))
    except Exception:  # noqa: BLE001 - whatever a planted fault makes of it is a failed check
        return True
    return False


def _repeated(
    name: str,
    things: st.SearchStrategy[Thing],
    check: Callable[[Thing], None],
    phases: tuple[Phase, ...],
    most: int = COUNT,
) -> int:
    count = 0

    @seed(zlib.crc32(name.encode()) + SEED)
    @settings(
        max_examples=most,
        database=None,
        deadline=None,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(things)
    def one(thing: Thing) -> None:
        nonlocal count
        count += 1
        check(thing)

    with _same_everywhere():
        one()
    return count


@contextlib.contextmanager
def _same_everywhere() -> Iterator[None]:
    """Have hypothesis draw no constants from our own modules: which ones are loaded depends on the tests before."""
    providers.CONSTANTS_CACHE.cache.clear()
    with unittest.mock.patch.object(providers, "_get_local_constants", Constants):
        try:
            yield
        finally:
            providers.CONSTANTS_CACHE.cache.clear()


def cut(reply: Reply) -> st.SearchStrategy[Reply]:
    """Return a strategy for *reply* broken off at any byte: seen from its length, or by nothing (a proxy's)."""
    ends = st.integers(0, max(0, len(reply.body) - 1))
    seen = ends.map(lambda end: reply._replace(sent=end))
    unseen = ends.map(lambda end: reply._replace(body=reply.body[:end]))
    return seen | unseen


def odd(content_type: str) -> st.SearchStrategy[Reply]:
    """Return a strategy for what no description has: pages of proxies, empty answers, other content."""
    html, plain = {"Content-Type": "text/html"}, {"Content-Type": content_type}
    busy = [Reply(status, html, HTML) for status in (500, 502, 503, 504)]
    return st.sampled_from(
        [*busy, Reply(503, plain), Reply(500, plain, b"\xff\xfe"), Reply(429, html, HTML)]
    )
