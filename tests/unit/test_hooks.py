"""Which files the hook of pre-commit checks: specs by their names, and no profiles."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.support.root import ROOT

SPECS = ["job.yaml", "a/runspec.yml", "mnist.job.yaml", "train.runspec.yaml", "specs/x.yaml"]
OTHERS = ["specs/runspec-profile.yaml", "jobs/a/runspec-profile.yml", "a.yaml", "jobs/a.json"]


def hooks() -> list[dict[str, Any]]:
    own = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    (mine,) = (hook for hook in own if hook["id"] == "runspec-validate")
    return [*yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()), mine]


def checked(hook: dict[str, Any], name: str) -> bool:
    return bool(re.search(hook["files"], name) and not re.search(hook["exclude"], name))


@pytest.mark.parametrize("name", SPECS)
def test_specs_are_checked(name: str) -> None:
    assert checked(hooks()[0], name)


@pytest.mark.parametrize("name", OTHERS)
def test_the_hook_ignores_files_that_are_no_specs(name: str) -> None:
    assert not any(checked(hook, name) for hook in hooks())


def test_a_file_whose_name_begins_with_a_dash_is_no_option() -> None:
    assert all(hook["entry"].endswith(" --") for hook in hooks())
