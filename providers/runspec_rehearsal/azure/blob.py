"""A storage account of Azure Blob on this machine: Azurite, which Microsoft makes for that.

https://learn.microsoft.com/en-us/azure/storage/common/storage-use-azurite
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import os
import secrets
import shutil
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
VERSION = "3.37.0"  # the one tools/setup --test installs
UP_S = 60.0
SAS_VERSION = "2021-12-02"
# With -e there is no script in argv. The pipe on stdin ends when whoever started this has ended.
SCRIPT = """
process.stdin.on("end", () => process.exit(0)).resume();
process.argv.splice(1, 0, "azurite-blob");
require(process.env.RUNSPEC_AZURITE + "/dist/src/blob/main.js");
"""


def package() -> Path | None:
    """Return the folder of the package: $RUNSPEC_AZURITE, of the command on PATH, or of tools/setup."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    places = [cache / "runspec-tests" / f"azurite-{VERSION}" / "node_modules" / "azurite"]
    command = shutil.which("azurite-blob")
    if command is not None:
        places.insert(0, _package_of(Path(command).resolve()))
    if "RUNSPEC_AZURITE" in os.environ:
        places = [Path(os.environ["RUNSPEC_AZURITE"])]
    return next((p for p in places if (p / "dist" / "src" / "blob" / "main.js").exists()), None)


def _package_of(command: Path) -> Path:
    return next((p for p in command.parents if p.name == "azurite"), command.parent)


class Blobs:
    """One account with a key of its own, in memory; its log is in *folder*. It ends with this process."""

    def __init__(self, folder: Path, account: str = "rehearsal") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.account = folder, account
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self.port = _free_port()
        self.url = f"http://{HOST}:{self.port}/{account}"
        self._process = self._start()
        try:
            self._await()
        except BaseException:  # Ctrl-C too: no server is left, and it is raised again
            self.close()
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        node, found = shutil.which("node"), package()
        if node is None or found is None:
            what = "node" if node is None else f"azurite {VERSION}"
            raise RuntimeError(f"{what} is not installed")
        # The SDKs are ahead of the versions Azurite knows: it would refuse each of their requests.
        words = "--inMemoryPersistence --skipApiVersionCheck --disableTelemetry --silent".split()
        words += ["--blobHost", HOST, "--blobPort", str(self.port)]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AZURE", "NODE_"))}
        env |= {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}", "RUNSPEC_AZURITE": str(found)}
        with (self.folder / "azurite.log").open("wb") as log:
            return subprocess.Popen(
                [node, "-e", SCRIPT, "--", *words],
                cwd=self.folder,
                env=env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def _await(self) -> None:
        end = time.monotonic() + UP_S
        while True:
            try:
                self._ask("GET", "/?comp=list")
            except OSError:
                if self._process.poll() is not None or time.monotonic() > end:
                    tail = (self.folder / "azurite.log").read_text(errors="replace")[-500:]
                    raise RuntimeError(f"Azurite does not start: {tail}") from None
                time.sleep(0.05)
            else:
                return

    def make_container(self, name: str) -> None:
        """https://learn.microsoft.com/en-us/rest/api/storageservices/create-container"""
        status = self._ask("PUT", f"/{name}?restype=container")
        if status not in (201, 409):
            raise RuntimeError(f"Azurite does not make the container {name}: {status}")

    def sas(self, container: str, permissions: str = "racwdl", lasts_s: float = 3600.0) -> str:
        """Return the query of a SAS of *container*; *permissions* in the order the service wants.

        https://learn.microsoft.com/en-us/rest/api/storageservices/create-service-sas
        """
        words = {
            "sp": permissions,
            "st": "",
            "se": _moment(lasts_s),
            "of": f"/blob/{self.account}/{container}",
            "si": "",
            "sip": "",
            "spr": "",
            "sv": SAS_VERSION,
            "sr": "c",
        }
        # Then snapshot time, encryption scope, and five headers of answers.
        text = "\n".join([*words.values(), *[""] * 7])
        words["of"] = ""
        return self._signed(words, text)

    def _account_sas(self) -> str:
        """https://learn.microsoft.com/en-us/rest/api/storageservices/create-account-sas"""
        words = {"sp": "rwdlac", "ss": "b", "srt": "sco", "st": "", "se": _moment(600.0)}
        words |= {"sip": "", "spr": "", "sv": SAS_VERSION}
        return self._signed(words, "\n".join([self.account, *words.values(), "", ""]))

    def _signed(self, words: dict[str, str], text: str) -> str:
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        given = {name: word for name, word in words.items() if word}
        return urllib.parse.urlencode({**given, "sig": base64.b64encode(digest).decode()})

    def _ask(self, method: str, path: str) -> int:
        link = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            url = f"/{self.account}{path}&{self._account_sas()}"
            link.request(method, url, headers={"x-ms-version": SAS_VERSION, "Content-Length": "0"})
            answer = link.getresponse()
            answer.read()
            return answer.status
        finally:
            link.close()

    def close(self) -> None:
        self._process.kill()  # there is nothing to save, and SIGTERM waits for clients that stay
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _moment(from_now_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + from_now_s))


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        port: int = found.getsockname()[1]
        return port
