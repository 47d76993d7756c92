"""Read and write the files of jobs in Blob storage."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

from azure.core.credentials import TokenCredential
from azure.storage.blob import ContainerClient
from obstore.store import AzureStore

from runspec_azure import store_layout
from runspec_azure.errors import translated
from runspec_azure.session import clouds
from runspec_azure.session.clients import Session, refuse_plain, secret
from runspec_azure.session.clouds import STORAGE_SCOPE
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.saved_outputs import Copy
from runspec_objects.object_store import Bucket, Translated, client_options
from runspec_objects.store import AT_ONCE

PARTS = 50_000  # the limit of a blob: https://learn.microsoft.com/en-us/azure/storage/blobs/scalability-targets
NO_ETAG = '"0x0"'  # of no blob
STORE = "use a store with conditional writes, such as Azure Blob Storage"
# https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
NAME_LENGTH = 1024
# XML holds neither of the last two, so that no list could name the blob and nobody delete it.
CONTROLS = re.compile("[\\x00-\\x1f\\x7f\\x81\\ufffe\\uffff]")


class Blobs(Bucket):
    """The blobs of the container; keys are full names. *pause* is called while the service copies one."""

    def __init__(
        self,
        session: Session,
        pause: Callable[[], None] = lambda: None,
        translated: Translated = translated,
    ) -> None:
        self.session, self.pause = session, pause
        self.options = session.options
        self.prefix: str = session.options.prefix
        name, account = self.options.container, self.options.storage_account
        hint = f"create it (az storage container create --name {name} --account-name {account})"
        missing = (
            f"there is no container {name} in the account {account}",
            f"{hint}, or set another one in the profile",
        )
        super().__init__(self._open, translated, missing, PARTS)

    @cached_property
    def account_key(self) -> str | None:
        return secret(self.options.storage_key)

    @property
    def login(self) -> TokenCredential:
        return self.session.login

    def _open(self) -> AzureStore:
        end = store_layout.endpoint(self.options)
        login: dict[str, Any] = {"account_key": self.account_key} if self.account_key else {}
        if not login:
            refuse_plain("blob_url", end)
            login["credential_provider"] = self._token
        return AzureStore(
            self.options.container,
            account_name=self.options.storage_account,
            endpoint=end,
            client_options=client_options(end),
            **login,
        )

    def _token(self) -> Any:
        token = self.session.login.get_token(STORAGE_SCOPE)
        expires = datetime.fromtimestamp(token.expires_on, UTC)
        return {"token": token.token, "expires_at": expires}

    def key(self, *parts: str) -> str:
        """Return the name of a blob below the prefix of the profile."""
        return "/".join((self.prefix, *parts))

    @property
    def on_azure(self) -> bool:
        """Whether the container is at Azure, and not in a compatible store at an endpoint of its own."""
        return clouds.of_url(store_layout.endpoint(self.options)) is not None

    def refuse_without_conditions(self, key: str, content: bytes) -> None:
        """Raise RemoteError if the store does not refuse to write a blob that is there, or that has changed.

        The blob has *content* already. Azure has both conditions; a store that ignores them would let two jobs of one
        run both run, and two machines each overwrite what the other has saved.
        """
        writes = {
            "If-None-Match": partial(self.put_new, key, content),
            "If-Match": partial(self.put_if, key, content, {"e_tag": NO_ETAG}),
        }
        for header, write in writes.items():
            if write():
                message = f"the store of container {self.options.container} does not obey {header}"
                raise RemoteError(f"{message}: two jobs of one run could both run", STORE)

    def holds(self, key: str) -> bool:
        try:
            key.encode()
        except UnicodeEncodeError:
            # A file name with bytes that are not UTF-8 cannot be a name of a blob.
            return False
        return len(key) <= NAME_LENGTH and not CONTROLS.search(key)

    def copy_all(self, copies: Sequence[Copy], folder: str) -> None:
        del folder
        with _container(self) as container, ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda copy: copy_blob(container, copy, self.pause), copies))


def _container(blobs: Blobs) -> ContainerClient:
    options, end = blobs.options, store_layout.endpoint(blobs.options)
    who: Any = blobs.account_key
    if who:
        who = {"account_name": options.storage_account, "account_key": who}
    else:
        refuse_plain("blob_url", end)
        who = blobs.login
    return ContainerClient(end, options.container, credential=who, permit_redirects=False)


def copy_blob(container: ContainerClient, copy: Copy, pause: Callable[[], None]) -> None:
    """Copy a blob of any size within the account, which needs no permissions except to read and to write.

    The copy may continue after the answer: https://learn.microsoft.com/rest/api/storageservices/copy-blob
    """
    message = f"copy {copy.source} to {copy.target}"
    target = container.get_blob_client(copy.target)
    with translated(message):
        target.start_copy_from_url(container.get_blob_client(copy.source).url)
        while (status := target.get_blob_properties().copy.status) == "pending":
            pause()
    if status != "success":
        raise RemoteError(f"{message}: the store stopped the copy: {status}")
