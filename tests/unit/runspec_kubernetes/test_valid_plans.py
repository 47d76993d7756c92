"""Whatever is planned, the API server takes: every object, strictly, by the OpenAPI of kube-apiserver 1.36.2."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings, strategies as st

from runspec_jobs.plan import model
from runspec_jobs.provider import Facts, Source, Spec
from runspec_jobs.testing.strategies import specs
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.provider import PROVIDER
from tests.support.kubernetes_objects import list_faults, list_objects, list_unrestricted
from tests.unit.runspec_kubernetes.plans import make_spec

KEYS = {"AWS_ACCESS_KEY_ID": "env:ID", "AWS_SECRET_ACCESS_KEY": "env:KEY"}
S3 = {"store": "s3://jobs/runspec", "region": "eu-central-1", "store_keys": KEYS}
AZURE = {"store": "az://jobstore/jobs/runspec", "store_keys": {"AZURE_STORAGE_KEY": "env:KEY"}}
CLAIM = {"store": "pvc:runs.store-1"}
OWN = {
    "cloud": "gke",
    "labels": {"example.org/team": "digits", "cost": ""},
    "annotations": {"example.org/Note": "of ours"},
    "node_selector": {"topology.kubernetes.io/zone": "eu-west1-b"},
    "tolerations": [
        {"key": "night", "operator": "Equal", "value": "yes", "effect": "NoExecute"},
        {},
    ],
    "queue": "team-a",
    "priority_class": "low.priority",
    "service_account": "job.runner",
    "pull_secrets": ["registry", "other.one"],
    "keep": 3600,
}
KEY = "[a-z][a-z0-9_-]{0,39}"  # what a profile takes
FREE = {"security": "none", "host_network": True}
PROFILES = st.sampled_from(
    [{**store, **more} for store in (S3, AZURE, CLAIM, {}) for more in ({}, OWN, FREE)]
)
drawn = settings(
    max_examples=25,
    phases=(Phase.generate,),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def facts_of(spec: Spec, profile: dict[str, Any], is_file: bool) -> Facts:
    """Return facts in which all exists that *spec* names."""
    kinds = spec.cluster.gpu_types
    shared = [m.place.partition("/")[0] for m in spec.mounts if m.scheme == "shared"]
    known = {
        "secrets": dict.fromkeys(spec.secrets.values(), "env:TOKEN"),
        "shared": {name: "pvc:work" for name in shared if re.fullmatch(KEY, name)},
        "gpu_types": {kind: {"accelerator": "a"} for kind in kinds},
    }
    sources = {
        m.name: Source(f"sha256:{'5a' * 32}", 1, 9, is_file)
        for m in spec.mounts
        if m.scheme == "file"
    }
    return Facts(KubernetesOptions.model_validate({**known, **profile}), sources)


def refused(spec: Spec, facts: Facts) -> bool:
    return any(problem.severity == "error" for problem in PROVIDER.check(spec, facts))


def assert_valid(spec: Spec, facts: Facts) -> None:
    steps = model.make_plan(PROVIDER, spec, "abc234", facts).steps
    for body in list_objects(steps):
        assert list_faults(body) == []
        if body["kind"] == "Job" and facts.options.security == "restricted":
            assert list_unrestricted(body["spec"]["template"]["spec"]) == []


@given(specs("kubernetes"), PROFILES, st.booleans())
@drawn
def test_every_object_of_a_plan_is_valid(
    spec: Spec, profile: dict[str, Any], is_file: bool
) -> None:
    facts = facts_of(spec, profile, is_file)
    assume(not refused(spec, facts))

    assert_valid(spec, facts)


SPECS: dict[str, dict[str, Any]] = {
    "many mounts": {
        "mounts": [
            {"name": f"a{'_' * n}-", "source": "./a", "target": f"/job/a{n}/b"}
            for n in range(1, 20)
        ],
        "outputs": [{"name": "a-", "path": "/job/out"}, {"name": "b_" * 20, "path": "/job/out2"}],
    },
    "shares": {
        "mounts": [
            {"name": f"m{n}", "source": f"shared://{name}/x//y", "target": f"/{name}"}
            for n, name in enumerate(["a_b", "a-b", "a-", "b" * 40])
        ]
    },
    "largest sweep": {
        "command": ["${sweep.a}"],
        "sweep": {"a": "1..25000"},
        "cluster": {"nodes": 4},
        "max_parallel": 25000,
    },
    "long times": {"timeout": "999999d", "ttl": "999999d"},
    "nodes": {
        "name": "n" * 40,
        "cluster": {"nodes": 3, "gpus": 8, "gpu_type": "A100-80GB", "capacity": "spot"},
        "container": {"shm": "8GiB", "image": "example.org:5000/a/b@sha256:" + "a" * 64},
    },
    "either": {
        "cluster": {
            "nodes": {"min": 1, "max": 8},
            "cpus": 8,
            "memory": "999999999TiB",
            "disk": "1GiB",
            "capacity": "spot-then-on-demand",
        },
    },
    "variables": {
        "env": {"_": "$(A)$$", "A": "\n'\"é", "HOME": "/x"},
        "secrets": {"B": "same", "C": "same"},
    },
    "failures": {"sweep": {"a": "1..3"}, "command": ["${sweep.a}"], "max_failed": 3},
}


@pytest.mark.parametrize("more", [{}, OWN, FREE], ids=["plain", "settings", "free"])
@pytest.mark.parametrize("store", [S3, AZURE, CLAIM], ids=["s3", "azure", "claim"])
@pytest.mark.parametrize("name", SPECS)
def test_objects_with_much_in_them_are_valid(
    name: str, store: dict[str, Any], more: dict[str, Any]
) -> None:
    spec = make_spec(**SPECS[name])
    cloud = {"cloud": "eks"} if spec.cluster.capacity != "on-demand" else {}
    facts = facts_of(spec, {**store, **more, **cloud}, is_file=False)
    assert not refused(spec, facts), list(PROVIDER.check(spec, facts))

    assert_valid(spec, facts)


@pytest.mark.parametrize(
    "change,said",
    [
        ({"sped": {}}, "unknown field"),
        ({"metadata": {"name": "A_b"}}, "must consist of lower case"),
    ],
)
def test_what_the_server_would_refuse_is_found(change: dict[str, Any], said: str) -> None:
    spec = make_spec()
    steps = PROVIDER.plan(spec, "job-abc234", facts_of(spec, {}, is_file=False))
    body = next(body for body in list_objects(steps) if body["kind"] == "Job")

    assert any(said in fault for fault in list_faults({**body, **change}))
