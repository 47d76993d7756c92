"""For whom tokens are, in each cloud of Azure: each service takes those that are for itself.

https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure
https://learn.microsoft.com/azure/china/resources-developer-guide
https://learn.microsoft.com/azure/batch/batch-aad-auth (of Azure Batch, and of the Resource Manager)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Cloud = Literal["public", "usgovernment", "china"]
STORAGE = "https://storage.azure.com"  # in all of them


class Audiences(NamedTuple):
    """The resources that a login gives tokens for; the Resource Manager has several names."""

    batch: str
    managers: tuple[str, ...]
    vault: str


AUDIENCES: Mapping[Cloud, Audiences] = {
    "public": Audiences(
        "https://batch.core.windows.net/",
        ("https://management.azure.com", "https://management.core.windows.net"),
        "https://vault.azure.net",
    ),
    "usgovernment": Audiences(
        "https://batch.core.usgovcloudapi.net/",
        ("https://management.usgovcloudapi.net", "https://management.core.usgovcloudapi.net"),
        "https://vault.usgovcloudapi.net",
    ),
    "china": Audiences(
        "https://batch.chinacloudapi.cn/",
        ("https://management.chinacloudapi.cn", "https://management.core.chinacloudapi.cn"),
        "https://vault.azure.cn",
    ),
}
