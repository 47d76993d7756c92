"""Where a provider is tested: jobs that it should run, the facts for them, and a way to its service."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runspec_jobs.load.bundle import FolderBundle, bundle
from runspec_jobs.provider import (
    Bundle,
    Client,
    Facts,
    Mount,
    Provider,
    Request,
    Source,
    Spec,
    SupportsDiscovery,
)
from runspec_jobs.testing import documents
from runspec_jobs.testing.faults import Strike

SECRET = "RUNSPEC_TESTING_SECRET"  # a variable; its value must be seen nowhere but in the job
FILES = {
    "empty": b"",
    "hello.txt": b"hello from a file\n",
    "src/deep/bytes.bin": bytes(range(256)) * 300,
    "src/run.sh": b"#!/bin/sh\necho it runs\n",
}

AWKWARD = 'it\'s "me" & $HOME `x` #y \\n é'  # no shell may make anything of it
ECHO = """\
import http.server, os, sys
class Echo(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(data)
at = (os.environ["RUNSPEC_HOST"], int(sys.argv[1]))
server = http.server.ThreadingHTTPServer(at, Echo)
print("begun", flush=True)
server.serve_forever()
"""

# Jobs that a provider runs or refuses in words, by name: what is beside apiVersion and provider.
EXAMPLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "single": {"command": ["echo", "hello", "two words", "$HOME", ""]},
        "script": {"run": 'echo "$GREETING"', "env": {"GREETING": 'it\'s "me" & $HOME\nhere'}},
        "name": {"name": "n" * 40, "command": ["true"]},
        "sweep": {
            "sweep": {"lr": [0.1, "1e-2"], "seed": "1..3"},
            "max_parallel": 2,
            "command": ["echo", "${sweep.lr}", "${sweep.seed}"],
        },
        "secrets": {"secrets": {"TOKEN": "token"}, "run": 'test -n "$TOKEN"'},
        "mounts": {
            "mounts": [{"name": "code", "source": "./code", "target": "/job/code"}],
            "command": ["cat", "${mounts.code}/hello.txt"],
        },
        "outputs": {
            "outputs": [{"name": "model", "path": "/job/model"}],
            "run": 'echo done > "${outputs.model}/result.txt"',
        },
        "nodes": {"cluster": {"nodes": 2}, "command": ["echo", "hello"]},
        "limits": {"retry": {"attempts": 2}, "timeout": "10m", "command": ["echo", "hello"]},
    }
)


@dataclass
class World:
    """A provider and a corner of this machine to try it in.

    *options* are for its `options_model`, *base* is what every spec needs there, such as an
    image. *refuses* names those of `EXAMPLES` that the provider says it cannot run. *overlooks*
    names what a job may ask for (`contract.ASKS`) and gets no answer to; it ought to be empty.
    *secret* says where a secret lives that has the value of the variable `SECRET`. *answers* says
    whether there is something for a client to talk to, *blank_lines* whether the
    service keeps lines with nothing in them. *limit_s* is how long, in seconds, a small job may
    take. Subclass it to change more.
    """

    provider: Provider
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    base: Mapping[str, Any] = field(default_factory=dict)
    refuses: Collection[str] = ()
    overlooks: Collection[str] = ()
    secret: str = f"env:{SECRET}"
    answers: bool = True
    blank_lines: bool = True
    limit_s: float = 60.0

    def __post_init__(self) -> None:
        for name, data in FILES.items():
            path = self.folder / "code" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o755 if name.endswith(".sh") else 0o644)

    def spec(self, **fields: Any) -> Spec:
        """Give a spec for this provider with *fields* over the base, checked as a file is."""
        spec, problems = documents.spec(self._job(fields))
        assert spec is not None, f"this is no valid spec: {problems}"
        return spec

    def text(self, **fields: Any) -> bytes:
        """Give the file that says what `spec` gives."""
        return json.dumps(self._job(fields)).encode()

    def _job(self, fields: Mapping[str, Any]) -> Any:
        job = {"apiVersion": "runspec/v1", "name": "job", "provider": self.provider.name}
        return documents.merged({**job, **self.base}, fields)

    def example(self, name: str) -> Spec:
        return self.spec(**EXAMPLES[name])

    def facts(self, spec: Spec) -> Facts:
        """Give complete facts for *spec*, from this machine alone; a folder it lacks is made up."""
        secrets = dict.fromkeys(spec.secrets.values(), self.secret)
        options = documents.merged({"secrets": secrets}, self.options)
        found = self.provider.options_model.model_validate(options)
        survey = (
            self.provider.survey(spec, found)
            if isinstance(self.provider, SupportsDiscovery)
            else {}
        )
        sources = {m.name: self._source(m) for m in spec.mounts if m.scheme == "file"}
        wanted = spec.container.requirements
        lines = ("numpy==2.0.0",) if isinstance(wanted, str) else tuple(wanted or ())
        return Facts(found, sources, lines, survey)

    def bundles(self, spec: Spec) -> Mapping[str, Callable[[], Bundle]]:
        """Give the content of the folders that *spec* mounts."""
        mounts = [mount for mount in spec.mounts if mount.scheme == "file"]
        return {mount.name: partial(self._bundle, mount) for mount in mounts}

    def connect(self, facts: Facts) -> Client:
        """Give a client whose service does nothing that costs."""
        return self.provider.connect(facts)

    def faults(self) -> Mapping[str, Strike]:
        """Give ways in which the service itself can fail, where it can be told to.

        Each is given what sends a call, makes the service drop its reply, say, and sends it.
        """
        return {}

    def outage(self) -> AbstractContextManager[None] | None:
        """Give what keeps the service from answering anything as long as it is entered, where it can be told to."""
        return None

    def reaches(self, fault: str, request: Request) -> bool:
        """Say whether *request* can meet that way to fail: what cannot is not tried with it."""
        return True

    def plain(self, client: Client, run: str) -> Mapping[str, bytes]:
        """Give what lies below the outputs of *run* for other tools, by key: all but what runspec keeps there.

        Asked of a world whose client `Publishes`.
        """
        raise NotImplementedError

    def discard(self, client: Client, run: str, keys: Collection[str]) -> None:
        """Delete *keys*, which begin below the outputs of *run*, as if nobody had written them."""
        raise NotImplementedError

    def printing(self, lines: Sequence[str], exit_code: int = 0) -> Spec:
        """Give a job that prints *lines* and exits with *exit_code*."""
        words = " ".join(shlex.quote(line) for line in lines)
        return self.spec(run=f"printf '%s\\n' {words}\nexit {exit_code}\n")

    def second_node_failing(self, exit_code: int) -> Spec:
        """Give a job of two nodes: the second exits with *exit_code*, the first goes on for five seconds."""
        text = f'[ "$RUNSPEC_RANK" = 0 ] || exit {exit_code}\nexec sleep 5\n'
        return self.spec(run=text, cluster={"nodes": 2})

    def failing(self, exit_codes: Sequence[int]) -> Spec:
        """Give a job whose tries exit with *exit_codes*, one after the other."""
        cases = "".join(f"{n}) exit {code} ;;\n" for n, code in enumerate(exit_codes, 1))
        text = f'case "$RUNSPEC_ATTEMPT" in\n{cases}esac\n'
        return self.spec(run=text, retry={"attempts": len(exit_codes)})

    def sleeping(self) -> Spec:
        """Give a job that goes on for longer than any test."""
        return self.spec(run="echo begun\nexec sleep 600\n")

    def sharing(self) -> Spec:
        """Give a job for which as much as possible is made that runs share."""
        return self.example("single" if "mounts" in self.refuses else "mounts")

    def entered(self) -> Spec:
        """Give a job that goes on for longer than any test, with a secret, and a file `mark` in its folder."""
        return self.spec(
            run="echo here > mark\necho begun\nexec sleep 600\n",
            env={"GREETING": 'it\'s "me" & $HOME `x` #y \\n é'},
            secrets={"TOKEN": "token"},
        )

    def serving(self, port: int) -> Spec:
        """Give a job that gives back, over HTTP at *port* of its node, what is sent to it."""
        return self.spec(command=["python3", "-c", ECHO, str(port)])

    def writing(self, exit_code: int = 0) -> Spec:
        """Give a job that writes `written()` into its output `made` and exits with *exit_code*."""
        into = '"${outputs.made}"'
        return self.spec(
            outputs=[{"name": "made", "path": "/job/made"}],
            run=f"mkdir -p {into}/deep/er\n"
            f"printf '\\000\\001\\377\\n' > {into}/deep/er/bytes.bin\n"
            f": > {into}/empty\nexit {exit_code}\n",
        )

    def written(self) -> Mapping[str, bytes]:
        """Give what the job of `writing` leaves, by path."""
        return {"deep/er/bytes.bin": b"\x00\x01\xff\n", "empty": b""}

    def writing_on_all(self) -> Spec:
        """Give a job of two nodes, each of which writes its rank into three outputs, kept of different nodes."""
        made = [("usual", {}), ("every", {"from": "all"}), ("lead", {"from": "first"})]
        return self.spec(
            cluster={"nodes": 2},
            outputs=[{"name": name, "path": f"/job/{name}", **how} for name, how in made],
            run='for at in "${outputs.usual}" "${outputs.every}" "${outputs.lead}"; do\n'
            'echo "$RUNSPEC_RANK" >"$at/rank"\ndone\n',
        )

    def _source(self, mount: Mount) -> Source:
        if mount.source == EXAMPLES["mounts"]["mounts"][0]["source"]:
            return self._bundle(mount).source
        return Source(f"sha256:{'5a' * 32}", 3, 4096)

    def _bundle(self, mount: Mount) -> FolderBundle:
        return bundle(self.folder / mount.source)
