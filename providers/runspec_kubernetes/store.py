"""The store of jobs as this machine reaches it: S3 and Blob storage. Keys are below its prefix."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from obstore import exceptions as native, store as stores

from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError, UsageError
from runspec_kubernetes.options import KubernetesOptions
from runspec_objects.errors import between
from runspec_objects.object_store import Bucket, client_options

# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html; S3 answers with 400 here.
EXPIRED = ("ExpiredToken", "InvalidToken", "TokenRefreshRequired")
SECRETS = re.compile(r"(?i)(sig|x-amz-[a-z-]*|signature)=[^&\s]+")
LOGIN = "check store_keys in the profile, or the login of this machine for the store"


class ObjectStore(Bucket):
    """A bucket of S3 or a container of Azure."""

    def __init__(self, options: KubernetesOptions, secrets: Mapping[str, str]) -> None:
        self.options, self.secrets = options, secrets
        self.kind, _, place = (options.store or "").partition("://")
        self.account, _, rest = place.partition("/") if self.kind == "az" else ("", "", place)
        self.bucket, _, self.prefix = rest.partition("/")
        missing = (
            f"there is no {options.store}",
            "make the bucket or container, or set another store",
        )
        super().__init__(self._open, refused, missing)

    def _open(self) -> Any:
        end = self.options.store_url
        place: dict[str, Any] = {"prefix": self.prefix, "client_options": client_options(end)}
        place |= {"endpoint": end} if end else {}
        if self.kind == "s3":
            region = self.options.region or "us-east-1"
            place |= {"region": region, "virtual_hosted_style_request": False}
            return stores.S3Store(self.bucket, **place, **self._s3_login())
        key = self.secrets.get("AZURE_STORAGE_KEY")
        login = {"account_key": key} if key else _azure_login()
        return stores.AzureStore(self.bucket, account_name=self.account, **place, **login)

    def _s3_login(self) -> dict[str, Any]:
        names = {
            "access_key_id": "AWS_ACCESS_KEY_ID",
            "secret_access_key": "AWS_SECRET_ACCESS_KEY",
            "session_token": "AWS_SESSION_TOKEN",
        }
        given = {key: self.secrets[name] for key, name in names.items() if name in self.secrets}
        if given:
            return given
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except (
            ImportError
        ):  # without boto3, obstore reads the variables and the metadata of a machine
            return {}
        try:
            return {"credential_provider": Boto3CredentialProvider()}
        except ValueError as exc:
            raise CredentialsError(f"there is no login for {self.options.store}", LOGIN) from exc

    def sign(self, hours: int) -> str:
        """Return the query of a signature for the container, valid for *hours*, with the rights that jobs need.

        https://learn.microsoft.com/rest/api/storageservices/create-service-sas
        """
        try:
            from azure.storage.blob import generate_container_sas
        except ImportError as exc:
            raise UsageError(
                "a signature for the container needs azure-storage-blob",
                "pip install 'runspec-jobs[azure]', or set service_account instead of store_keys",
            ) from exc
        return generate_container_sas(
            self.account,
            self.bucket,
            account_key=self.secrets["AZURE_STORAGE_KEY"],
            permission="racwdl",
            expiry=datetime.now(UTC) + timedelta(hours=hours),
        )


def _azure_login() -> dict[str, Any]:
    try:
        from obstore.auth.azure import AzureCredentialProvider
    except ImportError:
        return {"use_azure_cli": True}
    return {"credential_provider": AzureCredentialProvider()}


@contextlib.contextmanager
def refused(action: str) -> Iterator[None]:
    """Translate the errors of obstore; FileNotFoundError and FileExistsError stay as they are."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except (native.PermissionDeniedError, native.UnauthenticatedError) as exc:
        raise CredentialsError(f"{action}: {_said(exc)}", LOGIN) from None
    except (native.BaseError, OSError) as exc:
        if "NoSuchBucket" in str(exc) or "ContainerNotFound" in str(exc):
            raise FileNotFoundError(action) from None
        text = f"{action}: {_said(exc)}"
        # The answer to HEAD has no body and so no code: S3 refuses an expired token so.
        bodiless = re.search(r"status code: 400\b", str(exc)) and "<Code>" not in str(exc)
        if bodiless or any(code in str(exc) for code in EXPIRED):
            raise CredentialsError(text, LOGIN) from None
        if re.search(r"status code: 4(?!08|29)", str(exc)):
            raise RemoteError(text) from None
        raise NoAnswer(text) from None


def _said(exc: BaseException) -> str:
    """Return the status and code of an answer, or why there is none; a URL in it may have a signature."""
    text = str(exc)
    status = re.search(r"status code: (\d{3}[ A-Za-z]*)", text)
    if status is None:
        return SECRETS.sub(r"\1=...", text.strip().partition("\n")[0])[:300]
    code = between(exc, "<Code>", "</Code>")
    return f"{status[1]} ({code})" if code else status[1]
