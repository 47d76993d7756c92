"""The files that a job needs in the workspace before it begins, and the steps that write them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from runspec_jobs.provider import (
    PARTED_FORMAT,
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
from runspec_slurm.job import sbatch_argv, split
from runspec_slurm.naming import INSIDE, INSIDE_SHA256, environment, folder, of_run
from runspec_slurm.options import SlurmOptions

# Slurm's own ports (SlurmdPort, SrunPortRange) are not among these: https://slurm.schedmd.com/network.html
RULE = (
    "the firewall of the cluster's nodes must let them connect to each other on all TCP ports, those of "
    "/proc/sys/net/ipv4/ip_local_port_range among them; SrunPortRange of slurm.conf is for srun alone: "
    "https://slurm.schedmd.com/network.html"
)


def steps(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps that write what several jobs share: the agent, mounted folders, and what packages they need."""
    yield _upload("inside", "upload the agent", INSIDE, {"$inside": INSIDE_SHA256})
    for mount in spec.mounts:
        if mount.scheme == "file":
            source = facts.sources[mount.name]
            title = f"upload {mount.source} ({source.counted}, {source.bytes:,} bytes)"
            key = f"blobs/{blob_name(source)}"
            yield _upload(f"upload-{mount.name}", title, key, {"$file": mount.name})
    if facts.requirements:
        yield _environment(spec, facts)


def _upload(step: str, title: str, key: str, content: Any) -> Step:
    """Return a step that writes *content* at *key*; nothing has to settle, as only complete files get their name."""
    do = folder("put", key=key, content=content)
    return Step(step, title, Scope.SITE, do, folder("remove", key=key))


def _environment(spec: Spec, facts: Facts) -> Step:
    """Return the step that names an environment, which the first node that needs it builds beside that file."""
    where = environment(spec, facts)
    lines = "".join(f"{line}\n" for line in facts.requirements)
    name = "environment.yml" if spec.container.conda else "requirements.txt"
    do = folder("put", key=f"{where}/{name}", content=lines)
    title = "write the requirements of the environment, which the first node builds"
    undo = folder("remove_tree", key=where)
    return Step("environment", title, Scope.SITE, do, undo)


def record(spec: Spec, run: str, facts: Facts) -> Step:
    """Return the step that writes the job's record and makes the folder of its logs.

    Slurm opens a job's output file before the job begins: without the folder the job would fail, and no log would
    say why. Any machine that can read the workspace can adopt the run by its record.
    """
    text = json.dumps(described(spec, run, facts), sort_keys=True)
    do = folder("put", key=of_run(run, "record.json"), content=text)
    undo = folder("remove_run", run=run)
    return Step("record", "write the job's record", Scope.RUN, do, undo)


def described(spec: Spec, run: str, facts: Facts) -> dict[str, Any]:
    """Return the record that runspec_agent and this provider's client read."""
    own: dict[str, Any] = {
        "array": tasks_in_all(spec) > 1,
        "argv": list(sbatch_argv.words(spec, run, facts)),
        "partition": ",".join(resources.names(spec, facts)) or None,
        "srun": containers.by_srun(spec, facts),
    }
    parted = split.arrays(spec, facts) > 1
    if parted:
        own["each"] = split.each(spec, facts)
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
        spot=False,  # no machine has a notice to poll: Slurm signals the job before it ends
        spot_attempts=spec.retry.spot_attempts,
        slurm=own,
        **({"format": PARTED_FORMAT} if parted else {}),
        **reach(spec, RULE),
    )


def _mounts(spec: Spec, run: str, facts: Facts) -> list[dict[str, Any]]:
    """Return the mounts of the record, with shared folders by their paths on the cluster."""
    options: SlurmOptions = facts.options
    found: list[dict[str, Any]] = job_record(spec, run, facts)["mounts"]
    for mount in found:
        if mount["kind"] == "folder":
            key, slash, rest = mount["path"].partition("/")
            mount["path"] = options.shared[key] + slash + rest
    return found


def secrets(spec: Spec, run: str, facts: Facts) -> Iterator[Step]:
    """Yield the step that writes the secrets, if any, to a file that only its owner can read."""
    options: SlurmOptions = facts.options
    if spec.secrets:
        key = of_run(run, "secrets")
        values = {name: {"$secret": options.secrets[k]} for name, k in spec.secrets.items()}
        do = folder("put_secrets", key=key, values=values)
        title = f"write {len(values)} secret{'s' if len(values) > 1 else ''}"
        yield Step("secrets", title, Scope.RUN, do, folder("remove", key=key))


def login(spec: Spec, run: str, facts: Facts) -> Iterator[Step]:
    """Yield the step that writes the login at the image's registry, if any, to a file that only its owner can read."""
    found = containers.login(spec, facts)
    if found:
        enroot = containers.engine(spec, facts) == "pyxis"
        key = of_run(run, containers.ENROOT_LOGIN if enroot else containers.LOGIN)
        do = folder("put_login", key=key, format="netrc" if enroot else "docker", login=dict(found))
        title = f"write the login at {found['registry']}"
        yield Step("login", title, Scope.RUN, do, folder("remove", key=key))
