"""What AWS services refuse with: the errors of the models, and those that all services share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from runspec_emulators.aws.models import operation_model
from tests.drawn.aws_models import protocol

Means = Literal["login", "rights", "busy", "server", "other"]


class Refusal(NamedTuple):
    """An error by its code, its HTTP status, and what it means to whoever asked."""

    code: str
    status: int
    means: Means


# https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
COMMON = {
    "json": (
        Refusal("AccessDeniedException", 400, "rights"),
        Refusal("ExpiredTokenException", 403, "login"),
        Refusal("UnrecognizedClientException", 403, "login"),
        Refusal("RequestExpired", 400, "login"),
        Refusal("IncompleteSignature", 400, "other"),
        Refusal("InternalFailure", 500, "server"),
        Refusal("ServiceUnavailable", 503, "server"),
        Refusal("ThrottlingException", 400, "busy"),
        Refusal("TooManyRequestsException", 429, "busy"),
        Refusal("ValidationError", 400, "other"),
        Refusal("AnErrorThatNobodyKnowsYet", 400, "other"),
        Refusal("AnErrorThatNobodyKnowsYet", 418, "other"),
    ),
    "query": (
        Refusal("AccessDenied", 403, "rights"),
        Refusal("ExpiredToken", 403, "login"),
        Refusal("InvalidClientTokenId", 403, "login"),
        Refusal("SignatureDoesNotMatch", 403, "login"),
        Refusal("InternalFailure", 500, "server"),
        Refusal("ServiceUnavailable", 503, "server"),
        Refusal("Throttling", 400, "busy"),
        Refusal("AnErrorThatNobodyKnowsYet", 400, "other"),
    ),
    "ec2": (
        Refusal("UnauthorizedOperation", 403, "rights"),
        Refusal("AuthFailure", 401, "login"),
        Refusal("RequestExpired", 400, "login"),
        Refusal("InternalError", 500, "server"),
        Refusal("Unavailable", 503, "server"),
        Refusal("RequestLimitExceeded", 503, "busy"),
        Refusal("AnErrorThatNobodyKnowsYet", 400, "other"),
    ),
    "rest-xml": (
        Refusal("AccessDenied", 403, "rights"),
        Refusal("ExpiredToken", 400, "login"),
        Refusal("InvalidAccessKeyId", 403, "login"),
        Refusal("RequestTimeTooSkewed", 403, "login"),
        Refusal("SignatureDoesNotMatch", 403, "login"),
        Refusal("InternalError", 500, "server"),
        Refusal("ServiceUnavailable", 503, "server"),
        Refusal("SlowDown", 503, "busy"),
        Refusal("RequestTimeout", 400, "other"),
        Refusal("NoSuchBucket", 404, "other"),
        Refusal("OperationAborted", 409, "other"),
        Refusal("AnErrorThatNobodyKnowsYet", 400, "other"),
    ),
}


@cache
def refusals(name: str, operation: str) -> tuple[Refusal, ...]:
    """Return every error that the model of *operation* has, and those that all of its kind of services share."""
    kind = protocol(name)
    own = [_modelled(shape) for shape in operation_model(name, operation).error_shapes]
    late = (
        LATE * 4 if operation in ("CopyObject", "UploadPartCopy") else ()
    )  # these are drawn often
    found = (*own, *COMMON["json" if kind == "rest-json" else kind], *late)
    if not operation.startswith("Head"):
        return found
    return tuple(
        Refusal(str(one.status), one.status, MEANS.get(one.status, "other")) for one in found
    )


# What went wrong while the answer was on its way: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
LATE = (Refusal("InternalError", 200, "server"), Refusal("SlowDown", 200, "busy"))
# An answer to HEAD has no body, so its status is all that it says.
MEANS: Mapping[int, Means] = {403: "rights", 500: "server", 503: "server"}


def _modelled(shape: object) -> Refusal:
    error = shape.metadata.get("error", {})  # type: ignore[attr-defined] # botocore has no types
    code = error.get("code") or shape.name  # type: ignore[attr-defined]
    status = int(error.get("httpStatusCode", 400))
    return Refusal(code, status, "server" if status >= 500 else "other")
