"""The walk-through of docs/parallelcluster.md: its specs are planned as they are, its commands are runspec's."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from runspec_jobs import api
from runspec_jobs.cli.app import run
from runspec_jobs.cli.commands import command_line
from tests.support.root import ROOT

FOLDER = ROOT / "specs" / "parallelcluster"
PAGE = (ROOT / "docs" / "parallelcluster.md").read_text()
# The chain of the article is in docs/articles.md: `e2e/test_article_parallelcluster.py`.
OTHERS = {"runspec-profile.yaml", "mrpc.yaml"}
SPECS = sorted(f.name for f in FOLDER.glob("*.yaml") if f.name not in OTHERS)
COMMANDS = [
    line.strip() for line in re.findall(r"^ +(runspec .*)$", PAGE, re.MULTILINE)
]  # fmt: skip


@pytest.fixture(autouse=True)
def _trusted() -> None:
    assert run(["trust", str(FOLDER / "runspec-profile.yaml")]) == 0


def planned(name: str) -> dict[str, Any]:
    return {step.id: step for step in api.plan(api.load(FOLDER / name)).steps}


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_of_the_walk_through_is_planned(name: str) -> None:
    steps = planned(name)

    assert list(steps)[:3] == ["cluster", "update", "head"]


def test_all_specs_of_the_recipe_use_one_cluster() -> None:
    made = [planned(name)["cluster"].do for name in SPECS]

    assert len(made) == len(SPECS) and all(one == made[0] for one in made)


@pytest.mark.parametrize(
    "name,queue", [("bert.yaml", "gpu"), ("translation.yaml", "gpus"), ("notebook.yaml", "gpu")]
)
def test_each_job_goes_to_the_queue_that_the_page_says(name: str, queue: str) -> None:
    assert f"--partition={queue}" in planned(name)["job"].do.params["argv"]


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_of_the_page_is_one_of_runspec(line: str) -> None:
    words = shlex.split(line)[1:]

    assert vars(command_line.read(words[0], words[1:]))


def test_the_page_has_the_walk_through() -> None:
    assert len(COMMANDS) >= 10
    assert all(name in PAGE for name in SPECS)
