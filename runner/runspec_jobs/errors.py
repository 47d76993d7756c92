"""The errors of runspec, each with its exit code.

Scripts rely on the codes, which docs/exit-codes.md documents; they never change.
"""

from __future__ import annotations

import errno
from typing import ClassVar

OK = 0
CHANGES = 3  # `plan --detailed-exitcode` found changes
DETACHED = 130  # Ctrl-C while following: the job goes on


class RunspecError(Exception):
    """An error for the user: a message of one line that says what is wrong, and perhaps a hint that says what to do."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # tracebacks and notebooks show it

    def _repr_html_(self) -> str:
        """Return the message as notebooks show it: of a spec, with the lines that are wrong, and carets below them."""
        from html import escape  # no command needs it

        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"<b>{escape(type(self).__name__)}</b><pre>{escape(f'{self}{hint}')}</pre>"


class JobFailed(RunspecError):
    """The job ended and did not succeed; its own exit code is in `--json`."""

    exit_code = 1


class UsageError(RunspecError):
    """The command line, the spec or the profile is wrong."""

    exit_code = 2


class OtherFormat(UsageError):
    """A file that is imported is not of the kind that this importer reads."""


class Conflict(RunspecError):
    """The thing to be made exists already and differs from what was planned."""

    exit_code = 4


class CredentialsError(RunspecError):
    """Credentials or secrets are missing, refused or expired."""

    exit_code = 5


class Unavailable(RunspecError):
    """The provider, or something that it needs on this machine, is not installed or does not work."""

    exit_code = 69


class FileFailed(Unavailable):
    """A file or folder of this machine cannot be read, written or locked: no service is at fault, and no wait helps."""


class OutputFailed(FileFailed):
    """Standard output cannot be written, for example because its disk is full."""

    def __init__(self, exc: OSError) -> None:
        is_closed = exc.errno == errno.EBADF
        why = "it is closed" if is_closed else (exc.strerror or str(exc)).lower()
        super().__init__(f"cannot write to standard output: {why}")


class Lacking(Unavailable):
    """A Python package that a provider needs is not installed, or is another version."""


class Damaged(RunspecError):
    """A file in the record of a run cannot be read; other runs are not affected."""

    exit_code = 69


class Newer(Damaged):
    """A record was written by a newer version of runspec in a format that this version cannot read."""


class Bug(RunspecError):
    """A bug in runspec: the user sees one line, and a report is written to a file."""

    exit_code = 70


class UnknownOutcome(RunspecError):
    """A request may or may not have been carried out; running the same command again is safe."""

    exit_code = 75


class Untrusted(RunspecError):
    """A profile in a checkout has settings that only the user may set, and is not trusted; EX_NOPERM of sysexits.h."""

    exit_code = 77


class TimedOut(RunspecError):
    """The wait took longer than `--timeout`; the job goes on."""

    exit_code = 124


class RemoteError(RunspecError):
    """A service refused a request, so nothing was made.

    *transient* is true if the same request may succeed later, because the service was throttling or overloaded.
    *retry_after_s* is how long the service asked to wait before it, or None.
    """

    exit_code = 69

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        transient: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.transient = transient
        self.retry_after_s = retry_after_s


class AlreadyExists(RemoteError):
    """A service refused to make a resource because its name is taken, perhaps by one that is being made or deleted.

    The engine looks for the resource, and uses it, waits for it, or raises Conflict if it is a different one.
    """


class NoAnswer(UnknownOutcome):
    """A client sent a request and got no usable answer.

    *transient* is true if the service said that it failed, and the same request cannot make anything twice, because
    it names what it makes: then it may be sent again.
    """

    retry_after_s: float | None = None

    def __init__(self, message: str, hint: str | None = None, *, transient: bool = False) -> None:
        super().__init__(message, hint)
        self.transient = transient
