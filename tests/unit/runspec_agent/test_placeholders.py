"""What is put in for placeholders, and what a `$` before them keeps: one table for the core and for inside.sh."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from runspec_jobs.spec import placeholders
from tests.support.agent.shells import CALLS, run

VALUES = {"RUNSPEC_MOUNT_CODE": "/code", "RUNSPEC_SWEEP_LR": "0.1"}
TABLE = {
    "${sweep.lr}": "0.1",
    "$${sweep.lr}": "${sweep.lr}",
    "$$${sweep.lr}": "$${sweep.lr}",
    "$${a.b}": "${a.b}",
    "${LR:-${sweep.lr}}": "${LR:-0.1}",
    "$${LR:-${sweep.lr}}": "$${LR:-0.1}",
    "$${LR:-$${a.b}}": "$${LR:-${a.b}}",
    "$${LR:-$${sweep.lr}}": "$${LR:-${sweep.lr}}",
    "$${sweep.a:-${sweep.lr}}": "$${sweep.a:-0.1}",
    "$${mounts.a${sweep.lr}}": "$${mounts.a0.1}",
    "$${mounts.a:-$${a.b}}": "$${mounts.a:-${a.b}}",
    "$${mounts.}": "$${mounts.}",
    "$${mounts.a b} ${mounts.code}": "$${mounts.a b} /code",
    "$${mounts.a.b}": "$${mounts.a.b}",
    "$${a.${sweep.lr}}": "$${a.0.1}",
}
ATOMS = [*"${}._- ", "${", "$${", "a:-", "a.b", "mounts.", "sweep.lr", "mounts.code", "${sweep.lr}"]


def by_the_core(text: str) -> str:
    """Return what a shell makes of the references that the core puts into *text*."""
    found = placeholders.shell_script(text)
    for name, value in VALUES.items():
        found = found.replace(f"${{{name}}}", value)
    return found


def by_the_job(shell: str, form: str, texts: list[str]) -> list[str]:
    done = run(shell, form, ["printf", "%s\\0", *texts, "end"], **VALUES)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().split("\0")[:-2]


def test_the_core_fills_in_and_keeps_as_the_table_says() -> None:
    assert {text: by_the_core(text) for text in TABLE} == TABLE
    assert not [text for text in TABLE if list(placeholders.find_unknown_placeholders(text))]


@pytest.mark.process
@pytest.mark.parametrize("shell, form", CALLS)
def test_the_job_fills_in_and_keeps_as_the_table_says(shell: str, form: str) -> None:
    assert dict(zip(TABLE, by_the_job(shell, form, list(TABLE)), strict=True)) == TABLE


def accepted(text: str) -> bool:
    """Say whether a spec with *text* gets as far as a job."""
    known = all(
        placeholders.variable(*place) in VALUES for place in placeholders.find_placeholders(text)
    )
    return known and not list(placeholders.find_unknown_placeholders(text))


@pytest.mark.process
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    st.lists(
        st.lists(st.sampled_from(ATOMS), max_size=7).map("".join).filter(accepted), min_size=20
    )
)
def test_core_and_job_agree_on_all_that_a_spec_may_have(texts: list[str]) -> None:
    assert by_the_job("dash", "file", texts) == [by_the_core(text) for text in texts]
