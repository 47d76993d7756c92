"""AWS's own SDK, opened: one client of each service to make things with, and one to look."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import boto3
from botocore.config import Config

from runspec_aws.errors import LOGIN, checked, translated
from runspec_aws.options import AwsOptions
from runspec_jobs.provider import CredentialsError, UsageError

if TYPE_CHECKING:
    from obstore.store import S3Credential, S3CredentialProvider

# SubmitJob has no client token: a second attempt after a lost reply would be a second job.
# Checksums where a call asks for them: parts of an upload that was begun without are refused with one.
# https://docs.aws.amazon.com/sdkref/latest/guide/feature-dataintegrity.html
ONCE = Config(
    request_checksum_calculation="when_required",
    retries={"mode": "standard", "total_max_attempts": 1},
    connect_timeout=10,
    read_timeout=60,
)
# Looking is free to be repeated; adaptive slows down when the service throttles. Its pauses are of 1, 2, 4 and 8 s
# at the most: who follows a run goes on after an outage by itself, and must not see the end late by a longer one.
# https://boto3.amazonaws.com/v1/documentation/api/latest/guide/retries.html
PATIENT = Config(
    retries={"mode": "adaptive", "total_max_attempts": 5}, connect_timeout=10, read_timeout=60
)

# obstore 0.12 asks for credentials anew when they are good for less than ASKED_EARLY_S, and says so
# nowhere (tests/unit/runspec_aws/test_rotating.py sees it); botocore is asked every KEPT_S, and renews them
# 10 to 15 minutes before they end.
# https://developmentseed.org/obstore/latest/authentication/
ASKED_EARLY_S = 300.0
KEPT_S = 30.0


class StoreEndpoint(NamedTuple):
    """The host of a bucket, and whether it names the bucket; else the path does."""

    url: str
    names_bucket: bool


class Session:
    """The clients of one account and region. Raises CredentialsError where there are none."""

    def __init__(self, options: AwsOptions) -> None:
        if options.region is None or options.bucket is None:
            raise UsageError(
                "the profile names no region or no bucket", "see runspec doctor aws-batch"
            )
        self.region, self.bucket = options.region, options.bucket
        self.own_queue = options.queue is None  # and so machines of our own behind it
        # What was seen to be VALID, and when, until something is made or taken away.
        self.valid: dict[tuple[str, str], tuple[float, Mapping[str, Any]]] = {}
        self._clients: dict[tuple[str, int], Any] = {}
        self._making = threading.Lock()
        self._signer: Any = None
        with translated("the credentials"):
            self._session = boto3.Session(
                profile_name=options.account_profile, region_name=options.region
            )
            if self._session.get_credentials() is None:
                raise CredentialsError("there are no AWS credentials here", LOGIN)

    def make(self, service: str) -> Any:
        """Give the client that sends each call once."""
        return self._client(service, ONCE)

    def look(self, service: str) -> Any:
        """Give the client for calls that only look; it tries again by itself."""
        return self._client(service, PATIENT)

    def _client(self, service: str, config: Config) -> Any:
        """Return a client, which threads may share; a session of boto3 makes one at a time.

        https://docs.aws.amazon.com/boto3/latest/guide/session.html
        """
        key = (service, id(config))
        with self._making:
            if key not in self._clients:
                client = self._session.client(service, config=config)
                client.meta.events.register("after-call", checked)
                self._clients[key] = client
            return self._clients[key]

    def signer(self) -> Any:
        """Give the client that signs URLs. It asks nobody, and a host of the region is never redirected."""
        if self._signer is None:
            self._signer = self._made_signer()
        return self._signer

    def _made_signer(self) -> Any:
        """Address the bucket as the other clients do, which botocore decides by its name and the endpoint.

        A client that is told no style signs for the host of all regions, which redirects.
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
        """Return the URL of an object, as *client* addresses it."""
        where = {"Bucket": self.bucket, "Key": "key"}
        with translated("the endpoint of the bucket"):
            found: str = client.generate_presigned_url("get_object", Params=where)
        return urlsplit(found)

    def store_endpoint(self) -> StoreEndpoint:
        """Return where the bucket is, for a library that addresses it by itself."""
        found = self._url(self.signer())
        in_host = found.path == "/key"
        return StoreEndpoint(f"{found.scheme}://{found.netloc}", in_host)

    def credentials(self) -> S3CredentialProvider:
        """Give what a library that signs by itself asks for credentials, again and again: they may be renewed."""
        with translated("the credentials"):
            found = self._session.get_credentials()
        assert found is not None, "BUG: there were some"

        def now() -> S3Credential:
            keys = found.get_frozen_credentials()  # renewed by botocore when they soon end
            expires = datetime.now(UTC) + timedelta(seconds=ASKED_EARLY_S + KEPT_S)
            return {
                "access_key_id": keys.access_key,
                "secret_access_key": keys.secret_key,
                "token": keys.token,
                "expires_at": expires,
            }

        return now
