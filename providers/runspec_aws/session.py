"""How requests and uploads are sent to AWS: the clients of the SDK, and what they are given for it."""

from __future__ import annotations

import io
import os
import socket
import threading
import time
from collections.abc import Mapping
from http.client import HTTPResponse
from typing import Any
from urllib.parse import SplitResult, urlsplit

import boto3
from botocore.auth import AUTH_TYPE_MAPS, S3SigV4Auth
from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)
from botocore.config import Config

from runspec_aws.errors import LOGIN, checked, translated
from runspec_aws.naming import partition
from runspec_aws.options import AwsOptions
from runspec_aws.timing import CLOCK, DEFAULT, Clock, Timing
from runspec_jobs.provider import CredentialsError, UsageError
from runspec_jobs.provider.streams.object_streams import HashedPart, TimedStream

# The content of an upload, as the SDK sends it: in pieces, and no more of them once the upload is given up.
#
# urllib3 sends bytes by one call, which must then end within the timeout for connecting; each piece has that time
# for itself. https://docs.python.org/3/library/socket.html#socket.socket.sendall


PIECE_BYTES = 1 << 18


class GivenUp(BaseException):
    """The upload was given up. No Exception, which the SDK would answer with another try."""


class Body:
    """A file-like object over *content*; reading it raises GivenUp once *given_up* is set.

    *sha256* is the digest of the content in hexadecimal, if it is known.
    """

    def __init__(self, content: bytes | bytearray, given_up: threading.Event | None = None) -> None:
        self.content, self.given_up = content, given_up
        self.sha256 = content.sha256 if isinstance(content, HashedPart) else None
        self._at = 0

    def __len__(self) -> int:
        return len(self.content)

    def read(self, size: int | None = -1) -> memoryview | bytes:
        """Return the next piece, whose size does not depend on *size*; b"" at the end."""
        if self.given_up is not None and self.given_up.is_set():
            raise GivenUp
        begin, self._at = self._at, min(self._at + PIECE_BYTES, len(self.content))
        return memoryview(self.content)[begin : self._at] if begin < self._at else b""

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self.content)}[whence]
        self._at = max(0, origin + offset)
        return self._at


# Signs parts of uploads with the SHA-256 that was computed when they were read.
#
# Botocore would compute it once more, which takes half a second of CPU time for each GiB. The signature is the
# same. https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html


SIGNER = "runspec-s3v4"
REPLACED_SIGNERS = (
    "v4",
    "s3v4",
)  # not those of other stores, of directory buckets or of several regions
SIGNER_EVENT = "choose-signer.s3.UploadPart"


class PartSigner(S3SigV4Auth):  # type: ignore[misc] # botocore has no types
    def payload(self, request: Any) -> str:
        """Return the SHA-256 of the body of *request*."""
        body = request.body
        known = body.sha256 if isinstance(body, Body) else None
        return known or str(super().payload(request))


AUTH_TYPE_MAPS[SIGNER] = PartSigner


def choose_signer(signature_version: Any, **_: Any) -> str | None:
    """Return the name of the signer for a part, for the event of botocore; None leaves the choice to others."""
    return SIGNER if signature_version in REPLACED_SIGNERS else None


# Connections of the SDK with a time limit for whole replies; see `TimedStream`.


class TimedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        body: Any = self.fp  # a BufferedReader, as makefile("rb") gives
        self.fp = io.BufferedReader(TimedStream(body.detach(), sock, time.monotonic))


class TimedConnection(AWSHTTPConnection):  # type: ignore[misc]  # the SDK has no types
    response_class = TimedResponse


class TimedSecureConnection(AWSHTTPSConnection):  # type: ignore[misc]  # the SDK has no types
    response_class = TimedResponse


class TimedPool(AWSHTTPConnectionPool):  # type: ignore[misc]  # the SDK has no types
    ConnectionCls = TimedConnection


class TimedSecurePool(AWSHTTPSConnectionPool):  # type: ignore[misc]  # the SDK has no types
    ConnectionCls = TimedSecureConnection


def time_connections(client: Any) -> None:
    """Have *client*, which has sent nothing yet, make such connections, also through a proxy.

    The SDK has no public setting for them, so this changes the table of its HTTP session. A test shows that it is
    effective with the SDK that is installed.
    """
    session = client._endpoint.http_session  # noqa: SLF001 - see above
    session._pool_classes_by_scheme.update(http=TimedPool, https=TimedSecurePool)  # noqa: SLF001


# Clients of the AWS SDK: for each service, one that makes resources and one that only reads.


# SubmitJob has no client token: repeating it after a lost reply could submit a second job. Checksums only where a
# call requires them: an upload in parts that began without them refuses them.
# https://docs.aws.amazon.com/sdkref/latest/guide/feature-dataintegrity.html
ONCE = Config(
    request_checksum_calculation="when_required",
    retries={"mode": "standard", "total_max_attempts": 1},
    connect_timeout=10,
    read_timeout=60,
)
# Reading may be repeated, and so may sending a part of an upload; "adaptive" slows down when the service throttles.
# Pauses are 1, 2, 4 and 8 s at most: a client that follows a run continues after an outage by itself, and a longer
# pause would delay the news of its end. https://boto3.amazonaws.com/v1/documentation/api/latest/guide/retries.html
PATIENT = Config(
    request_checksum_calculation="when_required",
    retries={"mode": "adaptive", "total_max_attempts": 5},
    connect_timeout=10,
    read_timeout=60,
)
# For uploads: connect_timeout also bounds each piece of a `Body`, while eight of them may share a slow line, and
# read_timeout the time after the last piece, when much may still be in the buffers of this machine.
UPLOADING = Config(
    request_checksum_calculation="when_required",
    retries={"mode": "adaptive", "total_max_attempts": 5},
    connect_timeout=60,
    read_timeout=300,
)

NEEDED = ("region", "bucket")


class Session:
    """The clients of one account and region. Creating it raises CredentialsError if there are no credentials."""

    def __init__(self, options: AwsOptions, timing: Timing = DEFAULT, clock: Clock = CLOCK) -> None:
        self.timing, self.clock = timing, clock
        if options.region is None or options.bucket is None:
            missing = " and no ".join(f"`{k}`" for k in NEEDED if getattr(options, k) is None)
            hint = "run this in the folder of a profile, or write one: runspec init --provider aws-batch"
            raise UsageError(f"the profile for this folder has no {missing}", hint)
        self.region, self.bucket = options.region, options.bucket
        self.own_queue = options.queue is None  # whether runspec made the queue and its machines
        # Resources that were VALID, and when that was seen; cleared when something is made or deleted.
        self.valid: dict[tuple[str, str], tuple[float, Mapping[str, Any]]] = {}
        self._clients: dict[tuple[str, int], Any] = {}
        self._making = threading.Lock()
        self._signer: Any = None
        with translated("the credentials"):
            self._session = boto3.Session(
                profile_name=options.account_profile, region_name=options.region
            )
            if self._session.get_credentials() is None:
                raise CredentialsError("there are no AWS credentials on this machine", LOGIN)

    def make(self, service: str) -> Any:
        """Return the client that sends each call only once."""
        return self.new_client(service, ONCE)

    def look(self, service: str) -> Any:
        """Return the client for calls that may be repeated, because they only read or send the same again."""
        return self.new_client(service, PATIENT)

    def upload(self) -> Any:
        """Return the client that sends the content of folders to S3, also over a slow line."""
        return self.new_client("s3", UPLOADING)

    def new_client(self, service: str, config: Config) -> Any:
        """Return a client, which threads may share; a boto3 session can make only one at a time.

        https://docs.aws.amazon.com/boto3/latest/guide/session.html
        """
        key = (service, id(config))
        with self._making:
            if key not in self._clients:
                client = self._session.client(service, config=config)
                time_connections(client)
                client.meta.events.register("after-call", checked)
                client.meta.events.register_first(SIGNER_EVENT, choose_signer)
                self._clients[key] = client
            return self._clients[key]

    @property
    def on_amazon_s3(self) -> bool:
        """Whether the bucket is at AWS, and not in a compatible store at an endpoint of its own."""
        host = urlsplit(self.look("s3").meta.endpoint_url).hostname or ""
        return host.endswith(f".{partition(self.region).domain}")

    def signer(self) -> Any:
        """Return the client that signs URLs, without requests, for the host of the region, which never redirects."""
        if self._signer is None:
            self._signer = self._made_signer()
        return self._signer

    def _made_signer(self) -> Any:
        """Return a client that addresses the bucket as botocore decides for the others, from its name and endpoint.

        Without an explicit style, a client would sign for the global host, which redirects.
        """
        own = self.look("s3").meta.config.s3 or {}
        style = (
            "path" if self._url(self.look("s3")).path.startswith(f"/{self.bucket}/") else "virtual"
        )
        config = Config(
            signature_version="s3v4",
            s3={**own, "addressing_style": style},
            request_checksum_calculation="when_required",
        )
        return self._session.client("s3", config=config)

    def _url(self, client: Any) -> SplitResult:
        """Return the URL of an object as *client* would address it."""
        where = {"Bucket": self.bucket, "Key": "key"}
        with translated("the endpoint of the bucket"):
            url: str = client.generate_presigned_url("get_object", Params=where)
        return urlsplit(url)
