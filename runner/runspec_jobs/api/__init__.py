"""Runs jobs from Python: what the command line does, without printing and without exits.

A walk through it is in docs/python.md. Every error is a `RunspecError` from `runspec_jobs.errors`, with a message and
perhaps a hint. All functions may be called from several threads, except `emulation.emulated`, which changes the
environment of the process.

>>> job = load({"apiVersion": "runspec/v1", "name": "hello", "provider": "local", "command": ["echo", "hi"]})
>>> job.spec.name
'hello'

The names below are for programs, and stay. The command line is written on them and on the other modules of this
package, which may change with it. Each module is imported when a name of it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runspec_jobs.api.chains import (
        Chain,
        ChainRun,
        JobStatus,
        apply_chain,
        get_chain,
        load_chain,
    )
    from runspec_jobs.api.events import Event, OnEvent
    from runspec_jobs.api.jobs import Estimate, Job, Plan, estimate, load, plan
    from runspec_jobs.api.lifecycle import (
        LogLine,
        OutputFile,
        Run,
        State,
        Status,
        Task,
        apply,
        get,
        runs,
    )
    from runspec_jobs.api.specs import Diagnostic, InvalidSpec, Spec, validate

__all__ = [
    "Chain", "ChainRun", "Diagnostic", "Estimate", "Event", "InvalidSpec", "Job", "JobStatus", "LogLine", "OnEvent",
    "OutputFile", "Plan", "Run", "Spec", "State", "Status", "Task", "apply", "apply_chain", "estimate", "get",
    "get_chain", "load", "load_chain", "plan", "runs", "validate",
]  # fmt: skip

_MODULES = {
    "chains": ("Chain", "ChainRun", "JobStatus", "apply_chain", "get_chain", "load_chain"),
    "events": ("Event", "OnEvent"),
    "jobs": ("Estimate", "Job", "Plan", "estimate", "load", "plan"),
    "lifecycle": (
        "LogLine",
        "OutputFile",
        "Run",
        "State",
        "Status",
        "Task",
        "apply",
        "get",
        "runs",
    ),
    "specs": ("Diagnostic", "InvalidSpec", "Spec", "validate"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
