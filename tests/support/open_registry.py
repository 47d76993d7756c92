"""Debian's docker-registry on loopback, to which a user with the right password may push.

https://distribution.github.io/distribution/about/configuration/
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runspec_emulators.frame.listening import free_port
from tests.support.private_registry import PASSWORD, USER
from tests.support.wait import until

# bcrypt of PASSWORD with the fewest rounds: htpasswd(1)
ENTRY = f"{USER}:$2b$04$q1WkbD0LRaRLG9byhuqj5OaVY7B5RQoeimmvAsaJjUliwsHJjlbFi\n"
CONFIGURATION = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}/images}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: tests, path: {folder}/htpasswd}}}}
"""


@contextlib.contextmanager
def open_registry(folder: Path) -> Iterator[str]:
    """Yield the host and port of a registry whose images are in *folder*."""
    port = free_port()
    (folder / "htpasswd").write_text(ENTRY)
    (folder / "registry.yml").write_text(CONFIGURATION.format(folder=folder, port=port))
    line = ["docker-registry", "serve", str(folder / "registry.yml")]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        try:
            until(lambda: _listens(port), 30)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


def login_file(host: str) -> dict[str, Any]:
    """Return the content of a file of podman's with the login."""
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return {"auths": {host: {"auth": pair}}}


def write_login(host: str, file: Path) -> None:
    file.write_text(json.dumps(login_file(host)))


def tags(folder: Path) -> list[str]:
    """Return the tags of all repositories in *folder*."""
    return sorted(path.name for path in (folder / "images").glob("**/_manifests/tags/*"))
