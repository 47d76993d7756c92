"""Translate errors of AWS to the core's errors: refused, unknown outcome, or not permitted."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore import exceptions
from botocore.parsers import ResponseParserError

from runspec_jobs.provider import (
    AlreadyExists,
    CredentialsError,
    NoAnswer,
    RemoteError,
    Unavailable,
)

# Transient errors: nothing was done, and the same call may succeed later.
# https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
PASSING = frozenset(
    "Throttling ThrottlingException ThrottledException TooManyRequestsException SlowDown "
    "RequestThrottled RequestThrottledException RequestLimitExceeded BandwidthLimitExceeded "
    "LimitExceededException PriorRequestNotComplete TransactionInProgressException "
    "ProvisionedThroughputExceededException EC2ThrottledException".split()
)
# AWS Batch refuses to delete an environment for some seconds after the deletion of the last queue that had it.
IN_USE, IN_USE_S = "found existing JobQueue relationship", 5.0
# With the status 503, these say that the service failed for a moment. All requests but SubmitJob name what they make,
# and are repeated.
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and the errors of EC2 and IAM.
BUSY = frozenset("ServiceUnavailable ServiceUnavailableException Unavailable ServerBusy".split())
# An answer to HEAD has no body, only the status 400 or 403.
FORBIDDEN = frozenset("403 AccessDenied AccessDeniedException UnauthorizedOperation".split())
DENIED = frozenset(
    "400 AuthFailure ExpiredToken "
    "ExpiredTokenException InvalidClientTokenId UnrecognizedClientException InvalidAccessKeyId "
    "SignatureDoesNotMatch RequestExpired MissingAuthenticationToken RequestTimeTooSkewed".split()
)
# AWS Batch uses one code for all refusals, and its message shows the reason: "Object already exists".
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
EXISTS = frozenset(
    "InvalidPlacementGroup.Duplicate InvalidLaunchTemplateName.AlreadyExistsException".split()
)
# The fields of a page of a list at S3 that concern the next page.
NEXT = ("NextKeyMarker", "NextPartNumberMarker", "NextContinuationToken")
RIGHTS = "run `runspec policy job.yaml` to see the permissions that are needed, or log in again"
UNTRUSTED = "this machine does not trust the server's certificate"
TRUST = (
    "behind a company's proxy, set AWS_CA_BUNDLE to the file with the proxy's CA certificate: "
    "see runspec docs networks"
)
LOGIN = (
    "log in again (aws sso login), or set account_profile; then repeat the command, which continues"
)


@contextlib.contextmanager
def translated(action: str) -> Iterator[None]:
    """Translate errors of botocore while *action* is done to the errors of `Client.call`."""
    try:
        yield
    except exceptions.ClientError as exc:
        raise refusal(action, exc) from exc
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as exc:
        raise CredentialsError("there are no AWS credentials on this machine", LOGIN) from exc
    except (exceptions.CredentialRetrievalError, exceptions.TokenRetrievalError) as exc:
        raise CredentialsError(f"cannot get AWS credentials: {exc}", LOGIN) from exc
    except (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError) as exc:
        raise RemoteError(f"{action}: cannot reach AWS: {exc}", transient=True) from exc
    except exceptions.SSLError as exc:
        raise _not_secured(action, exc) from exc
    except exceptions.ParamValidationError as exc:
        raise RemoteError(f"{action}: {exc}") from exc
    except (exceptions.HTTPClientError, ResponseParserError) as exc:
        raise NoAnswer(f"{action}: {exc}") from exc
    except exceptions.BotoCoreError as exc:
        raise Unavailable(f"{action}: {exc}") from exc
    except RecursionError as exc:  # a reply of endless depth, or redirects in a circle
        raise NoAnswer(f"{action}: the reply cannot be read: {exc}") from exc
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        if not while_parsing(exc):
            raise
        raise NoAnswer(f"{action}: the reply cannot be read: {exc}") from exc


def while_parsing(exc: Exception) -> bool:
    """Return whether botocore was parsing an answer, which may raise any error if the answer is cut off."""
    frames = traceback.walk_tb(exc.__traceback__)
    return any(frame.f_globals.get("__name__") == "botocore.parsers" for frame, _ in frames)


def _not_secured(action: str, exc: exceptions.SSLError) -> Exception:
    """Return the error for an untrusted certificate: it is permanent, and nothing was sent."""
    if "CERTIFICATE_VERIFY_FAILED" in str(exc):
        return Unavailable(f"{action}: {UNTRUSTED}: {exc}", TRUST)
    return NoAnswer(f"{action}: {exc}")


def refusal(action: str, exc: exceptions.ClientError) -> Exception:
    error = exc.response.get("Error") or {}  # a proxy's page has no such field
    code, text = str(error.get("Code", "")), error.get("Message", "")
    status = exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code.isdigit() and not exc.operation_name.startswith("Head"):
        return NoAnswer(f"{action}: the reply was cut off after the status {status}")
    if code in FORBIDDEN:
        return CredentialsError(f"{action}: {text or code}", RIGHTS)
    if code in DENIED:
        return CredentialsError(f"{action}: {text or code}", LOGIN)
    if IN_USE in text:
        return RemoteError(f"{action}: {text}", transient=True, retry_after_s=IN_USE_S)
    if code in PASSING or status == 429:
        after = _retry_after(exc.response)
        return RemoteError(f"{action}: {text or code}", transient=True, retry_after_s=after)
    if status == 501:  # the service does not know the request, and never will
        return RemoteError(f"{action}: {text or code}")
    if status >= 500 or not code:
        again = status == 503 and code in BUSY and exc.operation_name != "SubmitJob"
        return NoAnswer(f"{action}: {status} {text or code}", transient=again)
    if code in EXISTS or "already exists" in text:
        return AlreadyExists(f"{action}: {text or code}")
    return RemoteError(f"{action}: {text or code}")


def _retry_after(answer: Mapping[str, Any]) -> float | None:
    """Return the seconds of the header Retry-After; None if there is none, or a date, which AWS does not send."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    asked = str(headers.get("retry-after", ""))
    return float(asked) if asked.isascii() and asked.isdigit() else None


class Part(dict[str, Any]):
    """A structure in an answer. A missing key raises NoAnswer instead of KeyError, since the answer was cut off."""

    def __missing__(self, key: str) -> Any:
        raise NoAnswer(f"a reply was cut off before its '{key}'")


def checked(parsed: dict[str, Any], **_: Any) -> None:
    """Replace every structure in an answer by a `Part`; a handler of botocore's event `after-call`."""
    parsed.update({key: _parts(value) for key, value in parsed.items()})


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return Part({key: _parts(member) for key, member in value.items()})
    return [_parts(member) for member in value] if isinstance(value, list) else value


def got(answer: Mapping[str, Any], key: str) -> Any:
    """Return *key* of an answer. Raise NoAnswer if it is missing, because the answer was cut off."""
    if key not in answer:
        raise NoAnswer(f"a reply was cut off before its '{key}'")
    return answer[key]


def code_of(exc: BaseException) -> str:
    """Return the service's error code, or an empty string."""
    cause = exc.__cause__
    if isinstance(cause, exceptions.ClientError):
        return str((cause.response.get("Error") or {}).get("Code", ""))
    return ""


def listed(page: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """Return the items under *key* in a page of a list at S3, where an empty list is left out.

    Raise NoAnswer if the page was cut off, so that it does not show whether and where the list continues.
    https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
    """
    if got(page, "IsTruncated") and not any(page.get(token) for token in NEXT):
        raise NoAnswer("a page of a list has no token for the next page")
    items: Sequence[Mapping[str, Any]] = page.get(key, ())
    return items
