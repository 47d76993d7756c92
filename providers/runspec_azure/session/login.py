"""Find the login of this machine for a cloud."""

from __future__ import annotations

import os

from azure.core.credentials import TokenCredential
from azure.identity import DefaultAzureCredential

from runspec_azure.session import transport
from runspec_azure.session.clouds import Cloud

AUTHORITY = "AZURE_AUTHORITY_HOST"  # the variable of azure-identity for another login host


def found(cloud: Cloud) -> TokenCredential:
    """Return the credential that azure-identity finds. Its requests have the time limits of all others."""
    return DefaultAzureCredential(
        authority=os.environ.get(AUTHORITY) or cloud.login,
        transport=transport.opened(connection_timeout=10, read_timeout=60),
    )
