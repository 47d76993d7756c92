"""Specs and settings for tests of ParallelCluster, and a `pcluster` that stands in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_jobs.provider import Facts, Problem, Source, Spec
from runspec_parallelcluster import PROVIDER
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_parallelcluster.session.pcluster import NotThere

SUBNET = "subnet-0123456789abcdef0"
BASE = {"region": "us-east-1", "subnets": [SUBNET], "key_pair": "my-key"}
RUN = "train-abc123"
ASKED = {"schema": {"version": "3.16.1", "problems": []}}


def spec(**fields: Any) -> Spec:
    least = {"apiVersion": "runspec/v1", "name": "train", "provider": "parallelcluster"}
    if "run" not in fields and "command" not in fields:
        fields["command"] = ["true"]
    return Spec.model_validate({**least, **fields})


def options(**settings: Any) -> ParallelClusterOptions:
    found = {key: value for key, value in {**BASE, **settings}.items() if value is not None}
    return ParallelClusterOptions.model_validate(found)


def facts(of: Spec, survey: Mapping[str, Any] = ASKED, **settings: Any) -> Facts:
    sources = {
        m.name: Source("sha256:" + "5" * 64, 3, 4096) for m in of.mounts if m.scheme == "file"
    }
    return Facts(options(**settings), sources, survey=survey)


def problems(of: Spec, severity: str = "error", **settings: Any) -> list[Problem]:
    found = PROVIDER.check(of, facts(of, **settings))
    return [problem for problem in found if problem.severity == severity]


class Pcluster:
    """What `pcluster` knows of clusters, by name; calls are noted. It says no where the test says so."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, ...]] = []
        self.refuse: dict[str, list[Exception]] = {}
        self.later: dict[str, list[dict[str, Any]]] = {}  # how a cluster is at the next looks

    def run(
        self,
        operation: str,
        cluster: str,
        *words: str,
        configuration: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        self.calls.append((operation, cluster, *words))
        if self.refuse.get(operation):
            raise self.refuse[operation].pop(0)
        if configuration is not None:
            tags = [{"key": t["Key"], "value": t["Value"]} for t in configuration.get("Tags", ())]
            self.there[cluster] = {**self.there.get(cluster, up()), "tags": tags}
        if cluster not in self.there:
            raise NotThere(f"Cluster '{cluster}' does not exist")
        if operation == "describe-cluster" and self.later.get(cluster):
            self.there[cluster] |= self.later[cluster].pop(0)
        found = self.there[cluster]
        if operation == "delete-cluster":
            del self.there[cluster]
        return found

    def changes(self) -> list[tuple[str, ...]]:
        return [call for call in self.calls if call[0] != "describe-cluster"]


def up(**more: Any) -> dict[str, Any]:
    """Give what is said of a cluster that is up.

    https://docs.aws.amazon.com/parallelcluster/latest/ug/API-reference-DescribeCluster-v3.html
    """
    return {
        "clusterStatus": "CREATE_COMPLETE",
        "computeFleetStatus": "RUNNING",
        "headNode": {"publicIpAddress": "192.0.2.7", "privateIpAddress": "10.0.0.7"},
        "tags": [],
        **more,
    }
