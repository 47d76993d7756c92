"""Checks of ParallelCluster before a job needs it: `runspec doctor parallelcluster`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from runspec_jobs.provider import Finding, RunspecError
from runspec_parallelcluster.lookup import address_of
from runspec_parallelcluster.naming import VERSION
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_parallelcluster.session import install
from runspec_parallelcluster.session.pcluster import Cli, NotThere

NOBODY = "runspec-is-anybody-there"  # a cluster that does not exist: the answer shows that the account can be reached


def examine(options: ParallelClusterOptions) -> Iterator[Finding]:
    """Yield the findings; checks that need something which is missing are left out."""
    for program, package in (("node", "nodejs"), ("ssh", "openssh-client")):
        there = shutil.which(program) is not None
        yield Finding(
            f"{program} is {'installed' if there else 'not installed'}", there, f"install {package}"
        )
    if options.ssh_key:
        exists = Path(options.ssh_key).expanduser().is_file()
        what = f"the key {options.ssh_key} {'exists' if exists else 'does not exist'}"
        yield Finding(what, exists, "correct ssh_key in the profile")
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
