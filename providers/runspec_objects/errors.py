"""Errors of obstore that say whether an object exists, and what else is in them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from obstore import exceptions as native

# What obstore says of an object that may not be deleted, if a request deletes many: S3 answers with 200 then, and
# Azure with 202. https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html,
# https://learn.microsoft.com/rest/api/storageservices/blob-batch
FORBIDDEN = re.compile(r"request failed for key .* \(code: (AccessDenied|403)\)")


@contextlib.contextmanager
def absent() -> Iterator[None]:
    """Raise FileNotFoundError if obstore says that an object does not exist."""
    try:
        yield
    except (native.NotFoundError, FileNotFoundError):
        raise FileNotFoundError from None


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """Raise FileExistsError if obstore says that the condition of a write is not fulfilled."""
    try:
        yield
    except (native.AlreadyExistsError, native.PreconditionError, FileExistsError):
        raise FileExistsError from None


@contextlib.contextmanager
def permitted() -> Iterator[None]:
    """Raise PermissionDeniedError if obstore says of one of many deletions that the service does not permit it."""
    try:
        yield
    except native.GenericError as exc:
        if FORBIDDEN.search(str(exc)):
            raise native.PermissionDeniedError(str(exc)) from exc
        raise


@contextlib.contextmanager
def streamed() -> Iterator[None]:
    """Raise the errors of obstore for those of its readers, which are OSErrors with the same text."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise native.GenericError(str(exc)) from exc


def between(exc: BaseException, begin: str, end: str) -> str:
    """Return what is between two marks in the text of *exc*, which contains the answer of the service, or "".

    >>> between(ValueError("403: <Code>AccessDenied</Code>"), "<Code>", "</Code>")
    'AccessDenied'
    """
    inner, there, _ = str(exc).partition(begin)[2].partition(end)
    return inner if there else ""
