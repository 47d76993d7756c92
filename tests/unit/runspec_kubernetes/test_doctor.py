"""Doctor says what would stop a job on a cluster, and what it could not check; it never raises."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs.provider import Facts, Finding, RemoteError, Spec
from runspec_jobs.testing import documents
from runspec_kubernetes import plan, policy
from runspec_kubernetes.doctor import cluster as cluster_doctor, job as job_doctor
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.options import KubernetesOptions
from tests.unit.runspec_kubernetes.fake_cluster import FakeCluster, FakeStore

SPACE, CORE = "/api/v1/namespaces/default", "/api/v1/namespaces/default"
A100 = {"accelerator": "a100"}


def cluster(options: KubernetesOptions, version: str = "v1.36.2", **labels: str) -> FakeCluster:
    made = FakeCluster(options)
    made.objects["/version"] = {"gitVersion": version, "metadata": {}}
    made.objects[SPACE] = {"metadata": {"labels": labels}}
    return made


def examine(made: FakeCluster, nodes: int = 1) -> dict[str, Finding]:
    asker = cluster_doctor.Examiner(made)
    found = cluster_doctor.examine_cluster(asker, made.options, nodes)
    return {finding.what: finding for finding in found}


def make(**job: Any) -> Spec:
    fields = {"apiVersion": "runspec/v1", "name": "n", "provider": "kubernetes", "command": ["a"]}
    spec, problems = documents.parse_spec(documents.merge(fields, job))
    assert spec is not None, problems
    return spec


def examine_job(made: FakeCluster, **job: Any) -> dict[str, Finding]:
    spec = make(**job)
    facts = Facts(made.options)
    steps = plan.steps(spec, "n-abc123", facts)
    found = job_doctor.examine(spec, facts, steps, cluster_doctor.Examiner(made))
    return {finding.what: finding for finding in found}


def bad(findings: dict[str, Finding]) -> list[str]:
    return [what for what, finding in findings.items() if not finding.ok]


def unknown(findings: dict[str, Finding]) -> list[str]:
    return [what for what, finding in findings.items() if finding.unknown]


def test_a_cluster_that_answers_is_told_with_its_version() -> None:
    found = examine(cluster(KubernetesOptions()))

    assert not bad(found)
    assert "the API server is Kubernetes v1.36.2" in found


def test_a_cluster_that_does_not_answer_is_one_finding() -> None:
    made = cluster(KubernetesOptions())
    made.refuses["GET /version"] = RemoteError("no route to host", transient=True)

    assert bad(examine_job(made)) == ["no route to host"]


def test_an_older_cluster_has_no_retry_by_index() -> None:
    assert bad(examine(cluster(KubernetesOptions(), "v1.28.15-gke.100"))) == [
        "the API server is Kubernetes v1.28.15-gke.100, and jobs need 1.29"
    ]


def test_a_namespace_that_is_missing_or_cannot_be_read() -> None:
    made = cluster(KubernetesOptions())
    made.refuses[f"GET {SPACE}$"] = Refused("forbidden", code=403)
    hidden = examine(made)
    made.refuses.clear()
    del made.objects[SPACE]

    assert unknown(hidden) == ["doctor cannot check namespace default: forbidden"]
    assert bad(hidden) == []
    assert bad(examine(made)) == ["there is no namespace default"]


@pytest.mark.parametrize(
    ("level", "options", "good"),
    [
        ("restricted", {}, True),
        ("restricted", {"security": "none"}, False),
        ("baseline", {"security": "none"}, True),
        ("baseline", {"host_network": True}, False),
    ],
)
def test_the_pod_security_standard_of_the_namespace(
    level: str, options: dict[str, Any], good: bool
) -> None:
    made = cluster(KubernetesOptions(**options), **{cluster_doctor.ENFORCED: level})

    assert (not bad(examine(made))) is good


def test_objects_that_the_profile_names() -> None:
    options = KubernetesOptions(
        service_account="jobs", pull_secrets=("login",), priority_class="low", queue="team"
    )
    made = cluster(options)
    made.refuses["GET .*/secrets/"] = Refused("forbidden", code=403)
    made.objects["/apis/scheduling.k8s.io/v1/priorityclasses/low"] = {"metadata": {}}
    queue = f"{cluster_doctor.QUEUES}/namespaces/default/localqueues/team"
    inactive = {"type": "Active", "status": "False", "message": "the cluster queue is missing"}
    made.objects[queue] = {"metadata": {}, "status": {"conditions": [inactive]}}

    found = examine(made)

    assert bad(found) == [
        "there is no service account jobs",
        "local queue team of Kueue: the cluster queue is missing",
    ]
    assert unknown(found) == ["doctor cannot check imagePullSecret login: forbidden"]
    assert found["priority class low"].ok


@pytest.mark.parametrize(
    ("modes", "nodes", "good"),
    [(["ReadWriteMany"], 2, True), (["ReadWriteOnce"], 2, False), (["ReadWriteOnce"], 1, True)],
)
def test_a_volume_claim_for_several_nodes(modes: list[str], nodes: int, good: bool) -> None:
    made = cluster(KubernetesOptions(shared={"data": "pvc:data"}))
    made.add("persistentvolumeclaims", "data", None, spec={"accessModes": modes})

    assert (not bad(examine(made, nodes))) is good


def test_a_store_without_conditional_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    files = FakeStore()
    monkeypatch.setattr("runspec_kubernetes.client._open_store", lambda _: files)
    made = cluster(KubernetesOptions(store="s3://bucket/runspec"))

    assert not bad(examine(made))
    monkeypatch.setattr(FakeStore, "put_new", lambda *_: True)
    assert bad(examine(made)) == [
        "the store does not obey If-None-Match: two jobs of one run could both run"
    ]
    assert not files, "the probe is deleted again"


def test_rights_that_the_login_lacks() -> None:
    made = cluster(KubernetesOptions())
    assert "the login has the rights that the job needs" in examine_job(made)
    made.forbidden = {"create jobs", "get pods/log", "delete pods", "create secrets"}

    assert bad(examine_job(made)) == [
        "the login has no right to create jobs, delete pods, get pods/log"
    ]


def test_quotas_that_a_task_never_fits_in() -> None:
    made = cluster(KubernetesOptions())
    hard = {"requests.cpu": "8", "limits.memory": "64Gi", "limits.cpu": "8", "pods": "10"}
    made.add("resourcequotas", "team", None, spec={"hard": hard}, status={"used": {"pods": "10"}})

    found = examine_job(made, cluster={"cpus": 16, "memory": "8Gi"})

    assert bad(found) == [
        "quota team: requests.cpu is 8, and a task needs 16",
        "quota team: limits.cpu must be set, and the job has none",
    ]
    assert found["quota team: pods is in use: the job waits until others end"].ok
    defaults = {"type": "Container", "default": {"cpu": "1"}, "max": {"memory": "4Gi"}}
    made.add("limitranges", "bounds", None, spec={"limits": [defaults]})
    assert bad(examine_job(made, cluster={"cpus": 4, "memory": "8Gi"})) == [
        "the namespace permits at most 4Gi memory for a pod"
    ]


def node(name: str, made: FakeCluster, room: dict[str, str], **spec: Any) -> None:
    labels = spec.pop("labels", {})
    metadata = {"name": name, "labels": labels}
    made.objects[f"/api/v1/nodes/{name}"] = {
        "metadata": metadata,
        "spec": spec,
        "status": {"allocatable": room},
    }


def test_nodes_that_can_run_a_pod_of_the_job() -> None:
    made = cluster(KubernetesOptions(gpu_types={"A100": A100}))
    room = {"cpu": "15890m", "memory": "60Gi", "nvidia.com/gpu": "8"}
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    node("tainted", made, room, labels=A100, taints=[taint])
    node("other", made, room, labels=A100, taints=[{**taint, "key": "team"}])
    node("small", made, {"cpu": "2", "memory": "4Gi"}, labels=A100)
    node("closed", made, room, labels=A100, unschedulable=True)
    node("unlabeled", made, room)
    gpus = {"gpus": 8, "gpu_type": "A100"}

    found = examine_job(made, cluster={**gpus, "cpus": 8, "memory": "32Gi"})
    more = examine_job(made, cluster={**gpus, "cpus": 16})

    assert any(what.startswith("1 of 5 nodes are large enough") for what in found)
    assert any(what.startswith("none of 5 nodes") for what in unknown(more))
    made.refuses["GET /api/v1/nodes"] = Refused("forbidden", code=403)
    assert "doctor cannot check nodes: forbidden" in unknown(examine_job(made))


def test_the_rights_of_doctor_are_those_of_its_requests() -> None:
    made = policy.doctor_policy(KubernetesOptions(queue="team", priority_class="low"))

    role, everywhere = made["items"]
    assert role["metadata"]["namespace"] == "default"
    assert {r for rule in role["rules"] for r in rule["resources"]} == {
        "namespaces",
        "persistentvolumeclaims",
        "serviceaccounts",
        "limitranges",
        "resourcequotas",
        "localqueues",
    }
    assert {r for rule in everywhere["rules"] for r in rule["resources"]} == {
        "nodes",
        "priorityclasses",
    }


def test_the_role_of_a_plan_has_what_its_steps_make() -> None:
    options = KubernetesOptions(secrets={"hf": "env:HF_TOKEN"}, queue="team")
    facts = Facts(options)
    bare = policy.policy(plan.steps(make(), "n-abc123", facts), options, of_job=False)
    asked = make(secrets={"HF_TOKEN": "hf"})
    role = policy.policy(plan.steps(asked, "n-abc123", facts), options, of_job=False)

    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "default")
    assert role["rules"][1]["resources"] == ["configmaps", "secrets"]
    assert bare["rules"][1]["resources"] == ["configmaps"]
    assert role["rules"][-1]["resources"] == ["workloads"]


def test_a_job_with_keys_needs_no_rights_of_its_own() -> None:
    options = KubernetesOptions(store="s3://bucket/runspec", service_account="jobs")

    assert policy.policy((), options, of_job=True)["actions"] == policy.S3
    assert policy.policy((), KubernetesOptions(), of_job=True)["actions"] == []
