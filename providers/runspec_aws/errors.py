"""What goes wrong at AWS, in the core's words: refused, not answered, or not allowed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from botocore import exceptions
from botocore.parsers import ResponseParserError
from obstore import exceptions as bulk

from runspec.provider import CredentialsError, NoAnswer, RemoteError, Unavailable

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
RIGHTS = "see runspec policy job.yaml for the rights that are needed, or log in again"
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
    except exceptions.ParamValidationError as exc:
        raise RemoteError(f"{what}: {exc}") from exc
    except (exceptions.HTTPClientError, ResponseParserError) as exc:
        raise NoAnswer(f"{what}: {exc}") from exc
    except bulk.BaseError as exc:
        raise _bulk_refused(what, exc) from exc
    except exceptions.BotoCoreError as exc:
        raise Unavailable(f"{what}: {exc}") from exc


def _bulk_refused(what: str, exc: bulk.BaseError) -> Exception:
    """Obstore gives S3's answer as it came, in the middle of its own words: an expired token is a 400 there."""
    text = str(exc)
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
    code, text = exc.response["Error"].get("Code", ""), exc.response["Error"].get("Message", "")
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
    return RemoteError(f"{what}: {text or code}")


def got(answer: Mapping[str, Any], key: str) -> Any:
    """Give *key* of an answer. Raises NoAnswer for one that came without it: it was cut off."""
    if key not in answer:
        raise NoAnswer(f"a reply was cut off before its '{key}'")
    return answer[key]


def code_of(exc: BaseException) -> str:
    """Give the service's own code of a refusal, or nothing."""
    cause = exc.__cause__
    if isinstance(cause, exceptions.ClientError):
        return str(cause.response["Error"].get("Code", ""))
    return ""
