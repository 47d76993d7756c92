"""A site for tests of ParallelCluster: a stand-in for `pcluster`, a profile, and a Slurm of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.slurm import Cluster
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm import fake_pcluster
from tests.support.slurm.parallelcluster_specs import SUBNET
from tests.support.slurm.shared_cluster import PROGRAMS


@contextlib.contextmanager
def pcluster_site(
    folder: Path, patch: pytest.MonkeyPatch, settings: dict[str, Any], **shape: Any
) -> Iterator[Cluster]:
    """Give the Slurm of a site below *folder*: *settings* are more of its profile, *shape* what Cluster takes."""
    need(*PROGRAMS, "node")
    found = {"region": "us-east-1", "subnets": [SUBNET], "key_pair": "my-key"}
    found |= {"python": sys.executable, "environment": "clean", **settings}
    own_profile().write_text(json.dumps({"providers": {"parallelcluster": found}}))
    patch.setenv("PATH", f"{fake_pcluster.install(folder / 'bin')}{os.pathsep}{os.environ['PATH']}")
    with Cluster(folder / "slurm", prolog=True, address_in="RUNSPEC_HOST", **shape) as cluster:
        for name, value in cluster.env.items():
            patch.setenv(name, value)
        yield cluster
