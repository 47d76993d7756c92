"""Translate errors of Azure to the core's errors: refused, unknown outcome, or not permitted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from azure.core import exceptions
from obstore import exceptions as bulk

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError, Unavailable
from runspec_objects.errors import between

LOGIN = "log in again (az login), or set batch_key and storage_key; then repeat the command, which continues"
RIGHTS = "run `runspec policy job.yaml` to see the roles that are needed, or log in again"


class Hints(NamedTuple):
    """The hints of a provider: *login* if a login is missing or refused, *rights* if it lacks a permission."""

    login: str
    rights: str


BATCH = Hints(LOGIN, RIGHTS)
SIGNATURE = re.compile(r"(sig|se|sp|skoid|sktid)=[^&\s\"'<>]+")
PAGE = re.compile(r":?\s*<.*")  # the page of a proxy, which obstore repeats
HTML = re.compile(
    r":?\s*<(!doctype|html|\?xml)\b.*", re.IGNORECASE
)  # the storage SDK repeats the page of an error
# https://learn.microsoft.com/en-us/rest/api/storageservices/common-rest-api-error-codes
DENIED = frozenset(
    "AuthenticationFailed InvalidAuthenticationInfo AuthorizationFailure "
    "AuthorizationPermissionMismatch InsufficientAccountPermissions NoAuthenticationInformation".split()
)
# Answers with 503 that refuse a request before it does anything:
# https://learn.microsoft.com/rest/api/batchservice/batch-status-and-error-codes
BUSY = frozenset({"ServerBusy"})
NEVER_CAME = ("NewConnectionError", "ConnectTimeout", "NameResolutionError", "Name or service")


# The text of OpenSSL, for the SDKs and their logins, and that of obstore 0.12, for blobs.
UNTRUSTED = re.compile(
    r"certificate.verify.failed|InvalidCertificate|No CA certificates were loaded", re.IGNORECASE
)
TRUST = (
    "behind a company's proxy, set REQUESTS_CA_BUNDLE and SSL_CERT_FILE to the file with the proxy's CA "
    "certificate: see runspec docs networks"
)


@contextlib.contextmanager
def translated(action: str, hints: Hints = BATCH) -> Iterator[None]:
    """Translate errors of the SDKs while *action* is done to the errors of `Client.call`."""
    try:
        with _trusted(action):
            yield
    except exceptions.ClientAuthenticationError as exc:
        if _unreachable(exc):
            text = f"{action}: cannot reach the login service: {first_line(exc)}"
            raise RemoteError(text, transient=True) from exc
        raise CredentialsError(f"{action}: {first_line(exc)}", hints.login) from exc
    except exceptions.DecodeError as exc:
        raise NoAnswer(f"{action}: the reply was cut off") from exc
    except exceptions.HttpResponseError as exc:
        raise refusal(action, exc, hints) from exc
    except exceptions.ServiceRequestError as exc:
        if any(word in f"{exc.inner_exception!r} {exc}" for word in NEVER_CAME):
            text = f"{action}: cannot reach Azure: {first_line(exc)}"
            raise RemoteError(text, transient=True) from exc
        raise NoAnswer(f"{action}: {first_line(exc)}") from exc
    except exceptions.AzureError as exc:
        raise NoAnswer(f"{action}: {first_line(exc)}") from exc
    except bulk.BaseError as exc:
        raise _bulk_refused(action, exc, hints) from exc
    except RecursionError as exc:
        raise NoAnswer(f"{action}: the reply cannot be read: {exc}") from exc
    except ValueError as exc:  # half a reply is not JSON, and half a key is not base64
        raise NoAnswer(f"{action}: the reply was cut off") from exc


@contextlib.contextmanager
def _trusted(action: str) -> Iterator[None]:
    """Raise Unavailable for an untrusted certificate: the error is permanent, and nothing was sent."""
    try:
        yield
    except (exceptions.AzureError, bulk.BaseError) as exc:
        if UNTRUSTED.search(str(exc)):
            text = f"{action}: this machine does not trust the server's certificate"
            raise Unavailable(text, TRUST) from exc
        raise


def _unreachable(exc: exceptions.ClientAuthenticationError) -> bool:
    """Return whether the login service was not reached; azure-identity raises the same error for a refused login."""
    far = (exceptions.ServiceRequestError, exceptions.ServiceResponseError)
    return isinstance(exc.__cause__, far) or any(word in str(exc) for word in NEVER_CAME)


def first_line(exc: BaseException) -> str:
    """Return the first line of the message of *exc*, without the signatures of URLs."""
    text = getattr(exc, "message", None) or str(exc)
    return SIGNATURE.sub(r"\1=...", str(text).strip().partition("\n")[0])


def refusal(action: str, exc: exceptions.HttpResponseError, hints: Hints) -> Exception:
    status, code = exc.status_code or 0, service_code(exc)
    text = ": ".join(part for part in (action, str(code or status), _message(exc)) if part)
    text = " ".join(text.split())  # a code or a detail may have several lines
    if status in (401, 403):
        return CredentialsError(text, hints.login if status == 401 else hints.rights)
    # The header may also be a date, which Azure does not send.
    headers = getattr(exc.response, "headers", None) or {}
    asked = str(headers.get("Retry-After", ""))
    after = float(asked) if asked.isascii() and asked.isdigit() else None
    if status == 429 or (status == 503 and (after is not None or code in BUSY)):
        return RemoteError(text, transient=True, retry_after_s=after)
    if (status >= 500 and status != 501) or status in (0, 408):
        # Requests of ours name what they make, so that none of them makes anything twice.
        return NoAnswer(text, transient=status > 0)
    return RemoteError(text)


def _message(exc: exceptions.HttpResponseError) -> str:
    """Return the service's message and the details beside it, without its ids and times."""
    error: Any = exc.error
    first = str(getattr(error, "message", None) or exc.message or "").partition("\n")[0]
    text = HTML.sub("", first)
    more = [f"{detail.code}: {detail.message}" for detail in getattr(error, "details", None) or ()]
    return SIGNATURE.sub(r"\1=...", "; ".join(part for part in (text, *more) if part))


def service_code(exc: BaseException | None) -> str:
    """Return the service's error code, or an empty string."""
    if not isinstance(exc, exceptions.HttpResponseError):
        return ""
    model: Any = exc.model
    code = getattr(model, "code", None) or getattr(exc.error, "code", None)
    return str(code or "")


def code_of(exc: BaseException) -> str:
    """Return the service's error code of the cause of *exc*, or an empty string."""
    return service_code(exc.__cause__)


def status_of(exc: BaseException) -> int:
    """Return the HTTP status of the cause of *exc*, or 0."""
    cause = exc.__cause__
    return int(getattr(cause, "status_code", None) or 0)


def _bulk_refused(action: str, exc: bulk.BaseError, hints: Hints) -> Exception:
    """Return the error for Blob storage's answer inside obstore's text."""
    code = between(exc, "<Code>", "</Code>")
    message = between(exc, "<Message>", "</Message>").partition("\n")[0]
    line = PAGE.sub("", str(exc).strip().partition("\n")[0])
    redacted = SIGNATURE.sub(r"\1=...", message or code or line)
    if code == "ContainerNotFound":  # obstore raises this error itself, except for lists
        return FileNotFoundError(redacted)
    denied = isinstance(exc, bulk.PermissionDeniedError | bulk.UnauthenticatedError)
    if code in DENIED or denied:
        return CredentialsError(f"{action}: {redacted}", hints.login)
    if code == "NotImplemented":  # the store does not know the request, and never will
        return RemoteError(f"{action}: {redacted}")
    return NoAnswer(f"{action}: {redacted}")
