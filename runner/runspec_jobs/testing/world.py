"""The environment in which a provider is tested: jobs that it should run, their facts, and its service."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
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

SECRET = "RUNSPEC_TESTING_SECRET"  # an environment variable whose value only the job may see
FILES = {
    "empty": b"",
    "hello.txt": b"hello from a file\n",
    "src/deep/bytes.bin": bytes(range(256)) * 300,
    "src/run.sh": b"#!/bin/sh\necho it runs\n",
}

AWKWARD = 'it\'s "me" & $HOME `x` #y \\n é'  # no shell may interpret any of it
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

# Jobs that a provider runs, or refuses with an error, by name: all fields beside apiVersion and provider.
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
    """A provider, and a folder of this machine in which it is tested.

    *options* are for its `options_model`; *base* has the fields that every spec needs, such as an image. *refuses*
    names the `EXAMPLES` that the provider cannot run, and says so. *overlooks* names the fields in `contract.ASKS`
    that the provider ignores without a word; it should be empty. *secret* is the source of a secret with the value of
    the variable `SECRET`. *answers* is true if there is a service for a client to talk to, *blank_lines* if the service
    stores empty lines of logs. *limit_s* is how long a small job may take, in seconds. Subclass it to change more.
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
        """Return a validated spec for this provider: *base*, overridden by *fields*."""
        spec, problems = documents.parse_spec(self._job(fields))
        assert spec is not None, f"this is not a valid spec: {problems}"
        return spec

    def text(self, **fields: Any) -> bytes:
        """Return the text of the file for the spec that `spec` returns."""
        return json.dumps(self._job(fields)).encode()

    def _job(self, fields: Mapping[str, Any]) -> Any:
        job = {"apiVersion": "runspec/v1", "name": "job", "provider": self.provider.name}
        return documents.merge({**job, **self.base}, fields)

    def example(self, name: str) -> Spec:
        return self.spec(**EXAMPLES[name])

    def facts(self, spec: Spec) -> Facts:
        """Return complete facts for *spec* from this machine alone; missing folders get invented digests."""
        secrets = dict.fromkeys(spec.secrets.values(), self.secret)
        options = documents.merge({"secrets": secrets}, self.options)
        validated = self.provider.options_model.model_validate(options)
        survey = (
            self.provider.survey(spec, validated)
            if isinstance(self.provider, SupportsDiscovery)
            else {}
        )
        sources = {m.name: self._source(m) for m in spec.mounts if m.scheme == "file"}
        wanted = spec.container.requirements
        lines = ("numpy==2.0.0",) if isinstance(wanted, str) else tuple(wanted or ())
        return Facts(validated, sources, lines, survey)

    def bundles(self, spec: Spec) -> Mapping[str, Bundle]:
        """Return the contents of the folders that *spec* mounts, by name of the mount."""
        mounts = [mount for mount in spec.mounts if mount.scheme == "file"]
        return {mount.name: self._bundle(mount) for mount in mounts}

    def connect(self, facts: Facts) -> Client:
        """Return a client of a service that costs nothing, such as an emulator."""
        return self.provider.connect(facts)

    def faults(self) -> Mapping[str, Strike]:
        """Return the faults that can be injected into the service, by name.

        Each is called with a function that sends a request, makes the service fail, and calls the function.
        """
        return {}

    def outage(self) -> AbstractContextManager[None] | None:
        """Return a context manager during which the service does not answer, or None if that cannot be simulated."""
        return None

    def changes(self, run: str) -> Sequence[str] | None:
        """Return a line for each change that a client has made so far in the service or in the store of *run*.

        A job that runs makes changes too, which are left out. Return None if the changes are not known.
        """
        return None

    def reaches(self, fault: str, request: Request) -> bool:
        """Return whether the fault can affect *request*; requests that it cannot affect are not tested with it."""
        return True

    def plain(self, client: Client, run: str) -> Mapping[str, bytes]:
        """Return the objects with plain names below the outputs of *run*, by key, without runspec's own objects.

        Called only if the client has SupportsPublishing.
        """
        raise NotImplementedError

    def discard(self, client: Client, run: str, keys: Collection[str]) -> None:
        """Delete *keys*, which are relative to the outputs of *run*, as if they had never been written."""
        raise NotImplementedError

    def printing(self, lines: Sequence[str], exit_code: int = 0) -> Spec:
        """Return a job that prints *lines* and exits with *exit_code*."""
        text = " ".join(shlex.quote(line) for line in lines)
        return self.spec(run=f"printf '%s\\n' {text}\nexit {exit_code}\n")

    def second_node_failing(self, exit_code: int) -> Spec:
        """Return a job of two nodes: the second exits with *exit_code*, the first runs for five seconds."""
        text = f'[ "$RUNSPEC_RANK" = 0 ] || exit {exit_code}\nexec sleep 5\n'
        return self.spec(run=text, cluster={"nodes": 2})

    def failing(self, exit_codes: Sequence[int], work_s: float = 0.0, nodes: int = 1) -> Spec:
        """Return a job whose attempts exit with *exit_codes*, one after the other, each after *work_s* seconds."""
        cases = "".join(f"{n}) exit {code} ;;\n" for n, code in enumerate(exit_codes, 1))
        text = f'sleep {work_s:g}\ncase "$RUNSPEC_ATTEMPT" in\n{cases}esac\n'
        return self.spec(run=text, retry={"attempts": len(exit_codes)}, cluster={"nodes": nodes})

    def sleeping(self) -> Spec:
        """Return a job that runs for longer than any test."""
        return self.spec(run="echo begun\nexec sleep 600\n")

    def sharing(self) -> Spec:
        """Return a job that needs as many shared resources as possible."""
        return self.example("single" if "mounts" in self.refuses else "mounts")

    def entered(self) -> Spec:
        """Return a job that runs for longer than any test, with a secret, and a file `mark` in its folder."""
        return self.spec(
            run="echo here > mark\necho begun\nexec sleep 600\n",
            env={"GREETING": 'it\'s "me" & $HOME `x` #y \\n é'},
            secrets={"TOKEN": "token"},
        )

    def serving(self, port: int) -> Spec:
        """Return a job that echoes HTTP requests to *port* of its node."""
        return self.spec(command=["python3", "-c", ECHO, str(port)])

    def writing(self, exit_code: int = 0) -> Spec:
        """Return a job that writes the files of `written()` to its output `made` and exits with *exit_code*."""
        into = '"${outputs.made}"'
        return self.spec(
            outputs=[{"name": "made", "path": "/job/made"}],
            run=f"mkdir -p {into}/deep/er\n"
            f"printf '\\000\\001\\377\\n' > {into}/deep/er/bytes.bin\n"
            f": > {into}/empty\nexit {exit_code}\n",
        )

    def written(self) -> Mapping[str, bytes]:
        """Return the content of the files that the job of `writing` writes, by path."""
        return {"deep/er/bytes.bin": b"\x00\x01\xff\n", "empty": b""}

    def writing_on_all(self) -> Spec:
        """Return a job of two nodes that write their ranks to three outputs, which are saved from different nodes."""
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
        # Drawn specs mount folders that do not exist, and a plan needs only their digests.
        return Source(f"sha256:{'5a' * 32}", 3, 4096)

    def _bundle(self, mount: Mount) -> FolderBundle:
        return bundle(self.folder / mount.source)
