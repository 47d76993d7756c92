"""The client of the Slurm provider: it carries out the requests of a plan, and finds their results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from runspec_images.image_plan import BUILD
from runspec_jobs.provider import (
    Bundle,
    Client,
    Conflict,
    Facts,
    MembershipChange,
    NoAnswer,
    Orphan,
    OutputFile,
    Places,
    Progress,
    Released,
    RemoteError,
    Request,
    Response,
    Seat,
    Status,
    Step,
    Submits,
    Unavailable,
)
from runspec_jobs.provider.machines import Usage
from runspec_jobs.provider.payload import pack_agent
from runspec_jobs.provider.registry_login import docker_auth
from runspec_jobs.provider.streams.log_streams import Stream, TimedChunk
from runspec_jobs.provider.types import ExecSpec, Route
from runspec_slurm import shell, timing
from runspec_slurm.cleanup import OrphanFinder, Reconciler
from runspec_slurm.job import after_parents, following
from runspec_slurm.logs import Logs, LogStream
from runspec_slurm.lookup.jobs import Jobs
from runspec_slurm.naming import AGENT_SHA256, JOB_STEP, job_name, of_run
from runspec_slurm.options import SlurmOptions
from runspec_slurm.queue import Queue
from runspec_slurm.session.transport import Transport, transport
from runspec_slurm.shell import Node
from runspec_slurm.status.workspace_poll import WorkspacePoller
from runspec_slurm.store import built_image, outputs, records
from runspec_slurm.store.workspace import WorkspaceStore
from runspec_slurm.timing import Clock, Timing

RECORD = "/record.json"
ENROOT_HUB = "registry-1.docker.io"  # what enroot calls Docker Hub
ENROOT_PASSWORD = r"(?!\$)[!$-&(-\[\]-~]+"  # no space, quote, backslash or #
STATE = "state.json"  # the state of a run, for other machines to adopt it


def connect(facts: Facts) -> Client:
    return SlurmClient(facts.options, timing=timing.DEFAULT)


class SlurmClient:
    """Calls Slurm's commands, on this machine or on a login node, and keeps files in the workspace."""

    def __init__(
        self,
        options: SlurmOptions,
        way: Transport | None = None,
        timing: Timing = timing.DEFAULT,
        clock: Clock = timing.CLOCK,
    ) -> None:
        self.options, self.timing, self.clock = options, timing, clock
        self.way = way or transport(options.host, options.ssh_options, timing)
        self.store = WorkspaceStore(self.way, options.workspace, timing, clock)
        self.queue = Queue(self.store)
        self.poller = WorkspacePoller(self.store)
        self.jobs = Jobs(self.store, self.queue, self.poller, options.grace)
        self.reconciler = Reconciler(self.jobs)
        self.logs = Logs(self.store, self.poller, self.jobs.record)
        self._tell: Callable[[str], None] = lambda line: None

    @property
    def poll_s(self) -> float:
        return self.way.look_s

    def call(self, request: Request) -> Response:
        params = request.params
        match request.operation:
            case "put":
                return self._put(params["key"], _content(params["content"]))
            case "put_secrets":
                return self._put(params["key"], _variables(params["values"]))
            case "put_login":
                return self._put(params["key"], _login(params["format"], params["login"]))
            case "remove":
                self.store.remove(params["key"])
            case "remove_run":
                self.store.remove_tree("runs", params["run"])
                self.jobs.forget(params["run"])
            case "remove_tree":
                self.store.remove_tree(params["key"])
            case "sbatch":
                argv = params["argv"]
                # The ids of the jobs that this one waits for are known only now.
                if params.get("needs"):
                    argv = after_parents(argv, params["needs"])
                if "after" in params:
                    argv = following(argv, params["after"])
                script = params["script"]
                if "image" in params:
                    script = built_image.pin(script, **params["image"])
                return self.jobs.submit(named(argv), argv, script)
            case "scancel":
                self.jobs.cancel(params["name"])
            case other:
                raise RemoteError(f"there is no operation '{other}' of Slurm or its workspace")
        return {}

    def _put(self, key: str, content: bytes) -> Response:
        """Write a file; with a record, make the folder of its logs, which Slurm opens before a job begins."""
        # A job without the folder of its --output fails with no word of why.
        beside = f"{key.removesuffix(RECORD)}/logs" if key.endswith(RECORD) else ""
        self.store.put(key, content, beside=beside)
        return {"key": key}

    def listen(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        if request.operation == BUILD:
            return built_image.build(request.params, bundle, self._tell, progress)
        key = request.params["key"]
        self.store.put_folder(key, bundle, progress)
        return {"key": key}

    def find(self, step: Step) -> Response | None:
        """Return the answer of *step* if it was done. Raise NoAnswer if the cluster cannot be reached."""
        try:
            if step.do.operation == BUILD:
                return built_image.find(step.do.params)
            if step.do.service == "slurm":
                return self.jobs.find(named(step.do.params["argv"]))
            key = step.do.params["key"]
            return None if self.store.size(key) is None else {"key": key}
        except Unavailable as exc:
            raise NoAnswer(exc.message, exc.hint) from exc

    def settled(self, step: Step) -> bool:
        return True

    def state(self, run: str) -> Status:
        return self.jobs.status(run)

    def cancel(self, run: str) -> None:
        self.jobs.end(run)

    def reconcile(self, run: str) -> Sequence[str]:
        return self.reconciler.reconcile(run)

    def stop(self, run: str, tasks: Collection[int]) -> None:
        self.jobs.stop(run, tasks)

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], submits: Submits
    ) -> Released:
        return self.jobs.release(run, away, back)

    def changes(self, run: str) -> Sequence[MembershipChange]:
        return records.read_changes(self.store, run)

    def remember(self, run: str, answers: Mapping[str, Response]) -> None:
        for step, answer in answers.items():
            if (match := JOB_STEP.fullmatch(step)) and "job" in answer:
                self.jobs.remember(job_name(run, int(match[1] or 0)), answer["job"])

    def keep_state(self, run: str, content: bytes) -> None:
        self.store.put(of_run(run, STATE), content)

    def kept_state(self, run: str) -> bytes | None:
        return self.store.read(of_run(run, STATE))

    def kept_runs(self) -> Sequence[str]:
        return self.store.folders("runs")

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterable[Orphan]:
        return OrphanFinder(self.store, self.queue).find_orphans(runs, made)

    def streams(self, run: str) -> Sequence[Stream]:
        # An empty folder may be a workspace that is not mounted on this machine.
        if self.poller.seen(run) is None:
            self.jobs.check_mounted(run)
        return self.logs.streams(run)

    def publish(self, run: str) -> Sequence[str]:
        return outputs.publish(self.store, run)

    def read_timed(self, stream: Stream, position: str | None) -> TimedChunk:
        assert isinstance(stream, LogStream), "BUG: it is not a stream of this client"
        return stream.timed(position)

    def places(self, run: str) -> Places:
        host = f"{self.options.host}:" if self.options.host else ""
        kept = f"{host}{self.options.workspace}/{of_run(run)}"
        return Places(f"{kept}/logs", f"{kept}/outputs")

    def outputs(self, run: str) -> Sequence[OutputFile]:
        files = outputs.list_outputs(self.store, run)
        if not files:
            self.jobs.check_mounted(run)
        return files

    def usage(self, run: str, most: int | None) -> Usage:
        return records.get_usage(self.store, run, most)

    def shell(
        self, run: str, task: int, rank: int, words: Sequence[str], *, terminal: bool
    ) -> ExecSpec:
        node = self._running(run, task, rank)
        python = self.options.python
        return shell.shell(self.store, node, python, words, terminal=terminal)

    def tunnel(self, run: str, task: int, rank: int, port: int) -> Route:
        node = self._running(run, task, rank)
        return shell.tunnel(self.store, node, self.options.python, port)

    def _running(self, run: str, task: int, rank: int) -> Node:
        """Return a node that runs: Slurm lists a job for some time after its program has ended."""
        node = shell.node(self.jobs, self.store, run, task, rank)
        for status in self.state(run).nodes:
            if (status.task, status.rank) == (task, rank) and status.state.terminal:
                raise shell.not_running(run, task, rank)
        return node


def named(argv: Sequence[str]) -> str:
    """Return the name of the job that a command line of sbatch submits.

    >>> named(["--parsable", "--job-name=hello-abc123"])
    'hello-abc123'
    """
    begin = "--job-name="
    return next(word.removeprefix(begin) for word in argv if word.startswith(begin))


def _content(value: Any) -> bytes:
    """Return the bytes of *value*: a text, or the agent, which a plan names by its hash."""
    if isinstance(value, str):
        return value.encode()
    if value["$inside"] != AGENT_SHA256:
        raise Conflict(
            "this run was planned by another version of runspec",
            "use that version, or start a new run with apply --new",
        )
    return pack_agent()


def _login(kind: str, login: Mapping[str, str]) -> bytes:
    """Return a login at a registry for podman and Apptainer (docker's format), or for enroot (netrc).

    enroot runs a password that begins with $ as a shell command, and has no quotes. The service that issues tokens may
    be another host than the registry, so its password is the default.
    https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md
    """
    if kind == "docker":
        return json.dumps(docker_auth(login)).encode()
    if not re.fullmatch(ENROOT_PASSWORD, login["password"]):
        why = "it has spaces, quotes, a backslash or #, or begins with $"
        what = f"enroot cannot read the password for {login['registry']}: {why}"
        raise RemoteError(what, "use a token of the registry as registry_password")
    host = ENROOT_HUB if login["registry"] == "docker.io" else login["registry"].partition(":")[0]
    login_words = f"login {login['user']} password {login['password']}\n"
    return f"machine {host} {login_words}default {login_words}".encode()


def _variables(values: Mapping[str, str]) -> bytes:
    """Return secrets in the format that the job reads: NAME=VALUE, each followed by a NUL byte."""
    for name, value in values.items():
        # NUL separates the secrets in the file.
        if "\0" in value:
            raise RemoteError(
                f"the secret for {name} contains a NUL byte",
                "remove it: no environment variable can hold one",
            )
    return b"".join(f"{name}={value}\0".encode() for name, value in values.items())
