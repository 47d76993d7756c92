"""A job running: mounts, preparation, the processes of its toolkit, its end. One thread a run."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from runspec_emulators.batch_ai.api.requests import seconds
from runspec_emulators.batch_ai.jobs import containers, environment, mounts, toolkits
from runspec_emulators.batch_ai.jobs.processes import MARK, Process, Wanted, end_marked
from runspec_emulators.batch_ai.jobs.toolkits import Task
from runspec_emulators.batch_ai.model import Job, Node
from runspec_emulators.batch_ai.storage.volumes import CannotMount, Volume, expanded, mount
from runspec_emulators.batch_ai.world import World
from runspec_emulators.frame.folders import list_below

WEEK = "7.00:00:00"  # constraints.maxWallClockTime: "Default value: 1 week"


class JobError(Exception):
    """The job fails with an error of its own."""

    def __init__(self, code: str, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.exit_code = exit_code


class ProcessContext(NamedTuple):
    """The node, variables and temporary folder of a job's process."""

    node: Node
    env: dict[str, str]
    temp: Path


class Run:
    """One run of a job on its nodes."""

    def __init__(
        self, world: World, job: Job, nodes: Sequence[Node], released: Callable[[], None]
    ) -> None:
        """Call *released* with the lock held when the run no longer needs its nodes."""
        self.world, self.job, self.nodes = world, job, list(nodes)
        self._released = released
        self.mark = f"{job.guid}-{job.runs}"
        self.stopped: str | None = None
        """Why it was stopped from outside: `requeue`, or the code of an error."""
        self._lock = threading.Lock()
        self._processes: list[Process] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def stop(self, why: str, grace_s: float) -> None:
        """Have every process end: by SIGTERM and, after *grace_s*, SIGKILL. Returns at once."""
        with self._lock:
            self.stopped = self.stopped or why
        if not grace_s:
            self._signal(signal.SIGKILL)
            return
        self._signal(signal.SIGTERM)
        timer = threading.Timer(grace_s, self._signal, [signal.SIGKILL])
        timer.daemon = True
        timer.start()

    def _signal(self, number: int) -> None:
        with self._lock:
            processes = list(self._processes)
        for process in processes:
            process.signal(number)

    def _run(self) -> None:
        error: JobError | None = None
        code: int | None = None
        try:
            code = self._work()
        except JobError as exc:
            error, code = exc, exc.exit_code
        except CannotMount as exc:
            error = JobError("MountVolumeFailed", str(exc))
        end_marked(self.mark)
        with self.world.lock:
            self._end(code, error)

    def _end(self, code: int | None, error: JobError | None) -> None:
        """Record how the run ended, and release the nodes."""
        job = self.job
        job.run = None
        if self.stopped == "requeue":
            job.start_time, job.nodes = None, []
            job.move("queued")
        else:
            if self.stopped:
                job.errors = job.errors or [{"code": self.stopped, "message": "it was stopped"}]
            elif error is not None:
                job.errors = [{"code": error.code, "message": error.message}]
            job.exit_code = code
            job.end("succeeded" if code == 0 and not job.errors else "failed")
        self._released()

    def _work(self) -> int:
        """Run the job and give its exit code."""
        job, settings = self.job, self.world.settings
        mounted = self._mount()
        environment.furnish(settings, job, self.nodes)
        here = [
            ProcessContext(
                n, environment.variables(settings, job, n, self.nodes), environment.temp(n, job)
            )
            for n in self.nodes
        ]
        # All nodes mount the volume of the logs, so the first node makes the folder for all.
        logs = Path(here[0].env["AZ_BATCHAI_STDOUTERR_DIR"])
        logs.mkdir(parents=True, exist_ok=True)
        for name, value in here[0].env.items():
            if name.startswith("AZ_BATCHAI_OUTPUT_"):
                Path(value).mkdir(parents=True, exist_ok=True)
        limit_s = seconds(job.properties.get("constraints", {}).get("maxWallClockTime", WEEK))
        watch = threading.Timer(min(limit_s, threading.TIMEOUT_MAX), self._too_long, [limit_s])
        watch.daemon = True
        watch.start()
        try:
            self._prepare(here, logs)
            return self._toolkit(here, logs)
        finally:
            watch.cancel()
            self._unmount(mounted)

    def _too_long(self, limit_s: float) -> None:
        with self.world.lock:
            # A job that was stopped for another reason keeps that reason.
            if not self.job.errors:
                message = f"The job ran for more than its maxWallClockTime, {limit_s:g} s."
                self.job.errors = [{"code": "JobTimedOut", "message": message}]
        self.stop("JobTimedOut", self.world.settings.terminate_grace_s)

    def _mount(self) -> list[Volume]:
        """Mount the job's volumes on every node, and make its folders."""
        asked = self.job.properties.get("mountVolumes", {})
        with self.world.lock:
            volumes = mounts.volumes(self.world, asked)
            cluster = self.job.cluster
            shared = cluster.properties.get("nodeSetup", {}) if cluster else {}
            more = mounts.volumes(self.world, shared.get("mountVolumes", {}))
        self.world.mirror.pull(self.world.settings, [*volumes, *more])
        for node in self.nodes:
            folder = environment.temp(node, self.job)
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "mounts").mkdir(parents=True)
            for volume in volumes:
                mount(volume, folder / "mounts")
        return [*volumes, *more]

    def _unmount(self, volumes: Sequence[Volume]) -> None:
        """Job mounts are gone after the job; what was written to containers is there then."""
        self.world.mirror.push(self.world.settings, volumes)
        for node in self.nodes:
            mounts = environment.temp(node, self.job) / "mounts"
            for link in list_below(mounts):
                if link.is_symlink():
                    link.unlink()

    def _prepare(self, here: Sequence[ProcessContext], logs: Path) -> None:
        """Run the "command line to be executed on each node [...] before tool kit is launched".

        The names of its logs are those of the official example ListOutputFiles.
        """
        asked = self.job.properties.get("jobPreparation")
        if asked is None:
            return
        several = len(here) > 1
        started = []
        for context in here:
            suffix = f"-job_prep-{context.node.id}" if several else "-job_prep"
            task = Task(0, asked["commandLine"], suffix)
            started.append(self._started(task, context, logs))
        codes = [process.wait() for process in started]
        failed = next((code for code in codes if code), 0)
        if failed:
            message = f"The job preparation failed with exit code {failed}."
            raise JobError("JobPreparationFailed", message, failed)

    def _started(self, task: Task, context: ProcessContext, logs: Path) -> Process:
        more = {name: expanded(value, context.env) for name, value in task.env.items()}
        env = {**context.env, **more, MARK: self.mark}
        prefix = containers.prefix(self.world.settings, self.job.properties, env)
        env = (
            containers.around(env) if prefix and prefix[0] == self.world.settings.podman[0] else env
        )
        out, err = logs / f"stdout{task.suffix}.txt", logs / f"stderr{task.suffix}.txt"
        with self._lock:
            # Under the lock: a stop that came between two processes of a toolkit would miss the second one.
            if self.stopped:
                raise JobError(self.stopped, "the job was stopped before it started")
            process = Process(Wanted(task.command, env, context.temp, out, err, prefix))
            self._processes.append(process)
        return process

    def _toolkit(self, here: Sequence[ProcessContext], logs: Path) -> int:
        """Run the processes of the toolkit; the first failure of a main one ends them all."""
        addresses = [context.node.address for context in here]
        asked = toolkits.tasks(self.job.properties, addresses, self.world.settings.mpirun)
        started = [(task, self._started(task, here[task.node], logs)) for task in asked]
        codes: dict[int, int] = {}
        changed = threading.Condition()

        def wait(number: int, process: Process) -> None:
            code = process.wait()
            with changed:
                codes[number] = code
                changed.notify()

        threads = [
            threading.Thread(target=wait, args=(i, process), daemon=True)
            for i, (_, process) in enumerate(started)
        ]
        for thread in threads:
            thread.start()
        main = {i for i, (task, _) in enumerate(started) if task.main}
        with changed:
            # mpirun and parameter servers end by being killed: only main processes decide when the job is over.
            while main - codes.keys() and not any(codes[i] for i in main & codes.keys()):
                changed.wait()
            first = next((codes[i] for i in codes if i in main and codes[i]), 0)
        self._signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
        return first
