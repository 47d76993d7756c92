"""Begin outputs with what another run has saved: in a run that `apply --resume` or `apply --from` has started."""

import os
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from runspec_agent.base import files
from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store.base import Bucket
from runspec_agent.store.folder import FolderBucket
from runspec_agent.store.manifest import MANIFEST, Manifest, parsed
from runspec_agent.transfer import inputs
from runspec_agent.transfer.restore import restore

USAGE_LINE = "usage: resume STORE RECORD OUTPUT TASK/NODE TARGET"
GONE = (
    "output '{}': save {} of {} is gone, as that run was destroyed: "
    "runspec apply without --resume starts from the beginning"
)


class Start(NamedTuple):
    """The save of the run *run* from which *output* begins; its files lie at *prefix* of *bucket*."""

    bucket: Bucket
    prefix: str
    manifest: Manifest  # of that save alone
    output: str
    run: str

    def restore(self, path: str, seen: str = "") -> None:
        """Make the folder *path* contain the save. Raise Failure if a file is missing or differs.

        *seen* is as in `restore`.
        """
        restore(self.bucket, self.output, path, self.prefix, self.manifest, seen)
        text = "runspec: output '{}' begins with save {} of {}"
        number = self.manifest.saves[0].number
        print(text.format(self.output, number, self.run), file=sys.stderr)
        sys.stderr.flush()


class Resume:
    """What the outputs of a run begin with, as the field `resume` of its record says.

    *record* has the id of the other run as `run`, and the number of a save for each output and each `TASK/NODE` as
    `saves`; 0 stands for the only save. The saves are those of the other run in *bucket* or, if there is a field
    `from`, copies: the key of a tar for each `TASK/NODE`, or the path of a folder with its content. *folder* is for
    what is unpacked, and *env* the environment of the job.
    """

    def __init__(
        self, bucket: Bucket, record: Mapping[str, Any], env: Mapping[str, str], folder: str
    ) -> None:
        self.bucket, self.record, self.env, self.folder = bucket, record, env, folder
        self._unpacked: Dict[str, Bucket] = {}

    def find(self, output: str, task: int, node: int) -> Optional[Start]:
        """Return what *output* of that node begins with; None if it begins empty.

        Raise Failure if the save does not exist any more.
        """
        part = "{}/{}".format(task, node)
        number = self.record["saves"].get(output, {}).get(part)
        if number is None:
            return None
        bucket, prefix = self._place(output, part)
        manifest = parsed(bucket.get(prefix + MANIFEST), prefix + MANIFEST)
        saves = [save for save in manifest.saves if number in (0, save.number)]
        if not saves:
            raise Failure(GONE.format(output, number, self.record["run"]), USAGE)
        manifest = Manifest(tuple(saves[-1:]))
        return Start(bucket, prefix, manifest, output, self.record["run"])

    def begin(self, output: str, path: str, task: int, node: int, seen: str = "") -> None:
        """Make the folder *path* contain what *output* of that node begins with, if there is anything.

        *seen* is as in `restore`.
        """
        start = self.find(output, task, node)
        if start is not None:
            start.restore(path, seen)

    def _place(self, output: str, part: str) -> Tuple[Bucket, str]:
        """Return the bucket and the prefix at which the saves of *output* lie."""
        copies = self.record.get("from")
        if copies is None:
            prefix = "runs/{}/outputs/{}/{}/".format(self.record["run"], output, part)
            return self.bucket, prefix
        if part not in self._unpacked:
            self._unpacked[part] = FolderBucket({"RUNSPEC_STORE": self._folder(copies[part], part)})
        return self._unpacked[part], output + "/"

    def _folder(self, copy: str, part: str) -> str:
        if copy.startswith("/"):
            return "file://" + copy
        from runspec_agent.transfer import untar  # imports the modules for tar files

        name = "resume-" + part.replace("/", "-")
        path = inputs.roomy(os.path.join(self.folder, name), self.env)
        untar.unpack(self.bucket, copy, path)
        return "file://" + os.path.realpath(path)


def main(argv: List[str]) -> int:
    """Begin an output of a job of this machine, whose store is a folder.

    The field `seen` of the record is the path by which the job knows TARGET: see `run_output.main`.
    """
    import json

    try:
        store, record, output, part, target = argv
        task, node = map(int, part.split("/"))
    except ValueError:
        raise Failure(USAGE_LINE) from None
    bucket = FolderBucket({"RUNSPEC_STORE": "file://" + store})
    source = json.loads(record)
    resume = Resume(bucket, source, os.environ, target)
    try:
        os.makedirs(files.local(target), exist_ok=True)
        resume.begin(output, files.local(target), task, node, files.local(source.get("seen", "")))
    except (Failure, OSError) as error:
        print("runspec: {}".format(error), file=sys.stderr)
        return USAGE
    return 0
