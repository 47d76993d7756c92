"""What a job runs: its command, its script and interpreter, its tasks and its Python."""

from __future__ import annotations

from runspec_jobs.spec.interpreter import Interpreter as Interpreter, interpreter as interpreter
from runspec_jobs.spec.placeholders import (
    ENTRYPOINT as ENTRYPOINT,
    PLACE as PLACE,
    argv as argv,
    literal as literal,
    shell_script as shell_script,
    tasks as tasks,
    variable as variable,
)
from runspec_jobs.spec.python_versions import (
    python_fits as python_fits,
    python_version as python_version,
)

__all__ = [
    "ENTRYPOINT",
    "PLACE",
    "Interpreter",
    "argv",
    "interpreter",
    "literal",
    "python_fits",
    "python_version",
    "shell_script",
    "tasks",
    "variable",
]
