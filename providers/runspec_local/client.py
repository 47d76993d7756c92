"""The hands of the local provider: folders, environments, images, and the supervisor of each run."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import runspec_local
from runspec.provider import (
    Answer,
    Bundle,
    NoAnswer,
    OutputFile,
    Progress,
    RemoteError,
    Request,
    Status,
    Step,
    Stream,
    inside_sh,
    inside_zipapp,
)
from runspec_local import engine, environment, image, process, reading
from runspec_local.folders import is_whole, put, remove

READY_S = 30.0
BOOTSTRAP = "import sys; sys.path.insert(0, sys.argv.pop(1)); from runspec_local.supervisor import main; main()"


class LocalClient:
    """Carries out the requests of a local plan. *root* is where the store and the runs lie."""

    poll_s = 0.05

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        self._tell: Callable[[str], None] = lambda line: None

    def listen(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def call(self, request: Request) -> Answer:
        params = request.params
        try:
            match request.operation:
                case "build_environment":
                    return self._build_environment(params)
                case "pull_image":
                    return self._pull(params)
                case "build_image":
                    return self._build_image(params)
                case "start":
                    return self._start(params)
                case "remove_folder" | "remove_environment":
                    remove(Path(params["path"]))
                case "remove_image":
                    engine.engine(params["engine"], "rmi", "--force", params["image"])
                case "remove_run":
                    self._end(params["run"])
                    remove(Path(params["folder"]))
                case other:
                    raise RemoteError(f"there is no local operation '{other}'")
        except OSError as exc:
            raise RemoteError(f"{exc.filename}: {(exc.strerror or str(exc)).lower()}") from exc
        return {}

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Answer:
        try:
            put(bundle, Path(request.params["path"]), progress)
        except OSError as exc:
            raise RemoteError(f"{exc.filename}: {(exc.strerror or str(exc)).lower()}") from exc
        return {"path": request.params["path"]}

    def find(self, step: Step) -> Answer | None:
        params = step.do.params
        match step.do.operation:
            case "put_folder":
                return {"path": params["path"]} if is_whole(Path(params["path"])) else None
            case "build_environment":
                path = Path(params["path"])
                return {"environment": params["path"]} if environment.complete(path) else None
            case "pull_image":
                there = engine.has_image(params["engine"], params["image"])
                return {"image": params["image"]} if there else None
            case "build_image":
                there = engine.has_image(params["engine"], params["image"])
                return {"environment": params["image"]} if there else None
            case "start":
                started = Path(params["folder"], "started.json").exists()
                return {"run": params["run"]} if started else None
        return None

    def settled(self, step: Step) -> bool:
        return True

    def state(self, run: str) -> Status:
        return reading.status(self._folder(run))

    def cancel(self, run: str) -> None:
        folder = self._folder(run)
        if not folder.exists():
            return
        (folder / "cancel").touch(mode=0o600)
        who = reading.supervisor(folder)
        if who is not None and process.alive(who):
            try:
                os.kill(who["pid"], signal.SIGTERM)
            except ProcessLookupError:
                return
        else:
            self._end(run)

    def streams(self, run: str) -> Sequence[Stream]:
        return reading.streams(self._folder(run))

    def outputs(self, run: str) -> Sequence[OutputFile]:
        return reading.outputs(self._folder(run))

    def _folder(self, run: str) -> Path:
        return self.root / "runs" / run

    def _build_environment(self, params: Mapping[str, Any]) -> Answer:
        environment.build(
            Path(params["path"]),
            params["requirements"],
            params["build_constraints"],
            params["interpreter"],
            self._tell,
        )
        return {"environment": params["path"]}

    def _pull(self, params: Mapping[str, Any]) -> Answer:
        done = engine.engine(params["engine"], "pull", params["image"], timeout_s=3600)
        if done.returncode:
            what = f"cannot get the image {params['image']}: {engine.last_line(done.stderr)}"
            raise RemoteError(what, "is its name right, and are you logged in to its registry?")
        return {"image": params["image"]}

    def _build_image(self, params: Mapping[str, Any]) -> Answer:
        image.build(
            params["engine"],
            params["image"],
            params["base"],
            params["requirements"],
            params["build_constraints"],
            self.root / "images",
            self._tell,
        )
        return {"environment": params["image"]}

    def _start(self, params: Mapping[str, Any]) -> Answer:
        """Start the run's supervisor and wait until it has claimed the run."""
        folder = Path(params["folder"])
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
        (folder / "inside.sh").write_bytes(inside_sh())
        (folder / "runspec_inside.pyz").write_bytes(inside_zipapp())
        job = {**params, "secrets": list(params["secrets"])}
        _write_private(folder / "job.json", json.dumps(job).encode())
        self._supervise(folder, json.dumps(dict(params["secrets"])).encode())
        return {"run": params["run"]}

    def _supervise(self, folder: Path, secrets: bytes) -> None:
        home = str(Path(runspec_local.__file__).parent.parent)
        line = [sys.executable, "-I", "-S", "-c", BOOTSTRAP, home, str(folder)]
        with (folder / "supervisor.log").open("ab") as log:
            supervisor = subprocess.Popen(
                line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        supervisor.returncode = 0  # it outlives us: not ours to wait for
        assert supervisor.stdin and supervisor.stdout, "BUG: both were asked for"
        with supervisor.stdin as pipe, supervisor.stdout as answer:
            pipe.write(secrets)
            pipe.close()
            self._await_ready(answer.fileno(), folder)

    def _await_ready(self, answer: int, folder: Path) -> None:
        """Wait until the supervisor has claimed the run; it says so, or ends."""
        ready, _, _ = select.select([answer], [], [], READY_S)
        if not ready:
            raise NoAnswer(f"the supervisor did not answer in {READY_S:.0f} s")
        if not os.read(answer, 16):
            why = engine.last_line((folder / "supervisor.log").read_text(errors="replace"))
            raise RemoteError(f"the supervisor did not start: {why}", f"see {folder}")

    def _end(self, run: str) -> None:
        """End all that is left of *run* whether its supervisor lives or not."""
        job = reading.job(self._folder(run))
        process.end_all(run, job.get("grace_s", 0))
        if job.get("engine", "process") != "process":
            for container in engine.containers_of(job["engine"], run):
                engine.remove_container(job["engine"], container)  # the newest first


def _write_private(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    os.rename(temporary, path)
