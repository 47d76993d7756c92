"""The namespaces, seen from a test: what runs in them, what was asked of the services there, and by whom."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from runspec_emulators.frame.listening import Closing
from tests.realnames.inside import PROXY_PORT
from tests.realnames.proxy import ADDRESS
from tests.support.requirements import need, need_root
from tests.support.root import ROOT

Trust = Literal["bound", "variables"]
# What may lead a program elsewhere, or have it trust somebody else: none of it comes along.
FOREIGN = ("AWS_", "AZURE_", "ARM_", "RUNSPEC_CI", "SSL_CERT_", "NODE_EXTRA", "PIP_CERT")
FOREIGN_ENDS = ("_PROXY", "_CA_BUNDLE", "_CAINFO")
UP_S = 180.0
COMMAND_S = 300.0


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Request(NamedTuple):
    """One request that came to the front. *scope* is that of its signature (AWS), without the key's id."""

    scheme: str
    host: str
    method: str
    target: str
    status: int
    peer: str
    sni: str
    scope: str

    @property
    def proxied(self) -> bool:
        return self.peer == ADDRESS


class World(Closing):
    """Services behind their real *names*, in namespaces of their own.

    *services* is "MODULE:CLASS" of `inside.Services`; it is made there with *settings*. With *trust* "bound", the
    test's authority takes the place of the system's bundle and of those of certifi and botocore. With "variables",
    those stay as they are, and commands are told of the authority as a company would tell them.
    """

    def __init__(
        self,
        folder: Path,
        services: str,
        names: Iterable[str],
        trust: Trust = "bound",
        **settings: Any,
    ) -> None:
        need_root()
        need("unshare", "nsenter", "ip", "mount", "openssl")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._trust = folder, trust
        self._lock = threading.Lock()
        self._begun = 0
        config = {
            "folder": str(folder),
            "services": services,
            "names": list(names),
            "bound": trust == "bound",
            "settings": settings,
        }
        (folder / "config.json").write_text(json.dumps(config))
        self._process = self._start(folder / "config.json")
        self._answers: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        try:
            self._answer(UP_S)
        except BaseException:  # Ctrl-C too: nothing is left, and it is raised again
            self.close()
            raise

    @property
    def env(self) -> dict[str, str]:
        """The variables of every command: none names an endpoint."""
        found = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(FOREIGN) and not name.upper().endswith(FOREIGN_ENDS)
        }
        if self._trust == "variables":
            bundle = str(self.folder / "authority" / "authority.pem")
            names = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
            found |= dict.fromkeys(names, bundle)
        return found

    @property
    def proxy(self) -> dict[str, str]:
        """The variables that lead a program through the proxy."""
        return {"HTTPS_PROXY": f"http://127.0.0.1:{PROXY_PORT}"}

    def _start(self, config: Path) -> subprocess.Popen[str]:
        line = ["unshare", "-n", "-m", sys.executable, "-m", "tests.realnames.inside", str(config)]
        with (self.folder / "inside.log").open("w") as log:
            return subprocess.Popen(
                line,
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _answer(self, seconds: float) -> Any:
        line = self._answers.get(timeout=seconds)
        log = self.folder / "inside.log"
        assert line, f"what runs in the namespaces has ended: {log.read_text()[-2000:]}"
        return json.loads(line)

    def tell(self, method: str, *words: Any) -> Any:
        """Call a method of the services, and return what it returns."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps([method, *words]) + "\n")
            self._process.stdin.flush()
            return self._answer(COMMAND_S)

    def popen(
        self, *line: str, env: Mapping[str, str | None] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[str]:
        """Start a program in the namespaces, in *cwd* or where the test is; None takes a variable away."""
        place = cwd or Path.cwd()
        enter = ["nsenter", "-t", str(self._process.pid), "-n", "-m", f"-w{place}", "--"]
        return subprocess.Popen(
            [*enter, *line],
            env={k: v for k, v in {**self.env, **(env or {})}.items() if v is not None},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *line: str, env: Mapping[str, str | None] | None = None, cwd: Path | None = None
    ) -> Done:
        with self.popen(*line, env=env, cwd=cwd) as process:
            try:
                out, err = process.communicate(timeout=COMMAND_S)
            except BaseException:
                process.kill()
                raise
        return Done(process.returncode, out, err)

    def runspec(
        self, *words: str, env: Mapping[str, str | None] | None = None, cwd: Path | None = None
    ) -> Done:
        """Run `runspec` with *words*."""
        return self.run(sys.executable, "-m", "runspec_jobs", *words, env=env, cwd=cwd)

    def requests(self) -> list[Request]:
        """Give what the front was asked since `begin`."""
        record = self.folder / "requests.jsonl"
        lines = record.read_text().splitlines() if record.exists() else []
        return [Request(**json.loads(line)) for line in lines[self._begun :]]

    def begin(self) -> None:
        """Forget what the front was asked until now."""
        self._begun = 0
        self._begun = len(self.requests())

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
