"""The providers that run the chains of the articles in tests, and what stands in for their services."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs import api
from runspec_jobs.api.emulation import emulated
from runspec_jobs.api.jobs import Overrides
from runspec_jobs.cli.app import run
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

NEEDS = {"local": [], "slurm": PROGRAMS, "aws-batch": [], "azure-batch": ["azurite"]}

PROVIDERS = tuple(NEEDS)


def in_all(*providers: str, matrix: Collection[str]) -> list[Any]:
    """Return providers as parameters; those in *matrix* are left to the run that takes hours."""
    return [
        pytest.param(name, marks=pytest.mark.matrix if name in matrix else ()) for name in providers
    ]


@contextlib.contextmanager
def stand_in(provider: str, chain: str) -> Iterator[None]:
    """Start what stands in for the service that is to run the jobs of *chain*; `local` is this machine itself."""
    need(*NEEDS[provider])
    if provider == "local":
        yield
        return
    with emulated(Path(chain), overrides=Overrides(provider)):
        yield


def states(chain: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the state of each job of a chain."""
    capsys.readouterr()
    assert run(["status", chain, "--json"]) == 0
    return {job["job"]: job["state"] for job in json.loads(capsys.readouterr().out)["jobs"]}


def printed(job: str) -> str:
    """Return what the newest run of a job has printed."""
    return "".join(f"{line.text}\n" for line in api.get(job).logs())
