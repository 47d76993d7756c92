"""Open the clients of Azure's SDKs: one of Azure Batch that changes things, one that reads, and their login."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from azure.batch import BatchClient
from azure.core.credentials import AzureNamedKeyCredential, TokenCredential
from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import RetryPolicy, SansIOHTTPPolicy
from azure.core.rest import HttpRequest, HttpResponse

from runspec_azure.errors import translated
from runspec_azure.naming import account
from runspec_azure.session import clouds, responses, transport
from runspec_azure.session.transport import TokenHosts
from runspec_jobs.provider import CredentialsError, UsageError
from runspec_jobs.provider.paths import read_stored

if TYPE_CHECKING:
    from runspec_azure.session.key_vault import KeyVault
    from runspec_azure.session.management import Management

API_VERSION = "2025-06-01"
JSON = "application/json; odata=minimalmetadata"
RETRIES = 6  # of requests that only read
NEEDED = ("batch_url", "storage_account", "container")

# https://learn.microsoft.com/en-us/rest/api/batchservice/operation-groups
OPERATIONS: Mapping[str, tuple[str, str]] = {
    "Account_ListSupportedImages": ("GET", "/supportedimages"),
    "Pool_Add": ("POST", "/pools"),
    "Pool_Get": ("GET", "/pools/{poolId}"),
    "Pool_List": ("GET", "/pools"),
    "Pool_Delete": ("DELETE", "/pools/{poolId}"),
    "Pool_EvaluateAutoScale": ("POST", "/pools/{poolId}/evaluateautoscale"),
    "Pool_EnableAutoScale": ("POST", "/pools/{poolId}/enableautoscale"),
    "ComputeNode_List": ("GET", "/pools/{poolId}/nodes"),
    "File_GetFromComputeNode": ("GET", "/pools/{poolId}/nodes/{nodeId}/files/{filePath}"),
    "Job_Add": ("POST", "/jobs"),
    "Job_Get": ("GET", "/jobs/{jobId}"),
    "Job_List": ("GET", "/jobs"),
    "Job_Patch": ("PATCH", "/jobs/{jobId}"),
    "Job_Terminate": ("POST", "/jobs/{jobId}/terminate"),
    "Task_Delete": ("DELETE", "/jobs/{jobId}/tasks/{taskId}"),
    "Task_Terminate": ("POST", "/jobs/{jobId}/tasks/{taskId}/terminate"),
    "Job_Delete": ("DELETE", "/jobs/{jobId}"),
    "Task_AddCollection": ("POST", "/jobs/{jobId}/addtaskcollection"),
    "Task_Get": ("GET", "/jobs/{jobId}/tasks/{taskId}"),
    "Task_List": ("GET", "/jobs/{jobId}/tasks"),
    "Task_ListSubtasks": ("GET", "/jobs/{jobId}/tasks/{taskId}/subtasksinfo"),
    "File_GetFromTask": ("GET", "/jobs/{jobId}/tasks/{taskId}/files/{filePath}"),
}


class ReadWhole(SansIOHTTPPolicy[Any, Any]):
    """A policy that reads the whole body of each response, so that a body that breaks off is requested again.

    Requests are sent as streams, since the pipeline decodes every other body by its content type: it
    refuses application/octet-stream, and a range of a log that begins or ends within a character.
    """

    def on_response(
        self, request: PipelineRequest[Any], response: PipelineResponse[Any, Any]
    ) -> None:
        response.http_response.read()


class Session:
    """The clients of one account. Raises UsageError if the profile lacks a setting that they need."""

    def __init__(self, options: Any) -> None:
        if missing := [name for name in NEEDED if getattr(options, name) is None]:
            keys = " and no ".join(f"`{name}`" for name in missing)
            hint = "run this in the folder of a profile, or write one: runspec init --provider azure-batch"
            raise UsageError(f"the profile for this folder has no {keys}", hint)
        self.options = options
        self.cloud = clouds.of(options)
        self.url: str = options.batch_url.rstrip("/")

    @cached_property
    def login(self) -> TokenCredential:
        """Return the login of this machine."""
        from runspec_azure.session import transport

        return transport.find_login(self.cloud)

    @cached_property
    def management(self) -> Management:
        """Return the client of the Resource Manager, which accepts tokens only, and no keys."""
        from runspec_azure.session.management import Management

        if self.options.arm_url:
            refuse_plain("arm_url", self.options.arm_url)
        return Management(self.options, self.login)

    @cached_property
    def vault(self) -> KeyVault:
        """Return the client of the key vault of the profile."""
        from runspec_azure.session.key_vault import KeyVault

        return KeyVault(self.options, self.login)

    @cached_property
    def account(self) -> str:
        return account(self.options)

    def make(self, operation: str, path: Mapping[str, str], body: Any = None) -> Any:
        """Send a request that makes or changes something, once; return its answer, or None if that is empty."""
        return responses.given(_content(self._send(self.writer, operation, path, {}, body)))

    def look(
        self, operation: str, path: Mapping[str, str] | None = None, query: Any = None
    ) -> Mapping[str, Any]:
        """Send a request that only reads, with retries, and return its answer."""
        return responses.one(operation, self._looked(operation, path, query))

    def pages(
        self, operation: str, path: Mapping[str, str] | None = None, query: Any = None
    ) -> list[Mapping[str, Any]]:
        """Return the items of all pages of a list."""
        items, next_ = responses.listed(operation, self._looked(operation, path, query))
        while next_:
            with translated(operation):
                request = HttpRequest("GET", next_)
                page = self.reader.send_request(request, stream=True).json()
            more, next_ = responses.listed(operation, page)
            items += more
        return items

    def _looked(self, operation: str, path: Mapping[str, str] | None, query: Any) -> Any:
        return _content(self._send(self.reader, operation, path or {}, query or {}))

    def head(self, operation: str, path: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers of a file."""
        return self._send(self.reader, operation, path, {}, method="HEAD").headers

    def part(self, operation: str, path: Mapping[str, str], start: int, end: int) -> bytes:
        """Return the bytes of a file from *start* up to *end*."""
        headers = {"ocp-range": f"bytes={start}-{end - 1}", "Accept": "application/octet-stream"}
        return self._send(self.reader, operation, path, {}, headers=headers).content

    def _send(
        self,
        client: BatchClient,
        operation: str,
        path: Mapping[str, str],
        query: Mapping[str, str],
        body: Any = None,
        *,
        method: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        usual, template = OPERATIONS[operation]
        where = template.format_map({k: quote(v, safe="") for k, v in path.items()})
        all_headers = {"Accept": "application/json", **(headers or {})}
        all_headers |= {} if body is None else {"Content-Type": JSON}
        request = HttpRequest(
            method or usual,
            self.url + where,
            params={"api-version": API_VERSION, **query},
            headers=all_headers,
            json=body,
        )
        with translated(operation):
            return client.send_request(request, stream=True)

    @cached_property
    def writer(self) -> BatchClient:
        """Return the client that does not retry: after a lost reply, a retry would hide what the first request made."""
        return self._opened(RetryPolicy.no_retries())

    @cached_property
    def reader(self) -> BatchClient:
        return self._opened(transport.BoundedRetries(retry_total=RETRIES, retry_backoff_factor=0.2))

    def _opened(self, retries: RetryPolicy[Any, Any]) -> BatchClient:
        key = secret(self.options.batch_key)
        if not key:
            refuse_plain("batch_url", self.url)
        credential = AzureNamedKeyCredential(self.account, key) if key else self.login
        return BatchClient(
            self.url,
            credential,
            credential_scopes=[self.cloud.batch_scope],
            retry_policy=retries,
            per_retry_policies=[TokenHosts(self.options), ReadWhole()],
            permit_redirects=False,
            transport=transport.opened(connection_timeout=10, read_timeout=60),
        )


def refuse_plain(option: str, url: str) -> None:
    """Raise UsageError for a *url* to which a token would be sent unencrypted."""
    if urlsplit(url).scheme != "https":
        message = f"{option}: {url} is not encrypted, so the login could be intercepted"
        raise UsageError(message, "write https://..., or set the account's key in the profile")


def secret(source: str | None) -> str | None:
    """Return the account's key that is stored at *source*, `env:NAME` or `file:/path`; None if *source* is None."""
    if source is None:
        return None
    value = read_stored(source, "the account's key")
    try:
        known = base64.b64decode(value, validate=True)
    except ValueError:
        known = b""
    if not known:  # the message must not contain the value
        message = f"the content of {source} is not the key of an account, which is base64"
        raise CredentialsError(
            message, "copy the key from the portal: open the account, then Keys or Access keys"
        )
    return value


def _content(response: HttpResponse) -> Any:
    if not response.content:
        return None
    with translated("the reply"):
        return response.json()
