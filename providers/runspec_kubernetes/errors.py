"""Errors of the API server and of the connection to it, in the terms of the core."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes.config import ConfigException
from urllib3 import exceptions as connection

from runspec_jobs.provider import (
    AlreadyExists,
    Conflict,
    CredentialsError,
    NoAnswer,
    RemoteError,
    Unavailable,
)

RIGHTS = "runspec policy JOB.yaml prints the Role that it needs"
LOGIN = "check the login of this context: kubectl auth whoami"
CLUSTER = "check the context and that the cluster runs: kubectl cluster-info"
ANONYMOUS = 'User "system:anonymous"'
# The server has not carried out a request that it answers with these:
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
BUSY = (429, 503)
# Of a list whose pages were asked for too slowly; a new list begins at its first page:
# https://kubernetes.io/docs/reference/using-api/api-concepts/#410-gone-responses
EXPIRED = 410


class Answer(Exception):
    """An answer of the API server that is no success."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status, self.headers, self.body = status, headers, body


@contextlib.contextmanager
def translated(action: str, *, writes: bool = False) -> Iterator[None]:
    """Raise the errors of the core for those of the API; *writes* says whether the request may change something."""
    try:
        yield
    except Answer as exc:
        raise _refused(action, exc, writes=writes) from exc
    except ConfigException as exc:
        raise Unavailable(f"the kubeconfig cannot be used: {exc}", CLUSTER) from exc
    except connection.SSLError as exc:
        raise RemoteError(f"{action}: {_short(exc)}", CLUSTER) from exc
    except (connection.NewConnectionError, connection.ConnectTimeoutError) as exc:
        message = f"{action}: the API server cannot be reached: {_short(exc)}"
        raise RemoteError(message, CLUSTER, transient=True) from exc
    except connection.ReadTimeoutError as exc:
        message = (
            f"{action}: the API server has taken the request, and does not answer: {_short(exc)}"
        )
        raise NoAnswer(message, CLUSTER) from exc
    except (connection.HTTPError, OSError) as exc:
        raise NoAnswer(f"{action}: {_short(exc)}") from exc


class _Caught(logging.Handler):
    """Keeps what the library logs of a login program that has failed, in place of raising it."""

    failed = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.module == "kube_config":
            # What the program has printed, which may be in the text, is not repeated.
            known = re.match(
                r"(?:exec: )?(process returned -?\d+|malformed .*|\[Errno .*)", record.msg
            )
            self.failed = known[1] if known else "it gave no login"


@contextlib.contextmanager
def raised_logins() -> Iterator[None]:
    """Raise CredentialsError if a login program of the kubeconfig fails, which the library only logs."""
    caught, root = _Caught(), logging.getLogger()
    root.addHandler(caught)
    try:
        yield
    finally:
        root.removeHandler(caught)
    if caught.failed:
        raise CredentialsError(
            f"the login program of the kubeconfig has failed: {caught.failed}", LOGIN
        )


def _short(exc: BaseException) -> str:
    return str(exc).partition("\n")[0][:300]


def status_of(exc: Answer) -> dict[str, Any]:
    """Return the Status in the body of an answer; an empty mapping if it has none.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
    """
    try:
        body = json.loads(exc.body)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _refused(action: str, exc: Answer, *, writes: bool) -> Exception:
    status = status_of(exc)
    said = str(status.get("message") or exc.status)
    message, reason = f"{action}: {said}", status.get("reason")
    # Without a login, such as after its program failed, a server may answer as to nobody in particular.
    if exc.status == 401 or (exc.status == 403 and ANONYMOUS in said):
        return CredentialsError(message, LOGIN)
    if exc.status == 403:
        # A quota, a policy of admission, or the rights of this login.
        hint = RIGHTS if "cannot " in said and " resource " in said else None
        return Refused(message, hint, code=403)
    if exc.status == 409 and reason == "AlreadyExists":
        return AlreadyExists(message)
    if exc.status == 409:
        return Conflict(message, "another client has changed or replaced the object: try again")
    if exc.status in BUSY:
        wait = exc.headers.get("Retry-After", "")
        after_s = float(wait) if str(wait).isdigit() else None
        return RemoteError(message, transient=True, retry_after_s=after_s)
    if exc.status == EXPIRED and not writes:
        return RemoteError(message, transient=True)
    if exc.status >= 500:
        return NoAnswer(message) if writes else RemoteError(message, transient=True)
    return Refused(message, code=exc.status)


class Refused(RemoteError):
    """A definite refusal, with its HTTP status."""

    def __init__(self, message: str, hint: str | None = None, *, code: int) -> None:
        super().__init__(message, hint)
        self.code = code
