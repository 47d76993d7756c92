"""One node of one task: its folders, and its process or container.

Standard library only: the supervisor is started often and must be fast.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from runspec_agent.base import image_entrypoint, program_hooks
from runspec_agent.base.light_typing import Any, NamedTuple
from runspec_local import errors
from runspec_local.naming import UNMOUNTABLE
from runspec_local.session import gpus
from runspec_local.session.gpus import Gpu
from runspec_local.supervisor import bytecode, durable, elastic

AGENT_FOLDER = "/.runspec"  # where a container finds the agent
# What the shell of an image does first. An engine may end with the same exit code if the container cannot start.
# It empties the file, since a full disk has room for that.
BEGIN = f"{{ true >{AGENT_FOLDER}/begun; }} 2>/dev/null\n"
# What a container of a smoke test runs first: it may have no Python.
CHECK_GPUS = f"""
agent={AGENT_FOLDER}/runspec_inside.pyz
count=$1
shift
for python in python3 python; do
  command -v $python >/dev/null 2>&1 && exec $python -IS $agent gpus "$count" -- "$@"
done
echo "runspec: GPUs were not checked: the image has no python3" >&2
exec "$@"
"""
# Variables that a local job takes over from the environment of `apply`; never the whole environment.
INHERITED = (
    "PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ TMPDIR LD_LIBRARY_PATH "
    "CUDA_VISIBLE_DEVICES SSL_CERT_FILE SSL_CERT_DIR HTTP_PROXY HTTPS_PROXY NO_PROXY "
    "http_proxy https_proxy no_proxy"
).split()


class Node(NamedTuple):
    """Rank *rank* of task *task* in attempt *attempt* with its own *devices*; *job* has the parameters of `start`."""

    job: Mapping[str, Any]
    task: int
    rank: int
    attempt: int
    devices: Sequence[Gpu] = ()

    @property
    def folder(self) -> Path:
        """The node's own working directory; the same in every attempt."""
        return Path(self.job["folder"], "tasks", str(self.task), "nodes", str(self.rank))

    @property
    def meet(self) -> Path:
        """The rendezvous folder of the nodes of one attempt."""
        return Path(self.job["folder"], "tasks", str(self.task), "meet", str(self.attempt))

    @property
    def begun(self) -> Path:
        """The file that the shell of the node's container empties when it runs; a setup that fails writes to it."""
        name = f"{self.attempt}-{self.rank}"
        return Path(self.job["folder"], "tasks", str(self.task), "begun", name)

    @property
    def log(self) -> Path:
        return Path(self.job["folder"], "logs", f"{self.task}-{self.rank}.log")

    @property
    def contained(self) -> bool:
        return bool(self.job["engine"] != "process")

    @property
    def container(self) -> str:
        return f"{self.job['run']}-{self.task}-{self.rank}-{self.attempt}"

    @property
    def network(self) -> str:
        """The container that owns the network of all nodes of the task, even after a node has ended."""
        return f"{self.job['run']}-{self.task}-net-{self.attempt}"

    @property
    def kept(self) -> Sequence[Mapping[str, Any]]:
        """The outputs that the supervisor saves for this node.

        Nodes of elastic jobs save their own: `runspec_agent.elastic`.
        """
        if "elastic" in self.job:
            return ()
        of_first = self.rank == 0
        return [o for o in self.job["outputs"] if of_first or o.get("from") != "first"]

    def saved(self, output: Mapping[str, Any]) -> Path:
        """Where an output of this node is saved."""
        where = (output["name"], str(self.task), str(self.rank))
        return Path(self.job["folder"], "outputs", *where)

    def identity(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with which the job reads and writes stores of other owners, besides those of `apply`."""
        env = {**self.job["env"], **secrets}
        return {name: value for name, value in env.items() if name.startswith(("AWS_", "AZURE_"))}

    def target(self, output: Mapping[str, Any]) -> str:
        """Return the place in the store of another owner to which an output of this node is written, too, if any."""
        if "target" not in output:
            return ""
        task = f"/task-{self.task}" if self.job["tasks"] != [{}] else ""
        of_each = self.job["nodes"] > 1 and output.get("from") != "first"
        place: str = output["target"].rstrip("/")
        return place + task + (f"/node-{self.rank}" if of_each else "")

    def written(self, output: Mapping[str, Any]) -> Path:
        """The folder where the node writes an output, as a path of this machine."""
        return self.folder.joinpath(output["path"].lstrip("/"))

    def prepare(self, secrets: Mapping[str, str] | None = None) -> None:
        """Create the folders that the node uses; files of an earlier attempt stay."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.meet.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Write the host file as runspec_agent.rendezvous.hostfile does, for programs with `launch: none`
        path = self.meet / "hostfile"
        if not path.exists():  # the first node, or its launcher, may have written it
            lines = [f"{host(n)} slots={self.job['slots']}\n" for n in range(self.job["nodes"])]
            path.write_text("".join(lines))
            path.chmod(0o644)
        if self.contained or self._has_setup:
            self.begun.parent.mkdir(parents=True, exist_ok=True)
        if self.contained:
            self.begun.write_text("the shell of the image has not run\n")
            self.begun.chmod(0o666)  # whichever user the image has
        for output in self.job["outputs"]:
            self._resume(output)
            self.written(output).mkdir(parents=True, exist_ok=True)
            if self.contained:
                self.written(output).chmod(0o777)  # whichever user the image has
        for mount in self.job["mounts"]:
            if "foreign" in mount:
                self._bring_foreign(mount, {**os.environ, **self.identity(secrets or {})})
            else:
                self._mount(mount)
        if self.job["environment"] and not self.contained:
            bytecode.share(self.job["environment"], self.folder)

    def _mount(self, mount: Mapping[str, Any]) -> None:
        source, target = Path(mount["source"]), self.folder / mount["target"].lstrip("/")
        if not mount["read_only"] and not mount["copy"]:
            source.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        if "saves" in mount:
            if not target.exists():
                saves = mount["saves"]
                self._bring(
                    {**saves, "task": self.task} if saves.get("same") else saves, source, target
                )
        elif mount["copy"]:
            if not target.exists():
                _copy(source, target, mount["read_only"])
        elif not self.contained and not target.is_symlink():
            target.symlink_to(source)

    def _bring(self, saves: Mapping[str, Any], store: Path, target: Path) -> None:
        """Copy what another run has saved in *store* to *target*, which is there when it is complete."""
        fresh = target.with_name(f".new-{target.name}")
        if fresh.exists():
            _remove(fresh)
        record = json.dumps({**saves, "seen": self._seen(target)})
        self._ask_agent("output", str(store), record, str(fresh))
        os.rename(fresh, target)

    def _seen(self, path: Path) -> str:
        """Return the path by which the program knows *path*, which lies in the folder of this node."""
        return f"/{path.relative_to(self.folder)}" if self.contained else str(path)

    def _bring_foreign(self, mount: Mapping[str, Any], env: Mapping[str, str]) -> None:
        """Copy what a store of another owner has, with the credentials that *env* and this machine have."""
        target = self.folder / mount["target"].lstrip("/")
        if target.exists():
            return
        fresh = target.with_name(f".new-{target.name}")
        if fresh.is_dir():
            _remove(fresh)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._ask_agent("foreign", json.dumps(mount["foreign"]), str(fresh), env=env)
        os.rename(fresh, target)

    def _resume(self, output: Mapping[str, Any]) -> None:
        """Begin an output with a save of the run that this one resumes, before its first attempt.

        Nodes of elastic jobs do so themselves.
        """
        resume, part = self.job.get("resume"), f"{self.task}/{self.rank}"
        target = self.written(output)
        if resume is None or "elastic" in self.job or target.exists():
            return
        number = resume["saves"].get(output["name"], {}).get(part)
        if number is None:
            return
        source = {
            "run": resume["run"],
            "saves": {output["name"]: {part: number}},
            "seen": self._seen(target),
        }
        if "from" in resume:
            source["from"] = {part: resume["from"][part]}
        fresh = target.with_name(f".new-{target.name}")
        if fresh.exists():
            _remove(fresh)
        store = str(Path(self.job["folder"]).parent.parent)  # keys begin with runs/RUN/
        copied = self._ask_agent(
            "resume", store, json.dumps(source), output["name"], part, str(fresh)
        )
        with durable.private_log(self.log) as log:
            log.write(copied)
        os.rename(fresh, target)

    def _ask_agent(self, *arguments: str, env: Mapping[str, str] | None = None) -> bytes:
        """Return what the agent prints while it carries out a verb. Raise OSError with what it says if it fails."""
        line = [
            sys.executable,
            "-I",
            str(Path(self.job["folder"], "runspec_inside.pyz")),
            *arguments,
        ]
        ended = subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=env
        )
        if ended.returncode:
            said = ended.stderr.decode(errors="replace").strip().removeprefix("runspec: ")
            raise OSError(said or "it was killed")
        return ended.stderr

    def argv(self) -> list[str]:
        """Return the command that starts the node."""
        argv = list(self.job["argv"])
        if "elastic" in self.job:
            return elastic.argv(self._agent_path("runspec_inside.pyz"))
        if not self.contained:
            return [*self._first(), "/bin/sh", str(self._agent_path("inside.sh")), *argv]
        return self._container(argv)

    def _first(self) -> list[str]:
        """Return the tests of a smoke test. Containers of one task share a network, so they need none of that."""
        agent = [sys.executable, "-IS", str(self._agent_path("runspec_inside.pyz"))]
        line = [*agent, "reach", "--"] if "reach" in self.job else []
        return [*line, *agent, *self._checked_gpus, "--"] if self._checked_gpus else line

    @property
    def _checked_gpus(self) -> list[str]:
        """The words of the agent that check this node's GPUs, in a smoke test that has some."""
        count = self.job.get("check_gpus") if self.devices else None
        return ["gpus", str(count)] if count else []

    def environment(self, caller: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
        """Return the complete environment of the process that is started on this machine."""
        if self.contained:
            return {
                **caller,
                **secrets,
            }  # for the engine itself; the job's variables are on its command line
        kept = {name: caller[name] for name in INHERITED if name in caller}
        env: dict[str, str] = self.job["env"]
        seen = gpus.variables(self.devices, env) if self.devices else gpus.HIDDEN
        made = self.job["environment"]
        variables = bytecode.variables(made, self.folder)
        if made:
            path = f"{made}/bin:{os.environ.get('PATH', os.defpath)}"
            variables |= {"VIRTUAL_ENV": made, "PATH": path}
        return {**kept, **seen, **variables, **env, **secrets, **self.words()}

    def words(self) -> dict[str, str]:
        """Return the RUNSPEC_* variables that every job finds with every provider."""
        job, here = self.job, "" if self.contained else str(self.folder)
        meet = f"{AGENT_FOLDER}/meet" if self.contained else str(self.meet)
        words_by_name = {
            "RUNSPEC_RUN": job["run"],
            "RUNSPEC_TASK": str(self.task),
            "RUNSPEC_ATTEMPT": str(self.attempt),
            "RUNSPEC_RANK": str(self.rank),
            "RUNSPEC_NODES": str(job["nodes"]),
            "RUNSPEC_SLOTS": str(job["slots"]),
            "RUNSPEC_HOST": host(self.rank),
            "RUNSPEC_LEADER": host(0),
            "RUNSPEC_LAUNCH": job["launch"],
            "RUNSPEC_GRACE_S": str(max(1, job["grace_s"] - 2)),
            "RUNSPEC_MEET": meet,
            "RUNSPEC_HOSTFILE": f"{meet}/hostfile",
            "RUNSPEC_INSIDE": str(self._agent_path("runspec_inside.pyz")),
        }
        if not self.contained:
            words_by_name["RUNSPEC_SCRIPTS"] = str(self.folder)  # where a script with #! is written
        if self._has_setup:
            begun = f"{AGENT_FOLDER}/begun" if self.contained else str(self.begun)
            words_by_name[program_hooks.ENDED] = begun
        if "global_batch" in job:
            words_by_name["RUNSPEC_GLOBAL_BATCH"] = str(job["global_batch"])
        if "elastic" in job:
            for name in ("RANK", "LEADER", "MEET", "HOSTFILE"):
                del words_by_name[f"RUNSPEC_{name}"]  # each generation has its own
            words_by_name |= elastic.words(job, self.task, self.rank, self.folder)
        for mount in job["mounts"]:
            words_by_name[variable("MOUNT", mount["name"])] = here + mount["target"]
        for output in job["outputs"]:
            words_by_name[variable("OUTPUT", output["name"])] = here + output["path"]
        for name, value in job["tasks"][self.task].items():
            words_by_name[variable("SWEEP", name)] = value
        return words_by_name

    @property
    def _has_setup(self) -> bool:
        return bool(program_hooks.split(self.job.get("argv", ()))[0])

    def _agent_path(self, name: str) -> Path:
        return Path(AGENT_FOLDER if self.contained else self.job["folder"], name)

    def _container(self, words: list[str]) -> list[str]:
        """Return the engine's command line.

        The nodes of a task share one network, so that loopback is enough. Secrets are passed by name only: the engine
        takes their values from its environment.
        """
        job, limits = self.job, self.job["container"]
        line = self._run(self.container)
        if job["nodes"] > 1:
            line += ["--network", f"container:{self.network}"]
        for name, value in {**job["env"], **self.words()}.items():
            line += ["--env", f"{name}={value}"]
        if limits.get("entrypoint"):
            code = image_entrypoint.read(job["engine"], self._image)
            line += ["--env", f"{image_entrypoint.VARIABLE}={code}"]
        for name in job["secrets"]:
            line += ["--env", name]
        for source, target, read_only in self._binds():
            line += ["--mount", bind(source, target, read_only)]
        for flag, value in self._sizes(limits):
            line += [flag, value]
        argv = [f"{AGENT_FOLDER}/inside.sh", *words]
        if self._checked_gpus:
            argv = ["-c", BEGIN + CHECK_GPUS, *self._checked_gpus, "/bin/sh", *argv]
        else:
            argv = ["-c", BEGIN + '. "$0"', *argv]
        return [*line, self._image, *argv]

    def network_argv(self) -> list[str]:
        """Return the command of the container that owns the task's network and ends with the supervisor."""
        return [*self._run(self.network), "--interactive", self._image, "-c", "read _"]

    def _run(self, container: str) -> list[str]:
        line = [self.job["engine"], "run", "--rm", "--name", container]
        line += ["--label", f"runspec.run={self.job['run']}", "--entrypoint", "/bin/sh"]
        # No grace period when it is removed: podman would wait ten more seconds. podman-rm(1)
        line += ["--stop-timeout", "0"]
        return [*line, "--security-opt", "no-new-privileges"]

    @property
    def _image(self) -> str:
        image: str = self.job["environment"] or self.job["container"]["image"]
        assert not image.startswith("-"), "BUG: a spec's image is no option of the engine"
        return image

    def _binds(self) -> list[tuple[Path, str, bool]]:
        """Return the folders of this machine that a container mounts: source, target, whether it is read-only."""
        job, folder = self.job, Path(self.job["folder"])
        binds = [
            (folder / "inside.sh", f"{AGENT_FOLDER}/inside.sh", True),
            (folder / "runspec_inside.pyz", f"{AGENT_FOLDER}/runspec_inside.pyz", True),
            (self.meet, f"{AGENT_FOLDER}/meet", False),
            (self.begun, f"{AGENT_FOLDER}/begun", False),
        ]
        for mount in job["mounts"]:
            target = mount["target"]
            source = self.folder / target.lstrip("/") if mount["copy"] else Path(mount["source"])
            binds.append((source, target, mount["read_only"]))
        binds += [(self.written(output), output["path"], False) for output in job["outputs"]]
        return binds

    def _sizes(self, limits: Mapping[str, Any]) -> list[tuple[str, str]]:
        sizes = []
        if limits["cpus"] and limits["cpus"] <= (os.cpu_count() or 1):
            sizes.append(("--cpus", str(limits["cpus"])))
        if limits["memory_bytes"]:
            sizes.append(("--memory", str(limits["memory_bytes"])))
        if limits["shm_bytes"]:
            sizes.append(("--shm-size", str(limits["shm_bytes"])))
        for name, value in limits.get("ulimits", {}).items():
            sizes.append(("--ulimit", f"{name}={value}:{value}"))
        if self.devices:
            sizes += gpus.options(self.devices, self.job["engine"], gpus.cdi_names())
        return sizes


def host(rank: int) -> str:
    """Return the address of a node. All of 127/8 is loopback, so each node has its own there."""
    return f"127.0.{rank // 250}.{rank % 250 + 1}"


def bind(source: Path, target: str, read_only: bool) -> str:
    """Return the value of `--mount`; unlike that of `--volume`, it takes a path with ":".

    >>> bind(Path("/a:b"), "/c", True)
    'type=bind,source=/a:b,target=/c,readonly'
    """
    # The value is a line of CSV. podman supports quotes in it; docker does, but not in all versions.
    assert not set(f"{source}{target}") & set(UNMOUNTABLE), "BUG: check refuses such a path"
    return f"type=bind,source={source},target={target}{',readonly' if read_only else ''}"


def variable(kind: str, name: str) -> str:
    return f"RUNSPEC_{kind}_{name.upper().replace('-', '_')}"


def _remove(folder: Path) -> None:
    """Remove a folder that an attempt before this one has left incomplete."""
    import shutil  # slow to import

    shutil.rmtree(folder)


def _copy(source: Path, target: Path, read_only: bool) -> None:
    """Copy *source*, a folder or file, to *target* for one node: runs share it, and root can write in spite of modes.

    The copy gets its name when it is complete, so that the next attempt never uses an incomplete one.
    """
    fresh = target.with_name(f".new-{target.name}")
    if fresh.is_dir():
        _set_modes(fresh, False)
        _remove(fresh)
    import shutil  # slow to import, and few jobs copy folders

    if source.is_file():
        fresh.unlink(missing_ok=True)
        shutil.copy2(source, fresh)
        _set_mode(fresh, read_only)
        os.rename(fresh, target)
        return
    try:
        shutil.copytree(source, fresh)
    except shutil.Error as exc:  # the exception holds a list of errors, and the first one is enough
        raise errors.of_copy(exc.args[0][0][2], target) from exc
    _set_modes(fresh, read_only)
    os.rename(fresh, target)


def _set_modes(folder: Path, read_only: bool) -> None:
    for at, _, files in os.walk(folder):
        os.chmod(at, 0o555 if read_only else 0o700)
        for name in files:
            _set_mode(Path(at, name), read_only)


def _set_mode(file: Path, read_only: bool) -> None:
    mode = file.stat().st_mode
    file.chmod(mode & 0o555 if read_only else mode | 0o200)
