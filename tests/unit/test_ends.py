"""The table of ends in docs/ends.md is made of what tests have established."""

from __future__ import annotations

import pytest

from tests.support import ends

NODES = {"exit-0", "exit-3", "exit-75", "exit-143", "signal-KILL", "timeout"}
TORCH = {"exit-0", "exit-3", "exit-75", "signal-KILL", "timeout"}
SPOT = {"exit-75", "exit-137", "exit-143", "part", "agent", "lost", "notice"}
GANG = {*NODES, "agent"}
SPOT_GANG = {"exit-3", "exit-75", "exit-143", "timeout", "agent"}
FULL = {"full-0", "full-3"}
IMAGES = {"image", "architecture", "shell", "entrypoint"}
WHOLE = {*ends.OF_PROGRAM, "timeout", "cancel"}
KINDS = {
    "local": {*WHOLE, *FULL, *(IMAGES - {"image"}), "supervisor"},
    "local-nodes": {*NODES, *FULL},
    "local-mpi": {*GANG, "supervisor"},
    "local-torchrun": TORCH,
    "slurm": {*WHOLE, *FULL, *IMAGES, "hang", "agent", "batch", "lost"},
    "slurm-nodes": {*GANG, *FULL},
    "slurm-mpi": GANG,
    "slurm-torchrun": TORCH,
    "aws-batch": {*WHOLE, *FULL, "service", "agent", "lost", "memory", "program-memory", *IMAGES},
    "aws-batch-nodes": {*GANG, *FULL},
    "aws-batch-mpi": {*GANG, "service"},
    "aws-batch-torchrun": {"exit-3", "timeout", "agent"},
    "aws-batch-signed": FULL,
    "aws-batch-spot-nodes": SPOT_GANG,
    "aws-batch-spot": SPOT,
    "azure-batch": {*WHOLE, *FULL, *IMAGES, "service", "agent"},
    "azure-batch-nodes": {*GANG, *FULL},
    "azure-batch-mpi": {*GANG, "service"},
    "azure-batch-torchrun": {"exit-3", "timeout", "agent", "lost"},
    "azure-batch-signed": FULL,
    "azure-batch-spot-nodes": SPOT_GANG,
    "azure-batch-spot": {*SPOT, "withdrawn"},
    "azure-batch-ai": {*WHOLE, "lost"},
}


def test_the_page_has_the_recorded_ends() -> None:
    """`RUNSPEC_GOLDEN=write` with the tests of tests/e2e/test_ends.py writes both anew."""
    assert ends.PAGE.read_text() == ends.page()


def test_every_way_to_end_is_recorded_for_each_provider() -> None:
    found = {name: set(ends.recorded(name)) for name in ends.NAMES}

    assert {name: ways for name, ways in found.items() if ways} == KINDS


@pytest.mark.parametrize("name", sorted(KINDS))
def test_what_a_program_does_by_itself_uses_the_attempts_of_a_failure(name: str) -> None:
    """Whatever its code means to an agent or a service; so does a killed agent, of which the code is 137."""
    for end, rows in ends.recorded(name).items():
        kind, _, code = end.partition("-")
        own = {"exit": int(code) if code.isdigit() else 0, "part": 143, "agent": 137}.get(kind)
        if own and kind == "exit" and name.endswith("-torchrun"):
            own = 1  # that of torchrun, whatever its worker ended with
        if own:
            assert (rows[-1]["state"], rows[-1]["exit_code"]) == ("failed", own), end
            assert "another attempt" not in rows[-1]["reason"], end
            assert rows[-1]["attempts"] == [[own, "failed"]] * ends.ATTEMPTS, end


@pytest.mark.parametrize("name", sorted({*KINDS} - {"azure-batch-ai"}))
def test_a_timeout_is_named_and_uses_an_attempt(name: str) -> None:
    """Batch AI has one limit for all attempts together."""
    for row in ends.recorded(name).get("timeout", ()):
        assert (row["state"], row["exit_code"]) == ("failed", 124)
        assert row["reason"].startswith("timeout: not done after 20 s")
        assert row["attempts"] == [[124, "failed"]] * ends.ATTEMPTS


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("slurm", "hang"),
        ("aws-batch", "service"),
        ("aws-batch-mpi", "service"),
        ("azure-batch", "service"),
        ("azure-batch-mpi", "service"),
    ],
)
def test_the_time_limit_of_a_service_is_told_as_a_timeout(name: str, end: str) -> None:
    row = ends.recorded(name)[end][0]

    assert (row["state"], row["reason"].partition(";")[0]) == (
        "failed",
        "timeout: not done after 20 s",
    )


@pytest.mark.parametrize("name", ["local", "slurm", "aws-batch", "azure-batch"])
@pytest.mark.parametrize("nodes", ["", "-nodes"])
def test_a_full_store_fails_a_run_and_leaves_the_code_of_a_program_that_failed(
    name: str, nodes: str
) -> None:
    good, bad = (ends.recorded(name + nodes)[end][-1] for end in ("full-0", "full-3"))

    assert (good["state"], bad["state"], bad["exit_code"]) == ("failed", "failed", 3)
    assert {code for code, _ in bad["attempts"]} == {3}


@pytest.mark.parametrize("name", ["aws-batch-signed", "azure-batch-signed"])
def test_no_attempt_of_a_signed_job_asks_a_full_store_for_another_one(name: str) -> None:
    """The second one cannot begin, and ends with 1."""
    for end in FULL:
        (row,) = ends.recorded(name)[end]

        assert (row["state"], row["exit_code"], row["attempts"][1]) == ("failed", 1, [1, "failed"])


@pytest.mark.parametrize("name", ["local", "slurm", "aws-batch", "azure-batch"])
def test_an_image_that_cannot_start_is_told_in_words(name: str) -> None:
    """An image that cannot be pulled has no job on this machine: `apply` is refused."""
    for end in IMAGES & {*ends.recorded(name)}:
        (row,) = ends.recorded(name)[end]

        assert row["state"] == "succeeded" or (
            "image" in row["reason"] or "/bin/sh" in row["reason"]
        )


@pytest.mark.parametrize(
    "name", ["slurm", "aws-batch", "aws-batch-spot", "azure-batch-spot", "azure-batch-torchrun"]
)
def test_a_lost_machine_uses_no_attempt_of_a_failure(name: str) -> None:
    for end in {"lost", "notice"} & {*ends.recorded(name)}:
        for row in ends.recorded(name)[end]:
            assert row["state"] == "succeeded"
            assert [how for _, how in row["attempts"]] == ["reclaimed", "succeeded"]


def test_a_cancelled_run_has_no_failed_node() -> None:
    for name in ("local", "slurm", "aws-batch", "azure-batch", "azure-batch-ai"):
        (row,) = ends.recorded(name)["cancel"]

        assert (row["state"], [how for _, how in row["attempts"]]) == ("cancelled", ["cancelled"])
