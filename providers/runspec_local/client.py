"""The client of the local provider: folders, environments, images, and the supervisor of each run."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import runspec_agent
import runspec_local
from runspec_agent.base import limits
from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import (
    Bundle,
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
    RunspecError,
    Seat,
    Status,
    Step,
    Submits,
    state_folder,
)
from runspec_jobs.provider.machines import Usage
from runspec_jobs.provider.payload import pack_agent, read_inside_sh
from runspec_jobs.provider.streams.log_streams import Stream, TimedChunk
from runspec_jobs.provider.types import ExecSpec, Route
from runspec_local import errors, infrastructure, orphans, publish, shell, status
from runspec_local.session import container_engine, gpus
from runspec_local.store import is_whole, put, remove
from runspec_local.supervisor import (
    device_leases,
    durable,
    elastic,
    events,
    process,
    reaper,
)
from runspec_local.timing import CLOCK, DEFAULT, Clock, Timing
from runspec_namespaces import kernel_support

# What the supervisor imports: this package and the agent. In a checkout they lie in two folders.
SOURCES = tuple(str(Path(package.__path__[0]).parent) for package in (runspec_local, runspec_agent))
BOOTSTRAP = (
    "import gc, sys; gc.disable(); sys.path[:0] = [sys.argv.pop(1), sys.argv.pop(1)]; "
    "from runspec_local.supervisor.reaper import main; main()"
)


class _Supervisor(NamedTuple):
    """The pipes of a supervisor that is being started: for the secrets, and for its answer."""

    stdin: IO[bytes]
    stdout: IO[bytes]


class _NotReached(RemoteError):
    """The error that a program did not answer; the outcome of a call that may have changed something is unknown."""


class LocalClient:
    """Carries out the requests of a local plan. *root* is the folder of the store and the runs."""

    def __init__(self, root: str, timing: Timing = DEFAULT, clock: Clock = CLOCK) -> None:
        self.root, self.timing, self.clock = Path(root), timing, clock
        self._tell: Callable[[str], None] = lambda line: None

    @property
    def poll_s(self) -> float:
        return self.timing.poll_s

    def listen(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def call(self, request: Request) -> Response:
        try:
            with self._in_words():
                return self._call(request.operation, request.params)
        except _NotReached as exc:
            raise NoAnswer(exc.message) from exc

    def _call(self, operation: str, params: Mapping[str, Any]) -> Response:
        match operation:
            case "build_environment":
                return self._build_environment(params)
            case "pull_image":
                return self._pull(params)
            case "build_image":
                return self._build_image(params)
            case "build_context":
                infrastructure.build_context(
                    params["engine"],
                    params["image"],
                    Path(params["context"]),
                    params["file"],
                    self._tell,
                )
                return {"image": params["image"]}
            case "start":
                return self._start(params)
            case "remove_folder" | "remove_environment":
                remove(Path(params["path"]))
            case "remove_image":
                container_engine.engine(params["engine"], "rmi", "--force", params["image"])
            case "remove_run":
                self._remove_run(params["run"], Path(params["folder"]))
            case other:
                raise RemoteError(f"there is no local operation '{other}'")
        return {}

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        with self._in_words():
            self._make_root()
            put(bundle, Path(request.params["path"]), progress)
        return {"path": request.params["path"]}

    def find(self, step: Step) -> Response | None:
        with self._in_words():
            return self._find(step.do.operation, step.do.params)

    def _find(self, operation: str, params: Mapping[str, Any]) -> Response | None:
        match operation:
            case "put_folder":
                return {"path": params["path"]} if is_whole(Path(params["path"])) else None
            case "build_environment":
                path = Path(params["path"])
                return {"environment": params["path"]} if infrastructure.complete(path) else None
            case "pull_image" | "build_context":
                there = container_engine.has_image(params["engine"], params["image"])
                return {"image": params["image"]} if there else None
            case "build_image":
                there = container_engine.has_image(params["engine"], params["image"])
                return {"environment": params["image"]} if there else None
            case "start":
                started = Path(params["folder"], "started.json").exists()
                return {"run": params["run"]} if started else None
        return None

    def settled(self, step: Step) -> bool:
        return True

    def state(self, run: str) -> Status:
        return status.status(self._folder(run))

    def cancel(self, run: str) -> None:
        with self._in_words():
            self._cancel(run)

    def _cancel(self, run: str) -> None:
        folder = self._folder(run)
        if folder.exists():
            # Cancelled before: the supervisor reads the file once.
            with contextlib.suppress(FileExistsError):
                (folder / "cancel").touch(mode=0o600)
        who = status.supervisor(folder)
        if who is None or not process.alive(who):
            self._end(run)
        elif folder.exists():
            self._signal(folder, signal.SIGTERM)
        else:  # somebody has removed the folder, so that nothing would show how the run ends
            self._await_supervisor(None, folder)
            self._end(run)

    def stop(self, run: str, tasks: Collection[int]) -> None:
        """Write the request to the disk and wake the supervisor, which also reads it before it starts a task."""
        folder = self._folder(run)
        with self._in_words():
            if folder.exists():
                (folder / "stop").mkdir(mode=0o700, exist_ok=True)
                for task in tasks:
                    (folder / "stop" / str(task)).touch(mode=0o600)
                self._signal(folder, signal.SIGHUP)

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], submits: Submits
    ) -> Released:
        """Change the records on the disk, which the agents read, and wake the supervisor, which starts nodes."""
        folder = self._folder(run)
        with self._in_words():
            leaving = status.present(folder) & status.released(folder)
            status.note_released(folder, away, {*back} - leaving)
            if away or back:
                self._signal(folder, signal.SIGHUP)
            leaving = status.present(folder) & {*away, *leaving}
            waiting = status.away(folder) & ({*back} - {*away})  # for the supervisor to start them
            return Released(status.released(folder), leaving | waiting)

    def streams(self, run: str) -> Sequence[Stream]:
        return status.streams(self._folder(run))

    def read_timed(self, stream: Stream, position: str | None) -> TimedChunk:
        assert isinstance(stream, status.FileStream), "BUG: it is not a stream of this client"
        return stream.timed(position)

    def places(self, run: str) -> Places:
        return Places(str(self._folder(run) / "logs"), str(self._folder(run) / "outputs"))

    def outputs(self, run: str) -> Sequence[OutputFile]:
        return status.outputs(self._folder(run))

    def usage(self, run: str, most: int | None) -> Usage:
        return status.usage(self._folder(run), most)

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterator[Orphan]:
        with self._in_words():
            yield from orphans.find(self.root, runs)

    def publish(self, run: str) -> Sequence[str]:
        with self._in_words():
            return publish.publish(self._folder(run))

    def changes(self, run: str) -> Sequence[MembershipChange]:
        return status.changes(self._folder(run))

    def shell(
        self, run: str, task: int, rank: int, words: Sequence[str], *, terminal: bool
    ) -> ExecSpec:
        with self._in_words():
            at = (task, rank)
            return shell.shell(self._folder(run), at, words, os.environ, terminal=terminal)

    def tunnel(self, run: str, task: int, rank: int, port: int) -> Route:
        with self._in_words():
            return shell.tunnel(self._folder(run), (task, rank), port)

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        """Translate errors of the file system or of an engine to the errors that a client may raise."""
        try:
            yield
        except TimeoutError as exc:
            raise _NotReached(errors.described(exc, self.root), transient=True) from exc
        except OSError as exc:
            raise RemoteError(errors.described(exc, self.root), errors.way_out(exc)) from exc

    def _make_root(self) -> None:
        """Make the root folder, which only its owner can access, as jobs and outputs are private."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _folder(self, run: str) -> Path:
        return self.root / "runs" / run

    def _build_environment(self, params: Mapping[str, Any]) -> Response:
        self._make_root()
        infrastructure.build_environment(
            Path(params["path"]),
            params["requirements"],
            params["build_constraints"],
            params["interpreter"],
            self._tell,
        )
        return {"environment": params["path"]}

    def _pull(self, params: Mapping[str, Any]) -> Response:
        name, image = params["engine"], params["image"]
        self._make_root()
        with infrastructure.login_options(self.root, name, params.get("login")) as arguments:
            done = container_engine.engine(
                name,
                *arguments.before,
                "pull",
                *arguments.after,
                image,
                timeout_s=self.timing.pull_s,
            )
        if done.returncode:
            message = f"cannot get the image {image}: {container_engine.last_line(done.stderr)}"
            hint = "check its name, and that you are logged in to its registry"
            if "login" in params:
                hint = f"check its name, and registry_user and registry_password of {params['login']['registry']}"
            raise RemoteError(message, hint)
        return {"image": image}

    def _build_image(self, params: Mapping[str, Any]) -> Response:
        self._make_root()
        infrastructure.build_image(
            params["engine"],
            params["image"],
            params["base"],
            params["requirements"],
            params["build_constraints"],
            self.root / "images",
            self._tell,
        )
        return {"environment": params["image"]}

    def _start(self, params: Mapping[str, Any]) -> Response:
        """Start the run's supervisor and wait until it has claimed the run."""
        folder = Path(params["folder"])
        devices = self._devices(params) if params.get("gpus") else {}
        self._make_root()
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
        with self._start_supervisor(folder) as supervisor:
            self._write_files(folder, params, devices)
            supervisor.stdin.write(json.dumps(dict(params["secrets"])).encode())
            supervisor.stdin.close()
            self._await_ready(supervisor.stdout.fileno(), folder)
        return {"run": params["run"]}

    def _write_files(
        self, folder: Path, params: Mapping[str, Any], devices: Mapping[str, Any]
    ) -> None:
        """Write what the supervisor reads, and end what earlier runs of the spec have left."""
        # A container may run as any user; the run's folder above keeps other users out.
        mode = 0o600 if params["engine"] == "process" else 0o644
        for name, content in (
            ("inside.sh", read_inside_sh()),
            ("runspec_inside.pyz", pack_agent()),
        ):
            _write(folder / name, content, mode)
        for old in self._killed(params["run"]):
            reaper.settle(old)
            reaper.end(old)
        job = {"format": process.FORMAT, **params, **devices, "secrets": list(params["secrets"])}
        if "namespace" in job:
            unseen = kernel_support.unseen(
                job["namespace"], gpus=bool(job.get("gpus")), entering=True
            )
            job["namespace"] = [top for top in job["namespace"] if top not in unseen]
            for top, why in unseen.items():
                self._tell(f"processes do not find {top}, because {why}")
        if "elastic" in job:
            durable.write(folder / "record.json", json.dumps(elastic.record(job)).encode())
        durable.write(folder / "job.json", json.dumps(job).encode())

    def _devices(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the GPUs that the run may use. Raise RemoteError if there are too few for one task."""
        devices, need = gpus.find(os.environ), params["gpus"] * params["nodes"]
        if len(devices.gpus) >= need:
            folder = state_folder() / "local"
            return {"devices": device_leases.record(folder, devices.gpus)}
        if params.get("without_gpus"):
            return {}
        message = (
            f"the job needs {need} GPUs, and this machine has {len(devices.gpus)} ({devices.how})"
        )
        raise RemoteError(
            message, "set providers: {local: {without_gpus: true}} to run without GPUs"
        )

    def _killed(self, run: str) -> Iterator[Path]:
        """Yield the folders of earlier runs of this spec whose supervisors were killed."""
        for folder in (self.root / "runs").glob(f"{run.rpartition('-')[0]}-*"):
            try:
                who = status.supervisor(folder)
            except RunspecError:
                continue  # the state of that run is unknown, which must not prevent a new run
            if who is None or folder.name == run or process.alive(who):
                continue
            if events.last(events.read(folder / "events.jsonl"), "end") is None:
                yield folder

    @contextlib.contextmanager
    def _start_supervisor(self, folder: Path) -> Iterator[_Supervisor]:
        """Start a supervisor: it imports its modules while the files of the run are written, and waits for secrets.

        It ends without an effect if its standard input is closed before they come.
        """
        line = [sys.executable, "-I", "-S", "-c", BOOTSTRAP, *SOURCES, str(folder)]
        with durable.private_log(folder / "supervisor.log") as log:
            supervisor = subprocess.Popen(
                line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        supervisor.returncode = 0  # it runs on after this process, which must not wait for it
        assert supervisor.stdin and supervisor.stdout, "BUG: both are pipes"
        with supervisor.stdin as pipe, supervisor.stdout as answer:
            yield _Supervisor(pipe, answer)

    def _await_ready(self, answer: int, folder: Path) -> None:
        """Wait until the supervisor reports that it has claimed the run, or ends."""
        ready, _, _ = select.select([answer], [], [], self.timing.ready_s)
        if not ready:
            raise NoAnswer(f"the supervisor did not answer in {self.timing.ready_s:.0f} s")
        if not os.read(answer, 16):
            why = container_engine.last_line(
                (folder / "supervisor.log").read_text(errors="replace")
            )
            raise RemoteError(f"the supervisor did not start: {why}", f"see {folder}")

    def _remove_run(self, run: str, folder: Path) -> None:
        """End *run* and remove its folder, under a lock so that no supervisor can start it."""
        with contextlib.ExitStack() as stack:
            if folder.exists():
                stack.enter_context(self._unsupervised(folder))
            self._end(run)
            remove(folder)

    @contextlib.contextmanager
    def _unsupervised(self, folder: Path) -> Iterator[None]:
        """Hold the lock that a supervisor holds while it lives; a running supervisor is told to end first."""
        with contextlib.suppress(OSError):  # on a full disk, the lock alone is enough
            (folder / "cancel").touch(mode=0o600)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            lock = os.open(folder / "supervisor.lock", flags, 0o600)
        except (IsADirectoryError, PermissionError):  # the record is damaged
            self._await_supervisor(None, folder)
            yield
            return
        try:
            self._await_supervisor(lock, folder)
            yield
        finally:
            os.close(lock)

    def _await_supervisor(self, lock: int | None, folder: Path) -> None:
        """Tell the supervisor to end, and wait until it has; its *lock* is held then."""
        job, leave_s = status.job_if_whole(folder), self.timing.leave_s
        until = self.clock.monotonic() + job.get("grace_s", limits.UNKNOWN_GRACE_S) + leave_s
        self._signal(folder, signal.SIGTERM)
        while self._is_supervised(folder) or not (lock is None or process.locked(lock)):
            over_s = self.clock.monotonic() - until
            if over_s > leave_s:
                raise TimeoutError(
                    errno.ETIMEDOUT, "the supervisor of the run does not end", str(folder)
                )
            if over_s > 0:
                self._signal(folder, signal.SIGKILL)
            self.clock.sleep(self.poll_s)

    def _is_supervised(self, folder: Path) -> bool:
        who = status.supervisor(folder)
        return who is not None and process.alive(who)

    def _signal(self, folder: Path, number: int) -> None:
        """Signal the supervisor of the run in *folder*, if there is one."""
        who = status.supervisor(folder)
        if who is not None and process.alive(who):
            with contextlib.suppress(ProcessLookupError):  # it has ended since the check above
                os.kill(who["pid"], number)

    def _end(self, run: str) -> None:
        """End all processes and containers of *run*, whether its supervisor is alive or not."""
        folder = self._folder(run)
        job = status.job_if_whole(folder)
        reaper.settle(folder)
        process.end_all(run, job.get("grace_s", limits.UNKNOWN_GRACE_S))
        for engine in _engines(job) if folder.exists() else ():
            for container in container_engine.containers_of(engine, run):
                container_engine.remove_container(engine, container)  # the newest first


def _engines(job: Mapping[str, Any]) -> Sequence[str]:
    """Return the container engines that a run may use: all that are installed, if its parameters are damaged."""
    if job:
        return () if job["engine"] == "process" else (job["engine"],)
    return [name for name in ("podman", "docker") if shutil.which(name)]


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write *content* to *path* with *mode*, independent of the umask."""
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb"
    ) as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
