"""Checks of ParallelCluster before a job needs it: `runspec doctor parallelcluster`."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from runspec_jobs.provider import (
    CredentialsError,
    Finding,
    RemoteError,
    Request,
    RunspecError,
    Step,
)
from runspec_parallelcluster.client import ParallelClusterClient
from runspec_parallelcluster.lookup import (
    BROKEN,
    STOPPED,
    STOPPING,
    Clusters,
    address_of,
    failure,
)
from runspec_parallelcluster.naming import VERSION
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_parallelcluster.session import install
from runspec_parallelcluster.session.pcluster import Cli, NotThere
from runspec_slurm import doctor as slurm_doctor

NOBODY = "runspec-is-anybody-there"  # a cluster that does not exist: the answer shows that the account can be reached
# How a dry run that found nothing wrong ends: pcluster/api/errors.py of 3.16.1.
WOULD = "Request would have succeeded"
PACKAGES = {"node": "nodejs", "ssh": "openssh-client"}


def examine(options: ParallelClusterOptions) -> Iterator[Finding]:
    """Yield the findings; checks that need something which is missing are left out."""
    yield from _programs(options, ("node", "ssh"))
    try:
        pcluster = install.find_pcluster(options)
    except RunspecError as exc:
        yield Finding(exc.message, False, exc.hint)
        return
    if pcluster is None:
        what = f"pcluster is not installed: the first apply installs aws-parallelcluster {VERSION}"
        yield Finding(what, shutil.which("uv") is not None or _has_uv(), "install uv, or pcluster")
        return
    yield Finding(f"pcluster is at {pcluster}", True)
    if shutil.which("node") and options.region:
        yield _account(options)


def examine_job(options: ParallelClusterOptions, steps: Sequence[Step]) -> Iterator[Finding]:
    """Yield the findings about this machine, the cluster of the plan, and whether its Slurm would accept the job."""
    heads = [step.do for step in steps if step.do.operation == "describe_cluster"]
    if not heads:  # the profile names the head node, and pcluster is not needed
        yield from _programs(options, ("ssh",))
        yield from _ask_slurm(options, steps)
        return
    well = True
    for finding in examine(options):
        well = well and finding.ok
        yield finding
    name = str(heads[0].params["clusterName"])
    yield from _unknown(options)
    if not well:
        return
    if not shutil.which("node") or install.find_pcluster(options) is None:
        what = f"doctor cannot check the cluster {name}, because pcluster is not installed"
        yield Finding(what, True, unknown=True)
        return
    clusters = Clusters(Cli(options, lambda line: None), lambda line: None)
    try:
        yield from _check_cluster(clusters, name, options, steps)
    except RunspecError as exc:
        yield Finding(exc.message, False, exc.hint or "run runspec doctor parallelcluster again")


def _unknown(options: ParallelClusterOptions) -> Iterator[Finding]:
    """Yield what nothing of this provider can ask: it has no SDK of AWS, and pcluster checks no quota."""
    what = "doctor cannot check the quotas of EC2 for the machines of the queues"
    yield Finding(what, True, "see Service Quotas in the console of AWS", unknown=True)
    if options.manage:
        what = "doctor cannot check all rights of the login that pcluster needs to make a cluster"
        hint = "see the page of AWS on IAM permissions in AWS ParallelCluster"
        yield Finding(what, True, hint, unknown=True)
    places = [storage.data for storage in options.storage.values() if storage.data]
    for place in [*places, *([f"s3://{options.bucket}"] if options.bucket else [])]:
        what = f"doctor cannot check whether the cluster may write to {place}"
        yield Finding(what, True, unknown=True)


def _check_cluster(
    clusters: Clusters, name: str, options: ParallelClusterOptions, steps: Sequence[Step]
) -> Iterator[Finding]:
    """Yield the findings about the cluster *name*. Raises RunspecError if `pcluster` refuses an answer."""
    cluster = clusters.describe(name)
    makes = [s for s in steps if s.do.operation in ("create_cluster", "update_cluster")]
    if cluster is None:
        yield (
            _check_creation(clusters, makes[0].do, name)
            if makes
            else Finding(
                f"there is no cluster {name}",
                False,
                "set cluster in the profile to an existing one",
            )
        )
        return
    status, fleet = str(cluster.get("clusterStatus")), str(cluster.get("computeFleetStatus"))
    events = f"see why: pcluster get-cluster-stack-events -n {name}"
    if status in BROKEN and status != "UPDATE_FAILED":
        yield Finding(f"the cluster {name}: {failure(cluster)}", False, events)
        return
    if address_of(cluster) is None:
        what = f"the cluster {name} is {status.lower().replace('_', ' ')}, and has no address yet"
        yield Finding(what, True, events, unknown=True)
        return
    if fleet in (STOPPED, *STOPPING):
        start = f"pcluster update-compute-fleet -n {name} --status START_REQUESTED"
        what = f"the machines of the cluster {name} are stopped: jobs wait until they are started"
        yield Finding(what, False, start)
    if any(clusters.find(step) is None for step in makes):
        what = f"the cluster {name} differs from the profile: whether it accepts the job is known after its update"
        yield Finding(what, True, unknown=True)
        return
    yield from _ask_slurm(options.model_copy(update={"cluster": name}), steps)


def _check_creation(clusters: Clusters, request: Request, name: str) -> Finding:
    """Return whether AWS would let the login make the cluster, which makes nothing.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/pcluster.create-cluster-v3.html
    """
    wanted = request.params["clusterConfiguration"]
    try:
        clusters.cli.run("create-cluster", name, "--dryrun", "true", configuration=wanted)
    except RunspecError as exc:
        if WOULD in exc.message:
            return Finding(f"pcluster would make the cluster {name}, by its dry run", True)
        refused = isinstance(exc, CredentialsError) or (
            isinstance(exc, RemoteError) and not exc.transient
        )
        what = exc.message if refused else f"doctor cannot check the cluster {name}: {exc.message}"
        return Finding(what, not refused, exc.hint, unknown=not refused)
    return Finding(f"pcluster did not say whether it would make {name}", True, unknown=True)


def _ask_slurm(options: ParallelClusterOptions, steps: Sequence[Step]) -> Iterator[Finding]:
    """Yield what the head node says: its partitions, and whether they can ever run the job."""
    try:
        reached = ParallelClusterClient(options).slurm().options
        yield from slurm_doctor.examine_job(reached, steps)
    except RunspecError as exc:
        hint = exc.hint or "check host, ssh_key and ssh_options in the profile"
        yield Finding(exc.message, False, hint)


def _programs(options: ParallelClusterOptions, names: Iterable[str]) -> Iterator[Finding]:
    for program in names:
        there = shutil.which(program) is not None
        yield Finding(
            f"{program} is {'installed' if there else 'not installed'}",
            there,
            f"install {PACKAGES[program]}",
        )
    if options.ssh_key:
        exists = Path(options.ssh_key).expanduser().is_file()
        what = f"the key {options.ssh_key} {'exists' if exists else 'does not exist'}"
        yield Finding(what, exists, "correct ssh_key in the profile")


def _has_uv() -> bool:
    try:
        import uv
    except ImportError:
        return False
    return bool(uv)


def _account(options: ParallelClusterOptions) -> Finding:
    name = options.cluster or NOBODY
    try:
        cluster = Cli(options, lambda line: None).run("describe-cluster", name)
    except NotThere:
        what = f"the account answers in {options.region}"
        return Finding(what if options.cluster is None else f"{what}; there is no {name} yet", True)
    except RunspecError as exc:
        return Finding(
            exc.message, False, exc.hint or "check that AWS can be reached from this machine"
        )
    status, head = cluster.get("clusterStatus"), address_of(cluster)
    what = f"the cluster {name} is {str(status).lower().replace('_', ' ')}, its head node at {head}"
    return Finding(what, bool(head), f"see why: pcluster get-cluster-stack-events -n {name}")
