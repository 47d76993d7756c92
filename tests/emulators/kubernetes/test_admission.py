"""What admits pods: the pod security standard "restricted", limit ranges and quotas; and who may do what."""

from __future__ import annotations

import pytest

from runspec_emulators.kubernetes.api.access import User
from tests.emulators.kubernetes.bench import JOBS_PATH, PODS_PATH, Bench, indexed, pod

SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.fixture
def restricted(bench: Bench) -> Bench:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    patch = {"metadata": {"labels": labels}}
    kind = "application/merge-patch+json"
    assert bench.call("PATCH", "/api/v1/namespaces/default", patch, kind)[0] == 200
    return bench


def test_a_pod_that_breaks_the_standard_is_refused(restricted: Bench) -> None:
    status, value = restricted.call("POST", PODS_PATH, pod())

    assert (status, value["reason"]) == (403, "Forbidden")
    assert value["message"] == (
        'pods "p" is forbidden: violates PodSecurity "restricted:latest": '
        'allowPrivilegeEscalation != false (container "job" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "job" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "job" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "job" must set securityContext.seccompProfile.type to "RuntimeDefault" '
        'or "Localhost")'
    )


def test_a_pod_that_keeps_the_standard_is_admitted(restricted: Bench) -> None:
    restricted.make(PODS_PATH, pod(securityContext=SAFE))


def test_a_job_whose_pods_break_the_standard_is_made_and_has_no_pods(restricted: Bench) -> None:
    restricted.make(JOBS_PATH, indexed())
    restricted.step(1)

    events = restricted.get("/api/v1/namespaces/default/events")["items"]
    assert restricted.pods() == []
    assert {e["reason"] for e in events} == {"FailedCreate"}


def test_a_quota_wants_requests_and_counts_them(bench: Bench) -> None:
    hard = {"requests.cpu": "3"}
    bench.make(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})

    status, value = bench.call("POST", PODS_PATH, pod("a"))
    assert status == 403
    assert value["message"].endswith("failed quota: q: must specify requests.cpu for: job")

    bench.make(PODS_PATH, pod("b", resources={"requests": {"cpu": "2"}}))
    status, value = bench.call(
        "POST", PODS_PATH, pod("c", resources={"requests": {"cpu": "1500m"}})
    )
    bench.step()

    why = "exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=2, limited: requests.cpu=3"
    assert value["message"] == f'pods "c" is forbidden: {why}'
    assert bench.get(f"{QUOTAS}/q")["status"]["used"] == {"requests.cpu": "2"}


def test_a_limit_range_gives_defaults(bench: Bench) -> None:
    limit = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}
    path = "/api/v1/namespaces/default/limitranges"
    bench.make(path, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})

    made = bench.make(PODS_PATH, pod())

    resources = made["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}


READER = User(
    "reader",
    ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespace": "default"},),
)


def test_who_has_no_rule_is_forbidden(bench: Bench) -> None:
    assert bench.call("GET", f"{PODS_PATH}/p", user=READER)[0] == 404

    status, value = bench.call("GET", JOBS_PATH, user=READER)

    why = (
        'User "reader" cannot list resource "jobs" in API group "batch" in the namespace "default"'
    )
    assert (status, value["reason"]) == (403, "Forbidden")
    assert value["message"] == f"jobs.batch is forbidden: {why}"
    assert value["details"] == {"group": "batch", "kind": "jobs"}


def test_everybody_may_review_his_own_access(bench: Bench) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    def may(verb: str, sub: str = "") -> bool:
        wanted = {"verb": verb, "resource": "pods", "namespace": "default", "subresource": sub}
        body = {"spec": {"resourceAttributes": wanted}}
        status, value = bench.call("POST", path, body, user=READER)
        assert status == 201
        return bool(value["status"]["allowed"])

    assert (may("get"), may("list"), may("get", "log")) == (True, False, False)
    rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    value = bench.call("POST", rules, {"spec": {"namespace": "default"}}, user=READER)[1]
    assert value["status"]["resourceRules"] == [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    ]


def test_a_pod_wants_a_service_account_that_is_there(bench: Bench) -> None:
    body = pod()
    body["spec"]["serviceAccountName"] = "other"

    status, value = bench.call("POST", PODS_PATH, body)

    why = 'error looking up service account default/other: serviceaccount "other" not found'
    assert (status, value["message"]) == (403, f'pods "p" is forbidden: {why}')
