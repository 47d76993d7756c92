"""The batch rule that programs copy: whoever shares a step, its samples are the same, and each is taken once."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from hypothesis import given, strategies as st

from tests.support.root import ROOT

FILE = ROOT / "specs" / "elastic" / "batches.py"
_spec = importlib.util.spec_from_file_location("batches", FILE)
assert _spec is not None and _spec.loader is not None
batches: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(batches)

worlds = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@given(st.integers(0, 500), st.integers(1, 40))
def test_a_share_is_as_large_as_the_others_or_one_more(count: int, world: int) -> None:
    shares = [list(batches.share(count, rank, world)) for rank in range(world)]

    assert [i for share in shares for i in share] == list(range(count))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 60), st.integers(1, 25), st.integers(0, 3), worlds)
def test_each_epoch_has_every_sample_once_however_the_world_changes(
    samples: int, batch: int, seed: int, sizes: Sequence[int]
) -> None:
    found = batches.Batches(samples, batch, seed)
    for epoch in range(2):
        seen: list[int] = []
        for at in range(found.steps_per_epoch):
            world = sizes[at % len(sizes)]
            step = epoch * found.steps_per_epoch + at
            # Each process has its own, and begins wherever the last one of them ended.
            fresh = [batches.Batches(samples, batch, seed) for _ in range(world)]
            seen += [i for rank in range(world) for i in fresh[rank].of(step, rank, world)]
        assert sorted(seen) == list(range(samples))


def test_epochs_differ_and_seeds_do() -> None:
    one, other = batches.Batches(20, 20, 1), batches.Batches(20, 20, 2)

    orders = [one.whole(0), one.whole(1), other.whole(0)]

    assert len({tuple(order) for order in orders}) == 3
