"""The clouds of Azure, which are separate from each other: their hosts, and the audiences of their tokens.

Hosts and audiences are those of the table of the Azure CLI (`az cloud list`):
https://github.com/Azure/azure-cli/blob/dev/src/azure-cli-core/azure/cli/core/cloud.py
The login host of China is from https://learn.microsoft.com/entra/identity-platform/authentication-national-cloud, as
in MSAL; the hosts of Batch are from https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure
and https://learn.microsoft.com/azure/china/resources-developer-guide.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from runspec_agent.base.light_typing import NamedTuple

Name = Literal["public", "usgovernment", "china"]
# One audience for all clouds: https://learn.microsoft.com/azure/storage/blobs/authorize-access-azure-active-directory
STORAGE_SCOPE = "https://storage.azure.com/.default"
URLS = (
    "batch_url",
    "blob_url",
    "arm_url",
    "vault",
)  # options; the first one with a known host decides
SETTING = (
    "Azure cloud: `public`, `usgovernment` or `china`. The default is the cloud that the hosts of the "
    "URLs in these settings belong to, else the public one."
)
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Cloud(NamedTuple):
    """The hosts and audiences of one cloud. An *audience* is the resource that a token is for."""

    name: Name
    login: str
    manager: str
    manager_audience: str
    batch: str
    batch_audience: str
    storage: str
    vault: str

    @property
    def manager_scope(self) -> str:
        return f"{self.manager_audience}/.default"

    @property
    def batch_scope(self) -> str:
        """Return the scope of Batch, whose audience already ends with a slash."""
        return f"{self.batch_audience}/.default"

    @property
    def manager_url(self) -> str:
        return f"https://{self.manager}"

    @property
    def vault_audience(self) -> str:
        return f"https://{self.vault}"

    def blob_url(self, account: str) -> str:
        return f"https://{account}.blob.{self.storage}"

    def share_url(self, account: str, share: str) -> str:
        """Return the URL of an Azure Files share."""
        return f"https://{account}.file.{self.storage}/{share}"

    def has(self, host: str) -> bool:
        """Return whether *host* belongs to this cloud.

        >>> USGOVERNMENT.has("a.usgovvirginia.batch.usgovcloudapi.net"), CHINA.has("a.example.cn")
        (True, False)
        """
        known = (self.login, self.manager, self.batch, self.storage, self.vault)
        return any(host == domain or host.endswith(f".{domain}") for domain in known)


PUBLIC = Cloud(
    name="public",
    login="login.microsoftonline.com",
    manager="management.azure.com",
    manager_audience="https://management.azure.com",
    batch="batch.azure.com",
    batch_audience="https://batch.core.windows.net/",
    storage="core.windows.net",
    vault="vault.azure.net",
)
USGOVERNMENT = Cloud(
    name="usgovernment",
    login="login.microsoftonline.us",
    manager="management.usgovcloudapi.net",
    manager_audience="https://management.core.usgovcloudapi.net",
    batch="batch.usgovcloudapi.net",
    batch_audience="https://batch.core.usgovcloudapi.net/",
    storage="core.usgovcloudapi.net",
    vault="vault.usgovcloudapi.net",
)
CHINA = Cloud(
    name="china",
    login="login.partner.microsoftonline.cn",
    manager="management.chinacloudapi.cn",
    manager_audience="https://management.chinacloudapi.cn",
    batch="batch.chinacloudapi.cn",
    batch_audience="https://batch.chinacloudapi.cn/",
    storage="core.chinacloudapi.cn",
    vault="vault.azure.cn",
)
CLOUDS = (PUBLIC, USGOVERNMENT, CHINA)


def of_url(url: str) -> Cloud | None:
    """Return the cloud that the host of *url* belongs to, or None.

    >>> of_url("https://a.westeurope.batch.azure.com").name, of_url("https://proxy.example")
    ('public', None)
    """
    host = urlsplit(url).hostname or ""
    return next((cloud for cloud in CLOUDS if cloud.has(host)), None)


def of(options: Any) -> Cloud:
    """Return the cloud that *options* set as `cloud` or by the host of one of their URLs; by default the public one."""
    if options.cloud is not None:
        return next(cloud for cloud in CLOUDS if cloud.name == options.cloud)
    urls = (getattr(options, name, None) or "" for name in URLS)
    return next((cloud for cloud in map(of_url, urls) if cloud is not None), PUBLIC)


def is_confidential(url: str) -> bool:
    """Return whether requests to *url* cannot be read on a network, because they use https or stay on this machine.

    >>> is_confidential("https://a.example"), is_confidential("http://a.example")
    (True, False)
    """
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
