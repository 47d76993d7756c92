"""Log in to an Azure Container Registry with a login of Azure.

https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from runspec_images.image_plan import is_loopback
from runspec_jobs.provider import CredentialsError, NoAnswer

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

    from runspec_images.registry_logins import Login

# https://learn.microsoft.com/azure/container-registry/container-registry-concepts#registry
HOST = re.compile(r"[a-z0-9-]+\.azurecr\.(io|us|cn)")
# See docs/unverified.md, azure-90.
AUDIENCE = "https://containerregistry.azure.net/.default"
# The name of every user with a token: https://learn.microsoft.com/azure/container-registry/container-registry-authentication
USER = "00000000-0000-0000-0000-000000000000"
RETRIES = 3
HINT = "log in to Azure (az login) with the role AcrPush on it, or to the registry with podman login {}"


def log_in(credential: TokenCredential, host: str) -> Login:
    """Return a login at the registry *host*, which is valid for three hours.

    Raises CredentialsError if *credential* has no login, or the registry refuses it.
    """
    from azure.core import PipelineClient  # with the SDK, which a plan does without
    from azure.core.rest import HttpRequest

    from runspec_azure.errors import Hints, translated
    from runspec_azure.session import transport
    from runspec_images.registry_logins import Login

    action, hint = f"log in to {host}", HINT.format(host)
    scheme = "http" if is_loopback(host) else "https"
    with translated(action, Hints(hint, hint)):
        token = credential.get_token(AUDIENCE).token
        form = {"grant_type": "access_token", "service": host, "access_token": token}
        retries = transport.BoundedRetries(retry_total=RETRIES, retry_backoff_factor=0.2)
        link = transport.opened(connection_timeout=10, read_timeout=60)
        client: Any = PipelineClient(f"{scheme}://{host}", policies=[retries], transport=link)
        with client:
            request = HttpRequest("POST", f"{scheme}://{host}/oauth2/exchange", data=form)
            answer = client.send_request(request)
            if answer.status_code in (401, 403):
                raise CredentialsError(f"{action}: the registry refuses your login of Azure", hint)
            answer.raise_for_status()
            found = answer.json()
    if not isinstance(found, dict) or not isinstance(found.get("refresh_token"), str):
        raise NoAnswer(f"{action}: the reply has no token")
    return Login(USER, found["refresh_token"], is_token=True)
