"""Who is logged in here, at the login of a cloud."""

from __future__ import annotations

import os

from azure.core.credentials import TokenCredential
from azure.identity import DefaultAzureCredential

from runspec_azure.session.clouds import Cloud

AUTHORITY = "AZURE_AUTHORITY_HOST"  # of azure-identity: who sets it has a login of their own


def found(cloud: Cloud) -> TokenCredential:
    """Return whoever azure-identity finds."""
    return DefaultAzureCredential(authority=os.environ.get(AUTHORITY) or cloud.login)
