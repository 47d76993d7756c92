"""What lies in the workspace before a job begins, and the steps that put it there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from runspec_jobs.provider import (
    Facts,
    Scope,
    Spec,
    Step,
    argv as program,
    blob_name,
    job_record,
    nodes_each,
    reach,
    tasks_in_all,
)
from runspec_slurm import resources
from runspec_slurm.containers import containers
from runspec_slurm.job import sbatch_argv
from runspec_slurm.naming import INSIDE, INSIDE_SHA256, folder, of_run
from runspec_slurm.options import SlurmOptions

# Slurm's own ports (SlurmdPort, SrunPortRange) are others: https://slurm.schedmd.com/network.html
RULE = (
    "the firewall of the cluster's nodes must let them connect to each other on all TCP ports, those of "
    "/proc/sys/net/ipv4/ip_local_port_range among them; SrunPortRange of slurm.conf is for srun alone: "
    "https://slurm.schedmd.com/network.html"
)


def steps(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps that put up what jobs share: our part of the job, and folders."""
    yield _upload("inside", "upload what runs in the job", INSIDE, {"$inside": INSIDE_SHA256})
    for mount in spec.mounts:
        if mount.scheme == "file":
            source = facts.sources[mount.name]
            title = f"upload {mount.source} ({source.files:,} files, {source.bytes:,} bytes)"
            key = f"blobs/{blob_name(source)}"
            yield _upload(f"upload-{mount.name}", title, key, {"$file": mount.name})


def _upload(step: str, title: str, key: str, content: Any) -> Step:
    """A file has its name when it is whole: no settling."""
    do = folder("put", key=key, content=content)
    return Step(step, title, Scope.SITE, do, folder("remove", key=key))


def record(spec: Spec, run: str, facts: Facts) -> Step:
    """Return the step that writes down what the job is to do, and makes the folder that it prints to.

    Slurm opens a job's output before the job begins: where there is no folder for it, the job fails and no
    log says so. Whoever can read the workspace can take the run up by the record.
    """
    text = json.dumps(described(spec, run, facts), sort_keys=True)
    do = folder("put", key=of_run(run, "record.json"), content=text)
    undo = folder("remove_run", run=run)
    return Step("record", "write down what the job is to do", Scope.RUN, do, undo)


def described(spec: Spec, run: str, facts: Facts) -> dict[str, Any]:
    """Return what runspec_agent reads, and this provider's client."""
    own = {
        "array": tasks_in_all(spec) > 1,
        "argv": list(sbatch_argv.words(spec, run, facts)),
        "partition": ",".join(resources.names(spec, facts)) or None,
        "srun": containers.by_srun(spec, facts),
    }
    return job_record(
        spec,
        run,
        facts,
        mounts=_mounts(spec, run, facts),
        nodes=nodes_each(spec),
        shape="nodes" if nodes_each(spec) > 1 else "single",
        argv=list(program(spec)),
        count=tasks_in_all(spec),
        tries=spec.retry.attempts,
        spot=False,  # no machine tells of its end here: Slurm does, by a signal
        spot_attempts=spec.retry.spot_attempts,
        slurm=own,
        **reach(spec, RULE),
    )


def _mounts(spec: Spec, run: str, facts: Facts) -> list[dict[str, Any]]:
    """Return the mounts of the record; folders of shared file systems by their places on the cluster."""
    options: SlurmOptions = facts.options
    found: list[dict[str, Any]] = job_record(spec, run, facts)["mounts"]
    for mount in found:
        if mount["kind"] == "folder":
            key, slash, rest = mount["path"].partition("/")
            mount["path"] = options.shared[key] + slash + rest
    return found


def secrets(spec: Spec, run: str, facts: Facts) -> Iterator[Step]:
    """Yield the step that puts the secrets into a file that nobody else can read, where there are some."""
    options: SlurmOptions = facts.options
    if spec.secrets:
        key = of_run(run, "secrets")
        values = {name: {"$secret": options.secrets[k]} for name, k in spec.secrets.items()}
        do = folder("put_secrets", key=key, values=values)
        title = f"put {len(values)} secret{'s' if len(values) > 1 else ''} beside it"
        yield Step("secrets", title, Scope.RUN, do, folder("remove", key=key))
