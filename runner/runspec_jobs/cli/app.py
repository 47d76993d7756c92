"""Runs a command line and returns its exit code. This is the only module that prints errors."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from runspec_jobs import __version__, errors
from runspec_jobs.cli import arguments, output

MODULES = {
    "init": "setup",
    "validate": "validate",
    "plan": "plan",
    "simulate": "simulate",
    "import": "import_",
    "trust": "trust",
    "apply": "apply",
    "list": "status",
    "status": "status",
    "logs": "status",
    "fetch": "fetch",
    "report": "report",
    "shell": "shell",
    "tunnel": "shell",
    "adopt": "adopt",
    "cancel": "cancel",
    "destroy": "cancel",
    "rehearse": "rehearse",
    "gc": "cleanup",
    "policy": "cleanup",
    "doctor": "setup",
    "schema": "setup",
    "providers": "setup",
    "completion": "setup",
}
# Commands whose name means something else in Python or in their module.
FUNCTIONS = {"list": "list_runs", "plan": "plan_", "import": "import_", "trust": "trust_"}


def run(words: Sequence[str]) -> int:
    """Carry out the command line *words* and return the exit code."""
    args = None
    output.tolerant()
    try:
        completing = "_ARGCOMPLETE" in os.environ
        top = arguments.parser("" if completing else next(iter(words), ""))
        if completing:
            import argcomplete

            argcomplete.autocomplete(top)
        own, rest = arguments.parted(words)
        args = top.parse_args(own)
        args.words = rest
        if args.version:
            output.out(f"runspec {__version__}")
            return errors.OK
        if args.verb is None:
            top.print_help(sys.stderr)
            return errors.UsageError.exit_code
        if args.no_color:
            os.environ["NO_COLOR"] = "1"
        return verb(args)
    except errors.RunspecError as exc:
        return print_error(exc, args)
    except KeyboardInterrupt:
        output.tell("interrupted; run the same command again to continue")
        return errors.DETACHED
    except BrokenPipeError:
        # The reader of standard output has closed it, so nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as exc:  # noqa: BLE001 - the last handler: a bug is reported without a traceback
        return reported(exc)


def verb(args: Namespace) -> int:
    """Carry out one command and return its exit code; its module is imported only now."""
    module = importlib.import_module(f"runspec_jobs.cli.{MODULES[args.verb]}")
    gc.freeze()
    gc.enable()
    try:
        code: int = getattr(module, FUNCTIONS.get(args.verb, args.verb))(args)
    except ImportError:
        from runspec_jobs.load import registry  # not every command needs it

        with registry.extras():
            raise
    return code


def print_error(exc: errors.RunspecError, args: Namespace | None) -> int:
    """Print an error, with `--json` as JSON too, and return its exit code."""
    texts = getattr(exc, "texts", None)
    if texts is not None:
        from runspec_jobs.cli import diagnostics

        diagnostics.print_all(texts, args)
    else:
        output.tell(exc.message)
        if exc.hint:
            output.tell(f"  hint: {exc.hint}")
    if args is not None and getattr(args, "json", False) and texts is None:
        error = {"error": exc.message, "hint": exc.hint, "exit_code": exc.exit_code}
        output.out_json(error)
    return exc.exit_code


def reported(exc: Exception) -> int:
    """Write a report about an unexpected error to a file, print its path, and return the exit code.

    The values of variables and the texts of exceptions may hold secrets, so the report has neither.
    """
    import tempfile  # slow to import, and hardly ever needed
    import traceback

    frames = traceback.extract_tb(exc.__traceback__)
    lines = [f"runspec {__version__}", f"Python {sys.version}", type(exc).__name__]
    lines += [f"{frame.filename}:{frame.lineno} {frame.name}: {frame.line}" for frame in frames]
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="runspec-bug-", suffix=".txt", delete=False
        ) as report:
            report.write("\n".join(lines) + "\n")
        where = f"a report is in {report.name}"
    except OSError as failed:
        where = f"no report could be written: {(failed.strerror or str(failed)).lower()}"
    output.tell(f"this is a bug in runspec ({type(exc).__name__}); {where}")
    return errors.Bug.exit_code
