"""What a program finds where it runs: what it reads, what was built for it, and the folders that it writes to."""

import os
import zipimport
from typing import Any, Dict, Mapping, Optional

from runspec_agent.base import files, requirements
from runspec_agent.base.job_env import TEAM_WORDS
from runspec_agent.base.task_identity import TaskIdentity, variable
from runspec_agent.store.base import Bucket
from runspec_agent.transfer import inputs
from runspec_agent.transfer.output_saver import Saver

SHARED = "/mnt/runspec"  # where shared file systems are mounted
# What is no part of the contract.
OURS = (
    "RUNSPEC_WORDS",
    "RUNSPEC_LOG",
    "RUNSPEC_SHARED",
    "RUNSPEC_DISK",
    "RUNSPEC_ENDS",
    "RUNSPEC_SCRATCH",
    *TEAM_WORDS,
)
INSIDE = "inside.sh"
OWN_FOLDER = "@"  # as RUNSPEC_BELOW: a fresh folder, which is gone afterwards


class Workdir:
    """*folder* is this node's own; *env* is what the program gets, and comes to tell where all is."""

    def __init__(
        self, bucket: Bucket, record: Mapping[str, Any], env: Dict[str, str], folder: str
    ) -> None:
        self.bucket, self.record, self.env, self.folder = bucket, record, env, folder
        self.cwd: Optional[str] = None  # where it is already
        if env.get("RUNSPEC_BELOW") == OWN_FOLDER:
            self.cwd = env["RUNSPEC_BELOW"] = os.path.join(self.folder, "root")
            os.mkdir(self.cwd, 0o700)

    def mounted(self) -> None:
        """Bring what the program reads, and build what it needs."""
        for mount in self.record["mounts"]:
            path = self.below(mount["target"])
            if mount["kind"] == "folder":
                shared = self.env.get("RUNSPEC_SHARED") or self.below(SHARED)
                inputs.link(os.path.join(shared, files.local(mount["path"])), path)
            else:
                inputs.get(self.bucket, mount, inputs.roomy(path, self.env))
            self.env[variable("MOUNT", mount["name"])] = path
        if self.record["requirements"]:
            requirements.build(self.record, self.folder, self.env)

    def below(self, path: str) -> str:
        """Return *path* where it is in this job: in a process there is no root of our own."""
        base = self.env.get("RUNSPEC_BELOW")
        if base is not None:
            path = os.path.join(os.path.abspath(base), path.lstrip("/"))
        return files.local(path)

    def outputs(self, place: TaskIdentity, below: str) -> Saver:
        """Bring back what an earlier try has saved; what is there at the end goes *below*."""
        saver = Saver(self.bucket)
        for output in self.record["outputs"]:
            path = inputs.roomy(self.below(output["path"]), self.env)
            os.makedirs(path, exist_ok=True)
            self.env[variable("OUTPUT", output["name"])] = path
            if output.get("from") == "first" and place.rank > 0:
                continue
            prefix = own(below, output["name"], place)
            keep = output.get("keep", 1)
            saver.add(output["name"], path, prefix, output["sync_s"], keep, place.attempt == 1)
        return saver

    def unpacked(self) -> str:
        """Return the path of inside.sh, out of the zipapp that this is."""
        for name in OURS:
            self.env.pop(name, None)
        path = os.path.join(self.folder, INSIDE)
        found = zipimport.zipimporter(self.env["RUNSPEC_INSIDE"])
        files.write(path, found.get_data("runspec_agent/" + INSIDE))
        return path


def own(below: str, output: str, place: TaskIdentity) -> str:
    """Return where what the node at *place* writes into *output* is kept."""
    return "{}{}/{}/{}/".format(below, output, place.task, place.rank)
