"""Every way runspec ends other than well, each with its exit code.

The codes are a promise to scripts: documented in docs/exit-codes.md and never changed.
"""

from __future__ import annotations

from typing import ClassVar

OK = 0
CHANGES = 3  # `plan --detailed-exitcode` found changes
DETACHED = 130  # Ctrl-C while following: the job goes on


class RunspecError(Exception):
    """What the user is told: one line that says what, and perhaps a hint that says what to do."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class JobFailed(RunspecError):
    """The job ended and did not succeed; its own exit code is in `--json`."""

    exit_code = 1


class UsageError(RunspecError):
    """The command line, the spec or the profile is wrong."""

    exit_code = 2


class Conflict(RunspecError):
    """It is there already and is something else."""

    exit_code = 4


class CredentialsError(RunspecError):
    """Credentials or secrets are missing, refused or expired."""

    exit_code = 5


class Unavailable(RunspecError):
    """The provider, or something this machine needs for it, is not there."""

    exit_code = 69


class Lacking(Unavailable):
    """A Python package that a provider needs is not installed, or is another version."""


class Damaged(RunspecError):
    """A file of one run's record cannot be read; other runs are not concerned."""

    exit_code = 69


class Newer(Damaged):
    """A record is of a newer version of runspec, which this one does not understand."""


class Bug(RunspecError):
    """Our mistake: one line for the user and a report in a file."""

    exit_code = 70


class UnknownOutcome(RunspecError):
    """A call may or may not have been carried out; the same command again is safe."""

    exit_code = 75


class Untrusted(RunspecError):
    """A profile of a checkout sets what only the user may set, and was not trusted; EX_NOPERM of sysexits.h."""

    exit_code = 77


class TimedOut(RunspecError):
    """The `--timeout` of a wait has passed; the job goes on."""

    exit_code = 124


class RemoteError(RunspecError):
    """A service refused a call, so nothing was made.

    *transient* says that the same call may be tried again later (throttled, overloaded).
    """

    exit_code = 69

    def __init__(self, message: str, hint: str | None = None, *, transient: bool = False) -> None:
        super().__init__(message, hint)
        self.transient = transient


class AlreadyExists(RemoteError):
    """A service refused to make something because something has that name, which may be coming or going just now.

    The engine looks for it: it is adopted, found to be something else (Conflict), or waited for.
    """


class NoAnswer(UnknownOutcome):
    """A client raises this when a call was sent and no usable answer came back."""
