"""A registry on loopback with one image, which only a user with the right password may pull.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pull
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.support.http_server import HOST, ReceivedRequest, Reply, Server

USER, PASSWORD = "me", "canary-of-the-registry"
ENCODED = base64.b64encode(f"{USER}:{PASSWORD}".encode())
ASK = Reply(401, {"WWW-Authenticate": 'Basic realm="private"'})
# podman reads it from the file that CONTAINERS_REGISTRIES_CONF names, and docker speaks http on loopback by itself:
# https://github.com/containers/image/blob/main/docs/containers-registries.conf.5.md
PLAIN_HTTP = f'[[registry]]\nlocation = "{HOST}"\ninsecure = true\n'


@contextlib.contextmanager
def registry(
    image: str, folder: Path, env: Mapping[str, str], pulled: Callable[[], None] = lambda: None
) -> Iterator[str]:
    """Yield the name by which *image* of podman is in a registry; *env* are podman's variables.

    *pulled* is called while somebody who has logged in pulls it.
    """
    line = ["podman", "push", "--quiet", "--format=v2s2", image, f"dir:{folder}"]
    subprocess.run(line, env={**os.environ, **env}, check=True)

    def answer(request: ReceivedRequest) -> Reply:
        reply = _answer(folder, request)
        if reply is not ASK:
            pulled()
        return reply

    with Server(answer) as server:
        yield f"{HOST}:{server.port}/team/private:1"


def _answer(folder: Path, request: ReceivedRequest) -> Reply:
    if request.headers.get("authorization") != f"Basic {ENCODED.decode()}":
        return ASK
    kind, _, name = request.path.removeprefix("/v2/").removeprefix("team/private/").partition("/")
    if kind == "manifests":
        body = (folder / "manifest.json").read_bytes()
        return Reply(200, {"Content-Type": json.loads(body)["mediaType"]}, body)
    if kind == "blobs":
        return Reply(200, {}, (folder / name.removeprefix("sha256:")).read_bytes())
    return Reply(200)


def holding_password(folder: Path) -> list[Path]:
    """Return the files below *folder* that have the password."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [
        path
        for path in files
        if any(one in path.read_bytes() for one in (PASSWORD.encode(), ENCODED))
    ]
