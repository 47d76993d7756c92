"""Runs a command line and returns its exit code. This is the only module that prints errors."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from runspec_jobs import __version__, errors
from runspec_jobs.cli.commands import command_line
from runspec_jobs.cli.commands.command_line import PROGRAM
from runspec_jobs.cli.commands.verbs import carry_out
from runspec_jobs.errors import OutputFailed

OF_OUTPUT = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EFBIG,
)  # of a file, or a terminal that has vanished
# After these verbs, what is past its `ttl` is destroyed.
DESTROYING = frozenset("apply cancel cost destroy fetch gc list logs outputs report status".split())
CLOSED_PIPE = 141  # as after SIGPIPE: the reader of standard output has closed it
# The environment variables in which shells ask for completions, with the program that is typed.
COMPLETE = {"_RUNSPEC_COMPLETE": PROGRAM, "_RUNSPEC_JOBS_COMPLETE": "runspec-jobs"}


def run(words: Sequence[str]) -> int:
    """Carry out the command line *words* and return the exit code."""
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return CLOSED_PIPE
    except OutputFailed as exc:
        return _report_output(exc)
    except OSError as exc:
        return _report_output(OutputFailed(exc))
    return code


def _report_output(exc: OutputFailed) -> int:
    _discard_output()
    tell(exc.message)
    if exc.hint:
        tell(f"  hint: {exc.hint}")
    return exc.exit_code


def _discard_output() -> None:
    """Lead standard output nowhere, so that Python does not fail when it flushes the rest at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str]) -> int:
    given: dict[str, Any] = {}
    tolerant()
    try:
        return _carry_out(words, given)
    except SystemExit as exc:  # Typer, after completions
        return exc.code if isinstance(exc.code, int) else errors.OK
    except OutputFailed:
        raise
    except errors.RunspecError as exc:
        return print_error(exc, given)
    except KeyboardInterrupt:
        tell("interrupted; run the same command again to continue")
        return errors.DETACHED
    except BrokenPipeError:
        raise
    except OSError as exc:
        if exc.filename is None and _is_of_output(exc):  # from Typer's help
            raise OutputFailed(exc) from exc
        if isinstance(exc, FileNotFoundError) and _has_no_folder():
            gone = errors.FileFailed("the current folder was deleted", "go to another: cd ..")
            return print_error(gone, given)
        named = isinstance(exc.filename, str | bytes) and bool(
            exc.filename
        )  # the file may be a descriptor
        return print_error(_of_file(exc), given) if named else reported(exc, given)
    except Exception as exc:  # noqa: BLE001 - the last handler: a bug is reported without a traceback
        return reported(exc, given)


def _has_no_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _is_of_output(exc: OSError) -> bool:
    if exc.errno != errno.EBADF:
        return exc.errno in OF_OUTPUT
    how = fcntl.fcntl(sys.stdout.fileno(), fcntl.F_GETFL)
    return how & os.O_ACCMODE == os.O_RDONLY  # it was closed: see `runspec_jobs.__main__`


def _carry_out(words: Sequence[str], given: dict[str, Any]) -> int:
    """Carry out a line and return the exit code; *given* gets the options of the verb."""
    if COMPLETE.keys() & os.environ.keys():
        from runspec_jobs.cli.commands import help as typed  # imports Typer, which is slow

        typed.complete(next(COMPLETE[name] for name in COMPLETE if name in os.environ))
    own, rest = command_line.split_program(words)
    for name in own:
        if name == "no_color":
            os.environ["NO_COLOR"] = "1"
        else:
            return _do_own(name)
    if not rest:
        with contextlib.redirect_stdout(sys.stderr):
            _do_own("help")
        return errors.UsageError.exit_code
    verb = command_line.find_verb(rest[0])
    try:
        options = command_line.read(verb, rest[1:])
    except command_line.HelpWanted:
        return _do_own("help", verb)
    given |= vars(options)
    if given.get("as_json") or given.get("output_format") == "json":
        _print_utf_8()
    try:
        code = carry_out(verb, options)
        if verb in DESTROYING:
            _destroy_expired()
        return code
    except ImportError:
        from runspec_jobs.api import machine  # not every verb needs it

        with machine.translate_import_errors():
            raise


def _destroy_expired() -> None:
    """Destroy what is past its `ttl`, and say so; nothing of it changes how the command ends."""
    from runspec_jobs.api import cleanup  # most of it is imported by then
    from runspec_jobs.cli import output
    from runspec_jobs.report.numbers import format_seconds

    for one in cleanup.destroy_expired():
        ago = format_seconds(time.time() - one.ended_at)
        over = f"{one.run} ended {ago} ago, and its ttl of {format_seconds(one.ttl_s)} is over"
        output.tell(f"{over}: {f'not destroyed: {one.why}' if one.why else 'destroyed'}")


def _do_own(name: str, verb: str | None = None) -> int:
    """Do what an option of runspec itself demands, or the option `--help` of *verb*, and return the exit code."""
    from runspec_jobs.cli.commands import help as typed

    match name:
        case "help":
            typed.print_help(verb)
        case "version":
            typed.version()
        case _:
            typed.install_completion()
    return errors.OK


def _print_utf_8() -> None:
    """Make standard output UTF-8, which JSON demands, whatever the locale is."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def _of_file(exc: OSError) -> errors.FileFailed:
    """Return the error for a file of this machine, such as one that belongs to another user; most verbs say more."""
    from runspec_jobs.api import machine  # not for help and completions, which should be quick

    return machine.make_file_error(exc)


def tolerant() -> None:
    """Make the standard streams print characters that they cannot encode as escapes, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def tell(text: str) -> None:
    from runspec_jobs.cli import output  # not for help and completions, which should be quick

    output.tell(text)


def print_error(exc: errors.RunspecError, given: Mapping[str, Any]) -> int:
    """Print an error, with `--json` as JSON too, and return its exit code.

    *given* has the values of the verb's parameters, or nothing if they could not be read.
    """
    from runspec_jobs.cli import output

    as_json = bool(given.get("as_json"))
    texts = getattr(exc, "texts", None)
    if texts is not None:
        from runspec_jobs.cli import diagnostics

        form = diagnostics.wanted(given.get("output_format", "text"), as_json=as_json)
        diagnostics.print_all(texts, form)
    else:
        output.tell_failure(exc.message)
        if exc.hint:
            output.tell(f"  hint: {exc.hint}")
    if as_json and texts is None:
        error = {"error": exc.message, "hint": exc.hint, "exit_code": exc.exit_code}
        output.out_json("runspec.error/v1", error)
    return exc.exit_code


def reported(exc: Exception, given: Mapping[str, Any]) -> int:
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
    return print_error(
        errors.Bug(f"this is a bug in runspec ({type(exc).__name__}); {where}"), given
    )
