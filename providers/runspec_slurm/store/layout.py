"""The files that a job needs in the workspace before it begins, and the steps that write them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from runspec_jobs.provider import Facts, Scope, Spec, Step
from runspec_jobs.provider.commands import argv as program
from runspec_jobs.provider.job_manifest import PARTED_FORMAT, blob_name, job_record, reach, uploads
from runspec_slurm import containers, job
from runspec_slurm.decision import Decision
from runspec_slurm.naming import AGENT_KEY, AGENT_SHA256, folder, of_run

# Slurm's own ports (SlurmdPort, SrunPortRange) are not among these: https://slurm.schedmd.com/network.html
RULE = (
    "the firewall of the cluster's nodes must let them connect to each other on all TCP ports, those of "
    "/proc/sys/net/ipv4/ip_local_port_range among them; SrunPortRange of slurm.conf is for srun alone: "
    "https://slurm.schedmd.com/network.html"
)


def steps(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps that write what several jobs share: the agent, mounted folders, and what packages they need."""
    yield _upload("inside", "upload the agent", AGENT_KEY, {"$inside": AGENT_SHA256})
    for name, what, source in uploads(spec, facts):
        title = f"upload {what} ({source.counted}, {source.bytes:,} bytes)"
        yield _upload(f"upload-{name}", title, f"blobs/{blob_name(source)}", {"$file": name})
    if decision.environment:
        name = "environment.yml" if spec.container.conda else "requirements.txt"
        yield _environment(decision.environment, name, facts.requirements)


def _upload(step: str, title: str, key: str, content: Any) -> Step:
    """Return a step that writes *content* at *key*; nothing has to settle, as only complete files get their name."""
    do = folder("put", key=key, content=content)
    return Step(step, title, Scope.SITE, do, folder("remove", key=key))


def _environment(key: str, name: str, requirements: tuple[str, ...]) -> Step:
    """Return the step that names an environment, which the first node that needs it builds beside that file."""
    content = "".join(f"{line}\n" for line in requirements)
    do = folder("put", key=f"{key}/{name}", content=content)
    title = "write the requirements of the environment, which the first node builds"
    undo = folder("remove_tree", key=key)
    return Step("environment", title, Scope.SITE, do, undo)


def record(decision: Decision, spec: Spec, run: str, facts: Facts) -> Step:
    """Return the step that writes the job's record and makes the folder of its logs.

    Slurm opens a job's output file before the job begins: without the folder the job would fail, and no log would
    say why. Any machine that can read the workspace can adopt the run by its record.
    """
    content = json.dumps(describe(decision, spec, run, facts), sort_keys=True)
    do = folder("put", key=of_run(run, "record.json"), content=content)
    undo = folder("remove_run", run=run)
    return Step("record", "write the job's record", Scope.RUN, do, undo)


def describe(decision: Decision, spec: Spec, run: str, facts: Facts) -> dict[str, Any]:
    """Return the record that runspec_agent and this provider's client read."""
    is_split = decision.arrays.count > 1
    described = job_record(
        spec,
        run,
        facts,
        nodes=decision.nodes,
        shape="nodes" if decision.is_gang else "single",
        argv=list(program(spec, containers.choose_entrypoint(decision))),
        count=decision.arrays.tasks,
        tries=spec.retry.attempts,
        spot=False,  # no machine has a notice to poll: Slurm signals the job before it ends
        spot_attempts=spec.retry.lost_attempts,
        slurm={
            "array": decision.is_array,
            "argv": list(job.make_argv(decision, run)),
            "partition": ",".join(decision.requested) or None,
            "srun": decision.uses_srun,
            **({"each": decision.arrays.each} if is_split else {}),
        },
        **({"format": PARTED_FORMAT} if is_split else {}),
        **reach(spec, RULE),
    )
    for mount in described["mounts"]:
        if mount["kind"] == "folder":  # a shared one, which has another path on the cluster
            key, slash, rest = mount["path"].partition("/")
            mount["path"] = decision.options.shared[key] + slash + rest
    return described


def secrets(spec: Spec, run: str, facts: Facts) -> Iterator[Step]:
    """Yield the step that writes the secrets, if any, to a file that only its owner can read."""
    if spec.secrets:
        values = {name: {"$secret": facts.options.secrets[k]} for name, k in spec.secrets.items()}
        key = of_run(run, "secrets")
        do = folder("put_secrets", key=key, values=values)
        title = f"write {len(values)} secret{'s' if len(values) > 1 else ''}"
        yield Step("secrets", title, Scope.RUN, do, folder("remove", key=key))


def login(decision: Decision, run: str) -> Iterator[Step]:
    """Yield the step that writes the login at the image's registry, if any, to a file that only its owner can read."""
    if decision.login:
        by_enroot = decision.engine == "pyxis"
        key = of_run(run, containers.ENROOT_LOGIN if by_enroot else containers.LOGIN)
        form = "netrc" if by_enroot else "docker"
        do = folder("put_login", key=key, format=form, login=dict(decision.login))
        title = f"write the login at {decision.login['registry']}"
        yield Step("login", title, Scope.RUN, do, folder("remove", key=key))
