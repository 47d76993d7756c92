"""The limits of the agent agree with each other, and with the texts that cannot import them."""

from __future__ import annotations

import pytest

from runspec_agent.base import limits
from runspec_jobs.provider.payload import strip_signed
from tests.support.root import ROOT


@pytest.mark.parametrize(
    "beat_s, lease_s",
    [
        (limits.BEAT_S, limits.LEASE_S),
        (limits.STORE_BEAT_S, limits.STORE_LEASE_S),
        (limits.BUILD_BEAT_S, limits.BUILD_LEASE_S),
        (limits.ELASTIC_BEAT_S, limits.ELASTIC_LEASE * limits.ELASTIC_BEAT_S),
    ],
)
def test_a_lease_outlasts_two_lost_heartbeats(beat_s: float, lease_s: float) -> None:
    assert lease_s >= 3 * beat_s


def test_signed_sh_has_the_grace_period_of_services() -> None:
    assert f"${{RUNSPEC_GRACE_S:-{limits.SERVICE_GRACE_S}}}" in strip_signed()


def test_the_documented_grace_periods_are_those_of_the_agent() -> None:
    text = f"`grace` period ({limits.GRACE_S} s on `local`, {limits.SERVICE_GRACE_S} s elsewhere)"

    assert text in (ROOT / "docs" / "inside.md").read_text()
