"""Open the client of the Resource Manager, which makes the pools that have an identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azure.core import MatchConditions
from azure.core.credentials import TokenCredential
from azure.mgmt.batch import BatchManagementClient

from runspec_azure.errors import translated
from runspec_azure.session import clouds, transport
from runspec_azure.session.transport import TokenHosts


class Management:
    """A client that does not retry: after a lost reply, a retry would hide what the first request made."""

    def __init__(self, options: Any, login: TokenCredential) -> None:
        cloud = clouds.of(options)
        self.client = BatchManagementClient(
            login,
            options.subscription,
            base_url=options.arm_url or cloud.manager_url,
            credential_scopes=[cloud.manager_scope],
            per_retry_policies=[TokenHosts(options)],
            retry_total=0,
            transport=transport.opened(connection_timeout=10, read_timeout=60),
        )

    def make_pool(self, path: Mapping[str, str], body: Mapping[str, Any]) -> None:
        """Make a pool. If one of that name exists, the service refuses with 412."""
        where = (path["resourceGroupName"], path["accountName"], path["poolName"])
        with translated("Pool_Create"):
            self.client.pool.create(*where, dict(body), match_condition=MatchConditions.IfMissing)
