"""Start the emulators for `runspec rehearse`: a cluster and a store on this machine, and a profile for them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from runspec_jobs.provider import UsageError
from runspec_jobs.provider.types import Emulation
from runspec_kubernetes.options import SPOT

BUCKET, REGION = "rehearsal", "us-east-1"
ACCESS_KEY, SECRET_KEY = "RUNSPEC_REHEARSAL_ACCESS_KEY", "RUNSPEC_REHEARSAL_SECRET_KEY"
CLAIMS = "RUNSPEC_REHEARSAL_CLAIMS"  # the folder with those of volume claims
# Settings of real clusters and stores, which are ignored.
OWN = (
    "kubeconfig context store store_url store_keys region service_account pull_secrets annotations "
    "registry registry_user registry_password queue"
).split()
BELOW = ", and absolute paths of the spec lie below the job's folder"


@contextlib.contextmanager
def stage(options: Mapping[str, Any], folder: Path, engine: str | None) -> Iterator[Emulation]:
    """Start the emulator of Kubernetes, and moto's S3 as the store; yield how to reach them."""
    if find_spec("moto") is None:  # only its server imports it, whose error would come late
        raise ModuleNotFoundError("No module named 'moto'", name="moto")

    from runspec_emulators.aws.region import KEYS, Objects
    from runspec_emulators.frame.containers import confinement_notes
    from runspec_emulators.frame.settings import rehearsed_secrets
    from runspec_emulators.kubernetes.emulator import Kubernetes

    settings = {key: value for key, value in options.items() if key not in OWN}
    confined, notes = (True, []) if engine == "podman" else confinement_notes(folder, BELOW)
    with contextlib.ExitStack() as stack:
        objects = Objects(folder / "objects")
        stack.callback(objects.close)
        objects.make_bucket(BUCKET, REGION)
        near = stack.enter_context(
            Kubernetes(
                folder / "cluster",
                engine=engine or "process",
                own_root=confined,
                **_cluster(settings, folder / "claims"),
            )
        )
        settings |= reach(objects.url)
        env = {
            **near.env,
            ACCESS_KEY: KEYS["AWS_ACCESS_KEY_ID"],
            SECRET_KEY: KEYS["AWS_SECRET_ACCESS_KEY"],
            **rehearsed_secrets(settings),
            CLAIMS: str(folder / "claims"),
        }
        yield Emulation(env, settings, tuple(notes))


def _cluster(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the settings of a cluster that has what *options* name: namespace, claims, labels of nodes, GPUs."""
    namespace = str(options.get("namespace", "default"))
    shared = dict(options.get("shared", {})).values()
    names = [str(claim).removeprefix("pvc:") for claim in shared]
    gpus = {str(options.get("gpu_resource", "nvidia.com/gpu")): "8"}
    types = dict(options.get("gpu_types", {})).values()
    labels = {key: value for each in types for key, value in dict(each).items()}
    labels |= dict(options.get("node_selector", {}))
    nodes = {f"node-{n}": {"capacity": gpus, "labels": labels} for n in (1, 2)}
    spot = SPOT.get(str(options.get("cloud", "")))
    if spot is not None:
        own = {**labels, spot.label: spot.value}
        nodes |= {f"spot-{n}": {"capacity": gpus, "labels": own} for n in (1, 2)}
    return {
        "namespaces": (namespace,),
        "claims": {f"{namespace}/{name}": str(folder / name) for name in names},
        "nodes": nodes,
    }


def reach(url: str) -> dict[str, Any]:
    """Return the options for a store at *url*."""
    return {
        "store": f"s3://{BUCKET}/runspec",
        "region": REGION,
        "store_url": url,
        "store_keys": {
            "AWS_ACCESS_KEY_ID": f"env:{ACCESS_KEY}",
            "AWS_SECRET_ACCESS_KEY": f"env:{SECRET_KEY}",
        },
    }


def fill(stage: Emulation, container: str, folder: Path) -> None:
    """Copy the files of *folder* to the volume claim behind the shared file system *container*."""
    known = stage.options.get("shared", {})
    if container not in known:
        names = ", ".join(known) or "none"
        raise UsageError(
            f"the job has no shared file system '{container}'", f"the profile has {names}"
        )
    claim = str(known[container]).removeprefix("pvc:")
    shutil.copytree(folder, Path(stage.env[CLAIMS]) / claim, dirs_exist_ok=True)
