"""What goes wrong at AWS, in the core's words: refused, not answered, or not allowed."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore import exceptions
from botocore.parsers import ResponseParserError
from obstore import exceptions as bulk

from runspec_jobs.provider import (
    AlreadyExists,
    CredentialsError,
    NoAnswer,
    RemoteError,
    Unavailable,
)

# Refused before anything was done, and the same call may go through later.
# https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
PASSING = frozenset(
    "Throttling ThrottlingException ThrottledException TooManyRequestsException SlowDown "
    "RequestThrottled RequestThrottledException RequestLimitExceeded BandwidthLimitExceeded "
    "LimitExceededException PriorRequestNotComplete TransactionInProgressException".split()
)
# 400 and 403 alone are all that an answer to HEAD says.
FORBIDDEN = frozenset("403 AccessDenied AccessDeniedException UnauthorizedOperation".split())
DENIED = frozenset(
    "400 AuthFailure ExpiredToken "
    "ExpiredTokenException InvalidClientTokenId UnrecognizedClientException InvalidAccessKeyId "
    "SignatureDoesNotMatch RequestExpired MissingAuthenticationToken RequestTimeTooSkewed".split()
)
# AWS Batch has one code for all refusals, and says it in the message: "Object already exists".
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
EXISTS = frozenset(
    "InvalidPlacementGroup.Duplicate InvalidLaunchTemplateName.AlreadyExistsException".split()
)
# What a page of a list at S3 says of the next one.
NEXT = ("NextKeyMarker", "NextPartNumberMarker", "NextContinuationToken")
RIGHTS = "see runspec policy job.yaml for the rights that are needed, or log in again"
UNTRUSTED = "this machine does not trust the certificate that it was shown"
# As obstore 0.12 prints them.
UNTRUSTED_BULK = ("InvalidCertificate", "No CA certificates were loaded")
TRUST = (
    "behind a company's proxy, set AWS_CA_BUNDLE and SSL_CERT_FILE to the file with its authority: "
    "see docs/networks.md"
)
LOGIN = "log in again (aws sso login), or set account_profile; then the same command goes on"


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise what botocore raises while *what* is done in the words of `Client.call`."""
    try:
        yield
    except exceptions.ClientError as exc:
        raise _refused(what, exc) from exc
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as exc:
        raise CredentialsError("there are no AWS credentials here", LOGIN) from exc
    except (exceptions.CredentialRetrievalError, exceptions.TokenRetrievalError) as exc:
        raise CredentialsError(f"the AWS credentials cannot be got: {exc}", LOGIN) from exc
    except (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError) as exc:
        raise RemoteError(f"{what}: AWS cannot be reached: {exc}", transient=True) from exc
    except exceptions.SSLError as exc:
        raise _not_secured(what, exc) from exc
    except exceptions.ParamValidationError as exc:
        raise RemoteError(f"{what}: {exc}") from exc
    except (exceptions.HTTPClientError, ResponseParserError) as exc:
        raise NoAnswer(f"{what}: {exc}") from exc
    except bulk.BaseError as exc:
        raise _bulk_refused(what, exc) from exc
    except exceptions.BotoCoreError as exc:
        raise Unavailable(f"{what}: {exc}") from exc
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        if not _while_parsing(exc):
            raise
        raise NoAnswer(f"{what}: the reply cannot be read: {exc}") from exc


@contextlib.contextmanager
def moved(what: str) -> Iterator[None]:
    """Raise what obstore raises while *what* is done in the same words.

    Its 404 is Python's own FileNotFoundError, and has no number; one of this machine's files has.
    """
    try:
        with translated(what):
            yield
    except FileNotFoundError as exc:
        if exc.errno is not None:
            raise
        raise _bulk_refused(what, exc) from exc


def _while_parsing(exc: Exception) -> bool:
    """Return whether botocore was reading an answer: a cut or foreign one may raise anything there."""
    frames = traceback.walk_tb(exc.__traceback__)
    return any(frame.f_globals.get("__name__") == "botocore.parsers" for frame, _ in frames)


def _not_secured(what: str, exc: exceptions.SSLError) -> Exception:
    """A certificate that is not trusted is no accident of the network, and nothing has been sent."""
    if "CERTIFICATE_VERIFY_FAILED" in str(exc):
        return Unavailable(f"{what}: {UNTRUSTED}: {exc}", TRUST)
    return NoAnswer(f"{what}: {exc}")


def _bulk_refused(what: str, exc: bulk.BaseError | FileNotFoundError) -> Exception:
    """Obstore gives S3's answer as it came, in the middle of its own words: an expired token is a 400 there."""
    text = str(exc)
    if any(words in text for words in UNTRUSTED_BULK):
        return Unavailable(f"{what}: {UNTRUSTED}", TRUST)
    code, message = (_between(text, f"<{tag}>", f"</{tag}>") for tag in ("Code", "Message"))
    told = f"{what}: {message or code or text.strip().partition(chr(10))[0]}"
    if code in FORBIDDEN:
        return CredentialsError(told, RIGHTS)
    if code in DENIED or isinstance(exc, bulk.PermissionDeniedError | bulk.UnauthenticatedError):
        return CredentialsError(told, LOGIN)
    return NoAnswer(told)


def _between(text: str, begin: str, end: str) -> str:
    found, there, _ = text.partition(begin)[2].partition(end)
    return found if there else ""


def _refused(what: str, exc: exceptions.ClientError) -> Exception:
    error = exc.response.get("Error") or {}  # a proxy's page has none
    code, text = str(error.get("Code", "")), error.get("Message", "")
    status = exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code.isdigit() and not exc.operation_name.startswith("Head"):
        return NoAnswer(f"{what}: {status}, and no more: the reply was cut off")
    if code in FORBIDDEN:
        return CredentialsError(f"{what}: {text or code}", RIGHTS)
    if code in DENIED:
        return CredentialsError(f"{what}: {text or code}", LOGIN)
    if code in PASSING or status == 429:
        return RemoteError(f"{what}: {text or code}", transient=True)
    if status >= 500 or not code:
        return NoAnswer(f"{what}: {status} {text or code}")
    if code in EXISTS or "already exists" in text:
        return AlreadyExists(f"{what}: {text or code}")
    return RemoteError(f"{what}: {text or code}")


class Part(dict[str, Any]):
    """A structure within an answer. What it lacks was cut off, or is not said: NoAnswer, and no KeyError."""

    def __missing__(self, key: str) -> Any:
        raise NoAnswer(f"a reply was cut off before its '{key}'")


def checked(parsed: dict[str, Any], **_: Any) -> None:
    """Have every structure within an answer be a `Part`; a handler of botocore's event `after-call`."""
    parsed.update({key: _parts(value) for key, value in parsed.items()})


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return Part({key: _parts(member) for key, member in value.items()})
    return [_parts(member) for member in value] if isinstance(value, list) else value


def got(answer: Mapping[str, Any], key: str) -> Any:
    """Give *key* of an answer. Raises NoAnswer for one that came without it: it was cut off."""
    if key not in answer:
        raise NoAnswer(f"a reply was cut off before its '{key}'")
    return answer[key]


def code_of(exc: BaseException) -> str:
    """Give the service's own code of a refusal, or nothing."""
    cause = exc.__cause__
    if isinstance(cause, exceptions.ClientError):
        return str((cause.response.get("Error") or {}).get("Code", ""))
    return ""


def listed(page: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """Give what a page of a list at S3 has under *key*, which it leaves out where there is none.

    Raises NoAnswer for a page that was cut off: it does not say whether it is the last one, or which one comes next.
    """
    if got(page, "IsTruncated") and not any(page.get(token) for token in NEXT):
        raise NoAnswer("a page of a list is not the last one, and names no next one")
    found: Sequence[Mapping[str, Any]] = page.get(key, ())
    return found
