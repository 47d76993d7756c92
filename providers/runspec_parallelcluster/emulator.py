"""A Slurm on this machine for `runspec rehearse`, which runs the job alone: no cluster is made, and no request sent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_jobs.provider.types import Emulation
from runspec_slurm import emulator
from runspec_slurm.options import SlurmOptions

HEAD = "head-node.rehearsed"
# An ssh that runs the command on this machine.
SSH = """\
#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
[ $# -gt 2 ] || { echo "ssh: the emulator has no tunnels to the head node" >&2; exit 255; }
shift 2
exec /bin/sh -c "$*"
"""
PCLUSTER = """\
#!/bin/sh
echo '{"message": "the emulator has no cluster"}'
exit 1
"""
# Whatever a spec contains, no request reaches an account.
NO_AWS = {
    "AWS_ACCESS_KEY_ID": "rehearsed",
    "AWS_SECRET_ACCESS_KEY": "rehearsed",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
}
NOTES = (
    "only the job is rehearsed: on a Slurm of this machine, with the arguments and script that the head node would get",
    "not rehearsed: the cluster with its queues, machine types and file systems, S3, ssh, and the archive at its end",
)


@contextlib.contextmanager
def stage(options: Mapping[str, Any], folder: Path, engine: str | None) -> Iterator[Emulation]:
    """Start a Slurm, and yield how to reach it in the form of an existing cluster."""
    with emulator.stage(of_slurm(options), folder, engine) as staged:
        programs = folder / "bin"
        programs.mkdir()
        for name, text in (("ssh", SSH), ("pcluster", PCLUSTER)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        path = f"{programs}:{os.environ.get('PATH', os.defpath)}"
        settings = {**staged.options, "manage": False, "host": HEAD}
        yield Emulation({**staged.env, **NO_AWS, "PATH": path}, settings, NOTES)


def of_slurm(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for Slurm: the queue of the job becomes a partition, and file systems become folders."""
    settings = {key: value for key, value in options.items() if key in SlurmOptions.model_fields}
    if options.get("queue"):
        settings["partition"] = options["queue"]
    settings["shared"] = {**dict(options.get("storage", {})), **dict(options.get("shared", {}))}
    return settings
