"""What runs in the namespaces: it lays them out, starts the services and the front, and does what it is told.

    python -m tests.realnames.inside CONFIG

It reads one JSON list a line, a method of the services and its arguments, and answers each in a line. At the end of
its input it ends what it has started.
"""

from __future__ import annotations

import importlib
import json
import ssl
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import botocore
import certifi

from tests.realnames.authority import Authority
from tests.realnames.front import Front, Route
from tests.realnames.proxy import Proxy

ADDRESSES = ("169.254.169.254", "169.254.170.2")  # of a machine, and of a task of ECS
PROXY_PORT = 3128


class Services(Protocol):
    """What stands behind the front. Its other methods are what the world can be told."""

    def routes(self) -> Iterable[Route]: ...

    def close(self) -> None: ...


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(config["folder"])
    authority = Authority(folder / "authority")
    lay_out(config["names"], folder, authority if config["bound"] else None)
    front = Front(authority, folder / "requests.jsonl")
    module, _, name = config["services"].partition(":")
    kind = getattr(importlib.import_module(module), name)
    services = kind(folder, **config["settings"])
    proxy = Proxy(PROXY_PORT)
    try:
        front.route(services.routes())
        front.listen("127.0.0.1", 443, tls=True)
        for address in ("127.0.0.1", *ADDRESSES):
            front.listen(address, 80, tls=False)
        answer("ready")
        for line in sys.stdin:
            method, *words = json.loads(line)
            answer(getattr(services, method)(*words))
    finally:
        proxy.close()
        front.close()
        services.close()


def answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def lay_out(names: Iterable[str], folder: Path, authority: Authority | None) -> None:
    """Have the *names* lead to loopback, and trust *authority* and nobody else, if there is one."""
    run("ip", "link", "set", "lo", "up")
    for address in ADDRESSES:
        run("ip", "address", "add", f"{address}/32", "dev", "lo")
    hosts = folder / "hosts"
    hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *names)))
    bind(hosts, "/etc/hosts")
    if authority is not None:
        for place, own in trusted(authority).items():
            bind(own, place)


def trusted(authority: Authority) -> Mapping[str, Path]:
    """Return what lies where programs look for whom to trust: the system's, and those that libraries bring along."""
    known = ssl.get_default_verify_paths()
    botocore_own = Path(botocore.__file__).parent / "cacert.pem"
    files = (known.openssl_cafile, certifi.where(), str(botocore_own))
    folders = {known.openssl_capath, "/etc/ssl/certs"}
    found = {str(Path(name).resolve()): authority.directory() for name in folders}
    found |= {str(Path(name).resolve()): authority.bundle for name in files}
    return {name: own for name, own in found.items() if Path(name).exists()}


def bind(own: Path, place: str) -> None:
    run("mount", "--bind", str(own), place)


def run(*words: str) -> None:
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
