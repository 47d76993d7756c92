"""Start the emulators for `runspec rehearse`: a region on this machine, and a profile for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from runspec_images.image_plan import REHEARSED
from runspec_jobs.provider.types import Emulation

ACCOUNT = "123456789012"
# Settings that a real profile may lack. Names of resources that do not exist are fine, because the emulators check no
# permissions.
SETTINGS: Mapping[str, Any] = {
    "region": "us-east-1",
    "bucket": "rehearsal",
    "job_role": f"arn:aws:iam::{ACCOUNT}:role/job",
    "execution_role": f"arn:aws:iam::{ACCOUNT}:role/execution",
    "instance_role": f"arn:aws:iam::{ACCOUNT}:instance-profile/machine",
    "subnets": ["subnet-1"],
    "security_groups": ["sg-1"],
}
BELOW = ", and absolute paths of the spec lie below the job's folder"
OTHERS_REGION = "eu-central-1"
OWN = ("account_profile", "queue", "reservation")  # settings that refer to a real account


@contextlib.contextmanager
def stage(options: Mapping[str, Any], folder: Path, engine: str | None) -> Iterator[Emulation]:
    """Start moto's server and the emulator of Batch and Logs; yield how to reach them."""
    if find_spec("moto") is None:  # only its server imports it, whose error would come late
        raise ModuleNotFoundError("No module named 'moto'", name="moto")

    from runspec_emulators.aws.region import Objects, Region
    from runspec_emulators.frame.containers import confinement_notes

    settings = {**SETTINGS, **{k: v for k, v in options.items() if k not in OWN}}
    settings["images"] = REHEARSED
    region, bucket = str(settings["region"]), str(settings["bucket"])
    confined, notes = (True, []) if engine == "podman" else confinement_notes(folder, BELOW)
    with contextlib.ExitStack() as stack:
        objects = Objects(folder / "objects")
        stack.callback(objects.close)
        objects.make_bucket(bucket, region)
        near = stack.enter_context(
            Region(
                folder,
                region,
                objects,
                engine=engine or "process",
                secrets=_secrets(settings),
                own_root=confined,
            )
        )
        yield Emulation(near.env, settings, tuple(notes))


def _secrets(options: Mapping[str, Any]) -> dict[str, str]:
    """Return a made-up value for every secret of the profile; the real ones are not read."""
    return {
        where.partition(":")[2]: f"rehearsed secret '{name}'"
        for name, where in dict(options.get("secrets", {})).items()
    }


def fill(stage: Emulation, bucket: str, folder: Path) -> None:
    """Make the public *bucket*, in the place of one of another owner, with the files of *folder*."""
    import boto3

    client = boto3.client(
        "s3",
        region_name=str(stage.options["region"]),
        endpoint_url=stage.env["AWS_ENDPOINT_URL"],
        aws_access_key_id=stage.env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=stage.env["AWS_SECRET_ACCESS_KEY"],
    )
    where = {"LocationConstraint": OTHERS_REGION}
    client.create_bucket(Bucket=bucket, ACL="public-read", CreateBucketConfiguration=where)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        key = path.relative_to(folder).as_posix()
        client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes(), ACL="public-read")
