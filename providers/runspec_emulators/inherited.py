"""What jobs that run as processes have of whoever rehearses them: their way out, as a machine has its own."""

from __future__ import annotations

import os

NAMES = (  # none of it is a secret
    "PATH LANG LC_ALL TZ SSL_CERT_FILE SSL_CERT_DIR PIP_CERT UV_SYSTEM_CERTS HTTP_PROXY HTTPS_PROXY "
    "NO_PROXY http_proxy https_proxy no_proxy"
).split()


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in NAMES if name in os.environ}
