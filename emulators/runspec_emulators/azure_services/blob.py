"""A storage account of Azure Blob on this machine: Azurite, which Microsoft makes for that.

https://learn.microsoft.com/en-us/azure/storage/common/storage-use-azurite
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import shutil
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from runspec_emulators.frame import listening
from runspec_emulators.frame.listening import HOST, Certificate, Closing

VERSION = "3.37.0"  # the version that `tools/setup --test` installs
INSTALL = (
    f"npm install --global azurite@{VERSION} (npm comes with node), or tools/setup --test in a checkout; "
    "if it is installed elsewhere, set RUNSPEC_AZURITE to its path"
)
UP_S = 60.0
STARTS = 5  # its port was free when it was looked for, and may not be any more
SAS_VERSION = "2021-12-02"
# Changes of Azurite. On loopback, a signature for https alone is accepted over http, as if behind a TLS proxy.
# When a block is copied, Azurite requests the source from itself. Here that request has the token of the source, which
# the service accepts as well, and trusts any certificate, because Azurite's own is not among those that node trusts.
# https://learn.microsoft.com/en-us/rest/api/storageservices/put-block-from-url#request-headers
# Telemetry is not even loaded: --disableTelemetry sends none, but two thirds of the processor time of a start were its
# modules (2.4 s with them, 0.9 s without).
# `node -e` leaves no script in argv. The pipe on stdin ends with the process that started Azurite, and ends Azurite.
SCRIPT = """
process.stdin.on("end", () => process.exit(0)).resume();
process.argv.splice(1, 0, "azurite-blob");
const modules = require("module"), load = modules._load;
modules._load = function (name) { return name === "applicationinsights" ? {} : load.apply(this, arguments); };
const signed = require(process.env.RUNSPEC_AZURITE + "/dist/src/blob/authentication/BlobSASAuthenticator.js");
signed.default.prototype.validateProtocol = () => true;
const blocks = require(process.env.RUNSPEC_AZURITE + "/dist/src/blob/handlers/BlockBlobHandler.js").default.prototype;
const copied = blocks.stageBlockFromURL, sources = new (require("async_hooks").AsyncLocalStorage)();
const agent = new (require("https").Agent)({rejectUnauthorized: false});
blocks.stageBlockFromURL = function (...given) {
    const token = given[4].request.getHeader("x-ms-copy-source-authorization");
    return sources.run({token}, () => copied.apply(this, given));
};
require(require.resolve("axios", {paths: [process.env.RUNSPEC_AZURITE]})).interceptors.request.use((asked) => {
    const source = sources.getStore();
    if (source) asked.httpsAgent = agent;
    if (source && source.token) asked.headers.set({authorization: source.token, "x-ms-version": "2021-12-02"});
    return asked;
});
require(process.env.RUNSPEC_AZURITE + "/dist/src/blob/main.js");
"""


def package() -> Path | None:
    """Return the folder of the package: by $RUNSPEC_AZURITE, of the command on PATH, or of tools/setup.

    The variable may hold that folder, the command, or the prefix that npm installed it below.
    """
    if "RUNSPEC_AZURITE" in os.environ:
        places = list(_below(Path(os.environ["RUNSPEC_AZURITE"]).expanduser()))
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        places = list(_below(cache / "runspec-tests" / f"azurite-{VERSION}"))
        command = shutil.which("azurite-blob")
        if command is not None:
            places = [*_below(Path(command)), *places]
    return next((p for p in places if (p / "dist" / "src" / "blob" / "main.js").exists()), None)


def _below(given: Path) -> Iterator[Path]:
    """Return where the package may be: *given* itself, around a command, or below a prefix of npm's.

    https://docs.npmjs.com/cli/configuring-npm/folders
    """
    command = given.resolve()
    yield given
    yield from (folder for folder in command.parents if folder.name == "azurite")
    yield given / "node_modules" / "azurite"
    yield given / "lib" / "node_modules" / "azurite"


class Blobs(Closing):
    """One account with a key of its own, in memory; its log is in *folder*. It ends with this process.

    With *told*, each request is a line of the log. With a *certificate* it talks https, and takes tokens and user
    delegation keys beside its key. It reads the claims of tokens, but does not verify their signature ("basic"):
    https://github.com/Azure/Azurite#oauth-configuration
    """

    def __init__(
        self,
        folder: Path,
        account: str = "rehearsal",
        certificate: Certificate | None = None,
        *,
        told: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._told = told
        self.folder, self.account = folder, account
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self._certificate = certificate
        for more in reversed(range(STARTS)):
            self.port = listening.free_port()
            self.url = f"http{'s' * bool(certificate)}://{HOST}:{self.port}/{account}"
            self.process = self._start()
            try:
                if self._up(last=not more):
                    return
            except BaseException:  # Ctrl-C too: no server is left, and it is raised again
                self.close()
                raise
            self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        node, path = shutil.which("node"), package()
        if node is None or path is None:
            what = "node" if node is None else f"azurite {VERSION}"
            raise RuntimeError(f"{what} is not installed")
        # The SDKs use newer versions of the API than Azurite knows, and it would refuse each of their requests.
        argv = "--inMemoryPersistence --skipApiVersionCheck --disableTelemetry".split()
        argv += [] if self._told else ["--silent"]
        argv += ["--blobHost", HOST, "--blobPort", str(self.port)]
        if self._certificate:
            shown, key = self._certificate.shown, self._certificate.key
            argv += ["--oauth", "basic", "--cert", str(shown), "--key", str(key)]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AZURE", "NODE_"))}
        env |= {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}", "RUNSPEC_AZURITE": str(path)}
        with (self.folder / "azurite.log").open("wb") as log:
            return subprocess.Popen(
                [node, "-e", SCRIPT, "--", *argv],
                cwd=self.folder,
                env=env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a terminal's Ctrl-C is for us: we end it
            )

    def _up(self, *, last: bool) -> bool:
        """Wait until it answers to its key; say whether it does, or raise why not."""
        end = time.monotonic() + UP_S
        while time.monotonic() < end:
            ended = self.process.poll() is not None
            with contextlib.suppress(OSError):
                if self._ask("GET", "/?comp=list") == 200 and not ended:
                    return True
            if ended:
                break
            time.sleep(0.05)
        said = (self.folder / "azurite.log").read_text(errors="replace")
        if "EADDRINUSE" in said and not last:
            return False  # somebody else was faster
        why = listening.why_not(self.process.poll(), UP_S, said)
        raise RuntimeError(f"Azurite does not start: {why}")

    def make_container(self, name: str) -> None:
        """https://learn.microsoft.com/en-us/rest/api/storageservices/create-container"""
        status = self._ask("PUT", f"/{name}?restype=container")
        if status not in (201, 409):
            raise RuntimeError(f"Azurite does not make the container {name}: {status}")

    def sas(self, container: str, permissions: str = "racwdl", lasts_s: float = 3600.0) -> str:
        """Return the query of a SAS of *container*; *permissions* in the order the service wants.

        https://learn.microsoft.com/en-us/rest/api/storageservices/create-service-sas
        """
        query = {
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
        # The string to sign ends with seven empty lines: snapshot time, encryption scope, and five headers of answers.
        text = "\n".join([*query.values(), *[""] * 7])
        query["of"] = ""
        return self._signed(query, text)

    def _account_sas(self) -> str:
        """https://learn.microsoft.com/en-us/rest/api/storageservices/create-account-sas"""
        query = {"sp": "rwdlac", "ss": "b", "srt": "sco", "st": "", "se": _moment(600.0)}
        query |= {"sip": "", "spr": "", "sv": SAS_VERSION}
        return self._signed(query, "\n".join([self.account, *query.values(), "", ""]))

    def _signed(self, query: dict[str, str], text: str) -> str:
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        given = {name: value for name, value in query.items() if value}
        return urllib.parse.urlencode({**given, "sig": base64.b64encode(digest).decode()})

    def _ask(self, method: str, path: str) -> int:
        link = listening.connect(f"{HOST}:{self.port}", 10, self._certificate)
        with contextlib.closing(link):
            url = f"/{self.account}{path}&{self._account_sas()}"
            link.request(method, url, headers={"x-ms-version": SAS_VERSION, "Content-Length": "0"})
            answer = link.getresponse()
            answer.read()
            return answer.status

    def close(self) -> None:
        self.process.kill()  # nothing has to be saved, and after SIGTERM Azurite waits for open connections
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


def _moment(from_now_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + from_now_s))
