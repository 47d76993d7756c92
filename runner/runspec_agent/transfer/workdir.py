"""Prepare what a program finds on its node: its inputs, its environment, and the folders for its outputs."""

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Sequence

import runspec_agent
from runspec_agent.base import files, program_hooks, requirements
from runspec_agent.base.job_env import TEAM_WORDS, USAGE, Failure
from runspec_agent.base.task_identity import TaskIdentity, variable
from runspec_agent.store.base import Bucket
from runspec_agent.transfer import inputs
from runspec_agent.transfer.folder_walk import Wanted
from runspec_agent.transfer.output_saver import Saver

if TYPE_CHECKING:
    from runspec_agent.transfer.resume import Resume

SHARED = "/mnt/runspec"  # where shared file systems are mounted
# Variables that are not part of the contract.
OURS = (
    "RUNSPEC_WORDS",
    "RUNSPEC_LOG",
    "RUNSPEC_SHARED",
    "RUNSPEC_DISK",
    "RUNSPEC_ENDS",
    "RUNSPEC_CLAIM",
    "RUNSPEC_ATTEMPTS_BEFORE",
    "RUNSPEC_ENVIRONMENT",
    "RUNSPEC_SCRATCH",
    "RUNSPEC_END_FILE",
    "RUNSPEC_PRINTABLE",
    *TEAM_WORDS,
)
SCRIPT = "inside.sh"
OWN_FOLDER = "@"  # value of RUNSPEC_BELOW: a temporary folder


class Workdir:
    """The folders of one node. *folder* is its own; *env* is the program's environment, which gets their paths."""

    def __init__(
        self, bucket: Bucket, record: Mapping[str, Any], env: Dict[str, str], folder: str
    ) -> None:
        self.bucket, self.record, self.env, self.folder = bucket, record, env, folder
        self.cwd: Optional[str] = None  # if the folder exists already
        self.resume = _resume(bucket, record, env, folder)
        if env.get("RUNSPEC_BELOW") == OWN_FOLDER:
            self.cwd = env["RUNSPEC_BELOW"] = os.path.join(self.folder, "root")
            os.mkdir(self.cwd, 0o700)

    def mounted(self, task: int) -> None:
        """Download the inputs of the program of *task*, and build its environment.

        Raise Failure if a run that the job needs has not succeeded.
        """
        if self.record.get("needs"):
            from runspec_agent.transfer import parent_runs  # few jobs need it

            parent_runs.demand_success(self.bucket, self.record["needs"], task)
        for mount in self.record["mounts"]:
            path = self.below(mount["target"])
            with _permitted("mount", mount["name"], path):
                self._mount(dict(mount, task=task) if mount.get("same") else mount, path)
            self.env[variable("MOUNT", mount["name"])] = path
        if self.record["requirements"]:
            environment = self.env.get("RUNSPEC_ENVIRONMENT")
            if environment:
                from runspec_agent.base import shared_environment  # only few jobs need this import

                shared_environment.ensure(self.record, environment, self.env)
            else:
                requirements.build(self.record, self.folder, self.env)

    def _mount(self, mount: Mapping[str, Any], path: str) -> None:
        if mount["kind"] == "folder":
            shared = self.env.get("RUNSPEC_SHARED") or self.below(SHARED)
            source = os.path.join(shared, files.local(mount["path"]))
            inputs.link(source, path, mount.get("exists", False))
        elif mount["kind"] == "foreign":
            from runspec_agent.transfer import other_stores  # only few jobs need this import

            other_stores.get(mount, inputs.roomy(path, self.env), self.env, self.bucket)
        else:
            if mount.get("file"):
                folder, name = os.path.split(path)
                path = os.path.join(inputs.roomy(folder, self.env), name)
            else:
                path = inputs.roomy(path, self.env)
            inputs.get(self.bucket, mount, path)

    def below(self, path: str) -> str:
        """Return where *path* is in this job: for local processes, it lies below the node's folder."""
        base = self.env.get("RUNSPEC_BELOW")
        if base is not None:
            path = os.path.join(os.path.abspath(base), path.lstrip("/"))
        return files.local(path)

    def outputs(self, identity: TaskIdentity, below: str) -> Saver:
        """Restore what an earlier attempt has saved, or else the run that this one resumes.

        The final files are published *below*.
        """
        saver = Saver(self.bucket)
        for output in self.record["outputs"]:
            path = self.below(output["path"])
            with _permitted("output", output["name"], path):
                os.makedirs(inputs.roomy(path, self.env), exist_ok=True)
            self.env[variable("OUTPUT", output["name"])] = path
            if output.get("from") == "first" and identity.rank > 0:
                continue
            prefix = own(below, output["name"], identity)
            keep = output.get("keep", 1)
            saver.add(
                output["name"],
                path,
                prefix,
                output["sync_s"],
                keep,
                alone=identity.attempt == 1,
                names=[output["path"]],
            )
            saver.outputs[-1].snapshot.wanted = Wanted.of(output)
            if "target" in output:
                from runspec_agent.transfer.output_target import Target, folder_of

                url = output["target"].rstrip("/") + folder_of(self.record, output, identity)
                saver.outputs[-1].target = Target(url, self.env, self.bucket)
            self.begin(saver, output["name"], path, identity)
        return saver

    def begin(self, saver: Saver, name: str, path: str, identity: TaskIdentity) -> None:
        """Restore an output from the run that this one resumes, unless *saver* has restored a save of its own."""
        if self.resume is not None and not saver.outputs[-1].manifest.saves:
            self.resume.begin(name, path, identity.task, identity.rank)

    def unpack_script(self, argv: Sequence[str]) -> str:
        """Unpack inside.sh, which starts *argv*, from the zipapp, and return its path."""
        for name in OURS:
            self.env.pop(name, None)
        path = os.path.join(self.folder, SCRIPT)
        files.write(path, _read_script(self.env["RUNSPEC_INSIDE"]))
        self.env["RUNSPEC_SCRIPTS"] = self.folder  # where a script with #! is written
        if program_hooks.split(argv)[0]:  # on the user's own machine, the supervisor has set it
            self.env.setdefault(program_hooks.ENDED, os.path.join(self.folder, program_hooks.FILE))
        return path


def _resume(
    bucket: Bucket, record: Mapping[str, Any], env: Dict[str, str], folder: str
) -> "Optional[Resume]":
    if not record.get("resume"):
        return None
    from runspec_agent.transfer.resume import Resume  # only few jobs need this import

    return Resume(bucket, record["resume"], env, folder)


@contextlib.contextmanager
def _permitted(kind: str, name: str, path: str) -> Iterator[None]:
    """Raise Failure, with a way out, if the user of this process may not make *path*."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        text = (
            "{} '{}': {} cannot be made by user {} ({}): an image whose USER is not root needs a path"
            " in which that user may write, such as /tmp/{}"
        )
        why = error.strerror or error
        raise Failure(text.format(kind, name, path, os.getuid(), why, name), USAGE) from error


def _read_script(zipapp: str) -> bytes:
    """Return inside.sh from the cache of the compiled modules, or else from the zipapp."""
    kept: Optional[bytes] = getattr(runspec_agent.__loader__, "codes", {}).get(SCRIPT)
    if kept is not None:
        return kept
    import zipimport

    return zipimport.zipimporter(zipapp).get_data("runspec_agent/" + SCRIPT)


def own(below: str, output: str, identity: TaskIdentity) -> str:
    """Return where the files that the node at *identity* writes to *output* are saved."""
    return "{}{}/{}/{}/".format(below, output, identity.task, identity.rank)
