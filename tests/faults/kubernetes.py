"""A rehearsed cluster of Kubernetes for each case, and what the cluster itself knows of the pods in it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import boto3

from runspec_emulators.aws.region import KEYS, Objects
from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_emulators.kubernetes.resources import RESOURCES
from runspec_kubernetes import emulator
from tests.faults.cloud import Cloud, New, new_cloud

SPEC = """\
apiVersion: runspec/v1
name: {name}
provider: kubernetes
mounts:
  - {{name: src, source: ./src, target: /job/src}}
  - {{name: told, source: shared://told, target: /job/told}}
outputs: [{{name: out, path: /job/out}}]
env: {{TRUTH: /job/told/truth}}
secrets: {{TOKEN: token}}
{more}
run: |
  words=$(cat "${{mounts.src}}/one" "${{mounts.src}}/two")
  echo "$RUNSPEC_RUN $RUNSPEC_TASK.$RUNSPEC_RANK $RUNSPEC_ATTEMPT $words" >> "$TRUTH"
  echo done > "${{outputs.out}}/done"
  {last}
"""


KINDS = {resource.names.plural: resource for resource in RESOURCES}
MADE = ("jobs", "pods", "secrets", "services", "configmaps")


@dataclass
class KubernetesCloud(Cloud):
    """A world whose job runs in a rehearsed cluster, with its files in a bucket of its own."""

    objects: Objects | None = None

    provider: ClassVar[str] = "kubernetes"
    sdk: ClassVar[str] = "kubernetes"
    text: ClassVar[str] = SPEC
    sent_once: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "POST configmaps": ("call create",),
        "POST secrets": ("call create",),
        "POST services": ("call create",),
        "POST jobs": ("call create",),
        "PATCH jobs/*": ("cancel", "release"),
        "DELETE jobs/*": ("call delete",),
        "DELETE secrets/*": ("call delete",),
        "DELETE services/*": ("call delete",),
        "DELETE configmaps/AGENT": ("call delete",),
    }

    @property
    def bucket(self) -> str:
        return f"faults-{self.folder.name.encode().hex()[-32:]}"

    @property
    def store(self) -> Objects:
        assert self.objects is not None
        return self.objects

    def open(self) -> None:
        self.store.make_bucket(self.bucket, emulator.REGION)
        told = self.folder / "told"  # of this machine, a pod sees its volumes alone
        told.mkdir()
        (self.folder / "truth").symlink_to(told / "truth")
        claims = {"default/told": str(told)}
        self.cluster = Kubernetes(self.folder / "cluster", own_root=True, claims=claims)

    def settings(self) -> Mapping[str, Any]:
        reach = emulator.reach(self.store.url)
        return {
            **reach,
            "store": f"s3://{self.bucket}/ours",
            "secrets": {"token": "env:CANARY"},
            "shared": {"told": "pvc:told"},
        }

    def environment(self) -> dict[str, str]:
        keys = {
            emulator.ACCESS_KEY: KEYS["AWS_ACCESS_KEY_ID"],
            emulator.SECRET_KEY: KEYS["AWS_SECRET_ACCESS_KEY"],
        }
        return {**super().environment(), **keys, **self.cluster.env}

    def hidden(self) -> Iterator[tuple[str, bytes]]:
        yield from super().hidden()
        yield "the key of the store", KEYS["AWS_SECRET_ACCESS_KEY"].encode()
        yield "the token of the cluster", self.cluster.token.encode()

    def objects_of(self, kind: str) -> list[dict[str, Any]]:
        """Return all objects of a kind in the cluster, as the emulator itself knows them."""
        world = self.cluster.world
        with world.lock:
            return list(world.all(KINDS[kind]))

    def submitted(self) -> list[str]:
        return [str(job["metadata"]["name"]) for job in self.objects_of("jobs")]

    def submits(self) -> int:
        calls = self.cluster.control("GET", "calls")
        return sum(call["operation"] == "create jobs" for call in calls)

    def begun(self) -> set[str]:
        return {line[0] for line in self.truth()}

    def alive(self) -> list[str]:
        over = ("Succeeded", "Failed")
        pods = self.objects_of("pods")
        return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") not in over]

    def left(self) -> Iterator[str]:
        for kind in MADE:
            yield from (f"{kind} {found['metadata']['name']}" for found in self.objects_of(kind))
        client = boto3.client(
            "s3",
            endpoint_url=self.store.url,
            region_name=emulator.REGION,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        listed = client.list_objects_v2(Bucket=self.bucket).get("Contents", ())
        yield from (f"object {entry['Key']}" for entry in listed)

    def close(self) -> None:
        self.cluster.close()
        super().close()


@functools.cache
def kubernetes(objects: Objects) -> New:
    """Return what makes a world of its own over one S3 for all."""
    return partial(new_cloud, KubernetesCloud, objects=objects)
