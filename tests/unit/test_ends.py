"""The table of ends in docs/ends.md is made of what tests have established."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support import ends

NODES = {"exit-0", "exit-3", "exit-75", "exit-143", "signal-KILL", "timeout", "cancel"}
TORCH = {"exit-0", "exit-3", "exit-75", "signal-KILL", "timeout", "cancel"}
RULES = {
    "rule-stop",
    "rule-again",
    "rule-timeout",
    "setup",
    "max-failed",
    "max-running",
    "max-waiting",
}
SPOT = {"exit-75", "exit-137", "exit-143", "part", "agent", "lost", "notice"}
GANG = {*NODES, "agent"}
SPOT_GANG = {"exit-3", "exit-75", "exit-143", "timeout", "agent", "cancel"}
TORCH_GANG = {"exit-3", "signal-KILL", "timeout", "agent", "cancel"}
FULL = {"full-0", "full-3"}
DISK = {"disk-0", "disk-3"}
IMAGES = {"image", "architecture", "shell", "entrypoint"}
BEFALLS = {"lost", "evicted", "preempted"}
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
    "aws-batch": {
        *WHOLE,
        *FULL,
        *DISK,
        "service",
        "agent",
        "lost",
        "memory",
        "program-memory",
        *IMAGES,
    },
    "aws-batch-nodes": {*GANG, *FULL},
    "aws-batch-mpi": {*GANG, "service"},
    "aws-batch-torchrun": TORCH_GANG,
    "aws-batch-signed": FULL,
    "aws-batch-spot-nodes": SPOT_GANG,
    "aws-batch-spot": SPOT,
    "azure-batch": {*WHOLE, *FULL, *DISK, *IMAGES, "service", "agent"},
    "azure-batch-nodes": {*GANG, *FULL},
    "azure-batch-mpi": {*GANG, "service"},
    "azure-batch-torchrun": {*TORCH_GANG, "lost"},
    "azure-batch-signed": FULL,
    "azure-batch-spot-nodes": SPOT_GANG,
    "azure-batch-spot": {*SPOT, "withdrawn"},
    "azure-batch-ai": {*WHOLE, *FULL, "lost"},
    "local-rules": RULES,
    "slurm-rules": {*RULES, "rule-oom", "rule-lost", "rule-image"},
    "aws-batch-rules": {*RULES, "rule-oom", "rule-lost", "rule-image"},
    "azure-batch-rules": {*RULES, "rule-oom", "rule-lost"},
    "azure-batch-ai-rules": {"rule-stop", "rule-again"},
    "local-elastic": {*TORCH, "node"},
    "slurm-elastic": {*TORCH, "node"},
    "aws-batch-elastic": {*TORCH, "node"},
    "azure-batch-elastic": {*TORCH, "node"},
    "kubernetes": {*WHOLE, *FULL, "service", "agent", *BEFALLS, "memory", "image"},
    "kubernetes-nodes": {*GANG, *FULL},
    "kubernetes-mpi": {"exit-0", "timeout", "cancel"},
    "kubernetes-torchrun": TORCH_GANG,
    "kubernetes-spot": SPOT,
    "kubernetes-spot-nodes": SPOT_GANG,
    "kubernetes-elastic": {*TORCH, "node"},
    "kubernetes-rules": {*RULES, "rule-oom", "rule-lost"},
}
# Attempts of a node of an elastic job that fails: Azure Batch starts all that are left, which run nothing.
ELASTIC = {
    "local-elastic": 1,
    "slurm-elastic": 1,
    "aws-batch-elastic": 1,
    "azure-batch-elastic": 4,
    "kubernetes-elastic": 1,
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
        if own and kind == "exit" and name.endswith(("-torchrun", "-elastic")):
            own = 1  # that of torchrun, whatever its worker ended with
        attempts = ELASTIC.get(name, ends.ATTEMPTS)
        if own:
            assert (rows[-1]["state"], rows[-1]["exit_code"]) == ("failed", own), end
            assert "another attempt" not in rows[-1]["reason"], end
            assert rows[-1]["attempts"] == [[own, "failed"]] * attempts, end


@pytest.mark.parametrize("name", sorted({*KINDS} - {"azure-batch-ai"}))
def test_a_timeout_is_named_and_uses_an_attempt(name: str) -> None:
    """Batch AI has one limit for all attempts together."""
    for row in ends.recorded(name).get("timeout", ()):
        assert (row["state"], row["exit_code"]) == ("failed", 124)
        assert row["reason"].startswith("timeout: not done after 20 s")
        attempts = ELASTIC.get(name, ends.ATTEMPTS)
        assert row["attempts"] == [[124, "failed"]] * attempts


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("slurm", "hang"),
        ("aws-batch", "service"),
        ("aws-batch-mpi", "service"),
        ("azure-batch", "service"),
        ("azure-batch-mpi", "service"),
        ("kubernetes", "service"),
    ],
)
def test_the_time_limit_of_a_service_is_told_as_a_timeout(name: str, end: str) -> None:
    row = ends.recorded(name)[end][0]

    assert (row["state"], row["reason"].partition(";")[0]) == (
        "failed",
        "timeout: not done after 20 s",
    )


@pytest.mark.parametrize("name", ["local", "slurm", "aws-batch", "azure-batch", "kubernetes"])
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


@pytest.mark.parametrize("name", ["local", "slurm", "aws-batch", "azure-batch", "kubernetes"])
def test_an_image_that_cannot_start_is_told_in_words(name: str) -> None:
    """An image that cannot be pulled has no job on this machine: `apply` is refused."""
    for end in IMAGES & {*ends.recorded(name)}:
        (row,) = ends.recorded(name)[end]

        assert row["state"] == "succeeded" or (
            "image" in row["reason"] or "/bin/sh" in row["reason"]
        )


@pytest.mark.parametrize(
    "name",
    [
        "slurm",
        "aws-batch",
        "aws-batch-spot",
        "azure-batch-spot",
        "azure-batch-torchrun",
        "kubernetes",
        "kubernetes-spot",
    ],
)
def test_a_lost_machine_uses_no_attempt_of_a_failure(name: str) -> None:
    for end in {"notice", *BEFALLS} & {*ends.recorded(name)}:
        for row in ends.recorded(name)[end]:
            assert row["state"] == "succeeded"
            assert [how for _, how in row["attempts"]] == ["reclaimed", "succeeded"]


@pytest.mark.parametrize("name", sorted(name for name in KINDS if "cancel" in KINDS[name]))
def test_a_cancelled_run_has_no_failed_node(name: str) -> None:
    for row in ends.recorded(name)["cancel"]:
        assert (row["state"], [how for _, how in row["attempts"]]) == ("cancelled", ["cancelled"])


# Where a provider differs from the others: tables and ends, each with words of the page that say why.
DIFFERENT = {
    "its first node has the code of the node that failed": (
        "aws-batch azure-batch slurm local",
        "-nodes -mpi -spot-nodes",
        "exit-3 exit-75 signal-KILL agent",
    ),
    "elsewhere their torchrun may end by itself before, with 1": (
        "local slurm aws-batch azure-batch kubernetes",
        "-torchrun",
        "exit-3 exit-75 signal-KILL agent",
    ),
    "exit code of a cancelled task is 137": (
        "azure-batch",
        "-nodes -mpi -torchrun -spot-nodes -elastic",
        "cancel",
    ),
    "has the code that it ends with": ("local", "-rules", "max-running"),
    "Azure Batch does so after each failure": (
        "azure-batch",
        "-rules",
        "rule-stop rule-timeout rule-oom",
    ),
    "on every node of an elastic job that has failed": (
        "azure-batch",
        "-elastic",
        "exit-3 exit-75 signal-KILL timeout",
    ),
    "it runs nothing, ends with 75 or 1": ("slurm azure-batch aws-batch", "-rules", "rule-lost"),
    "Engines have codes of their own": (
        "local slurm aws-batch azure-batch",
        "",
        "image architecture",
    ),
    "an ENTRYPOINT that does not exist cannot be replaced": ("aws-batch", "", "entrypoint"),
    "an attempt that never recorded its end": ("azure-batch", "-signed", "shell full-0 full-3"),
    "each node saves its own outputs": ("local", "-nodes", "full-0 full-3"),
    "start the next attempt of a program that failed": (
        "local slurm aws-batch azure-batch azure-batch-ai kubernetes",
        "-nodes",
        "full-0 full-3",
    ),
    "on Slurm it is 75": ("slurm", "-elastic", "node"),
    "whether it fails for want of room is its own decision": ("azure-batch-ai", "", "full-0"),
    "and Slurm `attempts`; the others refuse that rule": (
        "slurm aws-batch",
        "-rules",
        "rule-image",
    ),
    "waits for its image until its deadline": ("kubernetes", "", "image"),
    "records no failure if its whole container is killed": ("kubernetes", "", "service memory"),
    "counts no attempt that lost its machine": ("azure-batch-ai", "", "lost timeout"),
    "one without a code on Azure Batch": ("aws-batch azure-batch kubernetes", "-spot", "notice"),
}


def test_an_end_is_told_alike_on_every_provider_or_the_page_says_why() -> None:
    """State, exit code and attempts of each node; words of services may differ."""
    said: dict[tuple[str, str], dict[str, Any]] = {}
    for provider, kind in itertools.product(ends.TITLES, ends.KINDS):
        for end, nodes in ends.recorded(provider + kind).items():
            of_end = said.setdefault((kind, end), {})
            of_end[provider] = [(n["state"], n["exit_code"], n["attempts"]) for n in nodes]
    differing = {
        (provider, table, end)
        for (table, end), each in said.items()
        for provider, found in each.items()
        if found != max(each.values(), key=list(each.values()).count)
    }

    explained = {
        words: {
            (provider, table, end)
            for provider in providers.split()
            for table in ("", *tables.split())
            for end in named.split()
        }
        for words, (providers, tables, named) in DIFFERENT.items()
    }
    prose = " ".join(ends.PAGE.read_text().partition(ends.BEGIN)[0].split())
    assert sorted(differing.difference(*explained.values())) == []
    assert [words for words in DIFFERENT if words not in prose] == []
    assert [words for words, found in explained.items() if not found & differing] == []
