"""A command imports modules of other packages without work that it does not need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing
from pathlib import Path
from types import ModuleType

import pytest

from runspec_jobs import quick_imports

JOB = "apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: [echo]\n"
# Prints to standard error which regular expressions and annotations a command compiles, and which modules it imports.
COUNTER = """
import json, re._compiler, sys, typing
patterns, references = [], []
compile_, init = re._compiler.compile, typing.ForwardRef.__init__
def count_pattern(pattern, flags=0):
    patterns.append(str(pattern)[:40])
    return compile_(pattern, flags)
def count_reference(self, *args, **options):
    references.append(args[0])
    init(self, *args, **options)
re._compiler.compile, typing.ForwardRef.__init__ = count_pattern, count_reference
from runspec_jobs.__main__ import main
assert main() == 0
print(json.dumps([patterns, references, list(sys.modules)]), file=sys.stderr)
"""


def count(*words: str) -> tuple[list[str], list[str], list[str]]:
    """Return the patterns and annotations that a command compiles, and the modules that it imports."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTER, *words], capture_output=True, text=True, check=True
    )
    patterns, references, modules = json.loads(done.stderr.splitlines()[-1])
    return patterns, references, modules


@pytest.mark.process
def test_validate_compiles_few_annotations_and_patterns(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)

    patterns, references, modules = count("validate", str(tmp_path / "job.yaml"))

    # With 1,160 annotations and 60 expressions, these took a fifth of the time of the command.
    assert len(references) <= 250
    assert len(patterns) <= 40
    assert len(modules) <= 320


def test_a_module_is_executed_again_if_it_needs_what_was_replaced() -> None:
    seen = []

    def execute(module: ModuleType) -> None:
        seen.append(re.compile)
        if len(seen) == 1:
            raise TypeError

    original = re.compile

    quick_imports.execute_with(ModuleType("any"), execute, [("re", "compile", str)])

    assert seen == [str, original] and re.compile is original


def test_types_of_pydantic_schemas_keep_their_options() -> None:
    class Fields(quick_imports.UncheckedDict, total=False):
        name: "typing.Any"  # noqa: UP037 - never evaluated

    assert Fields(name=1) == {"name": 1}
