"""FSx for Lustre: what a machine does at its start to have it mounted before any job is on it."""

from __future__ import annotations

import base64
import json
from typing import NamedTuple

from runspec_aws.options import AwsOptions
from runspec_aws.session.partition import partition
from runspec_jobs.provider import Spec

ROOT = "/mnt/runspec"  # of the machine: every file system is a folder in it
BOUNDARY = "==RUNSPEC=="
# relatime and flock are what the service's own documentation mounts with.
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-ec2-instance.html
# The client is a package of Amazon Linux 2023; an AMI of one's own may have it already.
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html
# The agent that takes jobs starts after cloud-init has ended. A machine without the file system must
# not come that far: what jobs write would lie on its own disk, and be gone with it.
# https://docs.aws.amazon.com/AmazonECS/latest/developerguide/bootstrap_container_instance.html
MOUNT = """\
mkdir -p "$2"
n=0
while [ $n -lt 20 ]; do
  command -v mount.lustre >/dev/null || dnf install -y lustre-client
  mount -t lustre -o relatime,flock "$1" "$2" && exit 0
  n=$((n + 1))
  sleep 15
done
echo "runspec: $1 cannot be mounted, so this machine takes no jobs" >&2
shutdown -h now
sleep infinity
"""


class System(NamedTuple):
    """A file system, and the name that it is mounted by."""

    id: str
    mount: str


def is_lustre(where: str) -> bool:
    return where.startswith("fsx:")


def system(where: str) -> System:
    """Give the file system that *where* of the profile is in.

    >>> system("fsx:fs-0123456789abcdef0:abcdwxyz/team/data")
    System(id='fs-0123456789abcdef0', mount='abcdwxyz')
    """
    _, found, place = where.split(":")
    return System(found, place.partition("/")[0])


def folder(where: str) -> str:
    """Give the folder of the machine that *where* is.

    >>> folder("fsx:fs-0123456789abcdef0:abcdwxyz/team/data")
    '/mnt/runspec/fs-0123456789abcdef0/team/data'
    """
    _, found, place = where.split(":")
    return "/".join(part for part in (ROOT, found, place.partition("/")[2]) if part)


def systems(spec: Spec, options: AwsOptions) -> tuple[System, ...]:
    """Give the file systems that the machines of *spec* are to mount, each once."""
    names = {m.place.partition("/")[0] for m in spec.mounts if m.scheme == "shared"}
    found = [options.shared[name] for name in names if name in options.shared]
    return tuple(sorted({system(where) for where in found if is_lustre(where)}))


def dns_name(found: System, region: str) -> str:
    """https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html"""
    return f"{found.id}.fsx.{region}.{partition(region).domain}"


def user_data(found: tuple[System, ...], region: str) -> str:
    """Give what mounts *found*, as a launch template takes it: MIME in several parts, in base64.

    AWS Batch puts parts of its own beside ours, which is why it wants that form. A command that is a
    list goes to execve(2) and through no shell, and JSON is YAML.
    https://docs.aws.amazon.com/batch/latest/userguide/launch-templates.html
    https://cloudinit.readthedocs.io/en/latest/reference/modules.html#runcmd
    """
    commands = [
        ["sh", "-c", MOUNT, "runspec", f"{dns_name(s, region)}@tcp:/{s.mount}", f"{ROOT}/{s.id}"]
        for s in found
    ]
    lines = (
        "MIME-Version: 1.0",
        f'Content-Type: multipart/mixed; boundary="{BOUNDARY}"',
        "",
        f"--{BOUNDARY}",
        'Content-Type: text/cloud-config; charset="us-ascii"',
        "",
        "#cloud-config",
        json.dumps({"runcmd": commands}),
        "",
        f"--{BOUNDARY}--",
        "",
    )
    return base64.b64encode("\n".join(lines).encode("ascii")).decode("ascii")
