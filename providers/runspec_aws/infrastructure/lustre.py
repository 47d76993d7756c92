"""FSx for Lustre: the script with which a machine mounts it before any job starts there."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.naming import partition
from runspec_aws.options import AwsOptions

ROOT = "/mnt/runspec"  # the folder on the machine with one folder for each file system
BOUNDARY = "==RUNSPEC=="
# The mount options relatime and flock are those of the service's documentation.
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-ec2-instance.html
# The client is a package of Amazon Linux 2023; a custom AMI may contain it already.
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html
# The ECS agent starts after cloud-init has ended. A machine without the file system must not get that far,
# because files that jobs write would be on its own disk and lost with it.
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
    """A file system, and its mount name."""

    id: str
    mount: str


def is_lustre(where: str) -> bool:
    return where.startswith("fsx:")


def system(where: str) -> System:
    """Return the file system in *where*, a value of `shared` in the profile.

    >>> system("fsx:fs-0123456789abcdef0:abcdwxyz/team/data")
    System(id='fs-0123456789abcdef0', mount='abcdwxyz')
    """
    _, system_id, path = where.split(":")
    return System(system_id, path.partition("/")[0])


def folder(where: str) -> str:
    """Return the folder on the machine where *where* is mounted.

    >>> folder("fsx:fs-0123456789abcdef0:abcdwxyz/team/data")
    '/mnt/runspec/fs-0123456789abcdef0/team/data'
    """
    _, system_id, path = where.split(":")
    return "/".join(part for part in (ROOT, system_id, path.partition("/")[2]) if part)


def systems(names: Iterable[str], options: AwsOptions) -> tuple[System, ...]:
    """Return the file systems that machines mount for the entries *names* of `shared` in the profile, each once."""
    places = [options.shared[name] for name in names if name in options.shared]
    return tuple(sorted({system(where) for where in places if is_lustre(where)}))


def dns_name(system: System, region: str) -> str:
    """Return the DNS name: https://docs.aws.amazon.com/fsx/latest/APIReference/API_FileSystem.html"""
    return f"{system.id}.fsx.{region}.{partition(region).domain}"


def user_data(systems: tuple[System, ...], region: str) -> str:
    """Return user data that mounts *systems*, for a launch template: a MIME multi-part message in base64.

    AWS Batch adds its own parts, and so requires this format. cloud-init runs a command that is a list without a
    shell, and takes JSON because it is valid YAML.

    https://docs.aws.amazon.com/batch/latest/userguide/launch-templates.html

    https://cloudinit.readthedocs.io/en/latest/reference/modules.html#runcmd
    """
    commands = [
        ["sh", "-c", MOUNT, "runspec", f"{dns_name(s, region)}@tcp:/{s.mount}", f"{ROOT}/{s.id}"]
        for s in systems
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
