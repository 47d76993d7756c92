"""The same questions to the emulator and to a real API server: what both answer alike.

What is asked is true of Kubernetes 1.20, which the tests build, and of 1.36 as its sources say. Texts of messages that
have changed in between are not compared.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runspec_emulators.kubernetes import Kubernetes
from tests.support.kubernetes.api import MERGE, Answer, Api
from tests.support.kubernetes.cluster import control_plane, kubernetes
from tests.support.kubernetes.jobs import (
    await_phase,
    jobs_of,
    objects_of,
    pods_of,
    shell_job,
)
from tests.support.wait import until

__all__ = ["control_plane", "kubernetes"]
pytestmark = pytest.mark.process
Object = dict[str, Any]
SERVER = pytest.param("server", marks=[pytest.mark.slow, pytest.mark.matrix])
REVIEWS = "/apis/authorization.k8s.io/v1"
OTHER_UID = "11111111-1111-1111-1111-111111111111"


@pytest.fixture(scope="module", params=["emulator", SERVER])
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Callable[[], object] | None]]:
    """Give a kubeconfig, and what makes the server forget old versions if the tests can have it do so."""
    if request.param == "server":
        plane = request.getfixturevalue("control_plane")
        forget = None if plane is None else plane.forget
        yield request.getfixturevalue("kubernetes"), forget
        return
    with Kubernetes(tmp_path_factory.mktemp("emulator")) as emulator:
        yield emulator.kubeconfig, lambda: emulator.control("POST", "forget")


@pytest.fixture
def api(asked: tuple[Path, object]) -> Iterator[Api]:
    with Api.opened(asked[0]) as opened:
        yield opened


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    name = f"asks-{secrets.token_hex(4)}"
    api.must("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    until(lambda: api.call("GET", account).status == 200, limit_s=20.0)
    yield name
    api.must("DELETE", f"/api/v1/namespaces/{name}")


class Asked(NamedTuple):
    """A request to a collection of a test's namespace, and how it is refused."""

    verb: str
    path: str
    body: object
    status: int
    reason: str | None
    message: str
    """Or its beginning."""
    details: Object | None = None


def config(name: str = "kept", **more: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


def with_meta(**meta: Any) -> Object:
    return config(metadata={"name": "kept", **meta})


UNRECOGNIZED = (
    "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; "
    "json parse error: "
)
STALE = (
    'Operation cannot be fulfilled on configmaps "kept": the object has been modified; '
    "please apply your changes to the latest version and try again"
)
NEVER = (
    'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Never": '
    "supported values: "
)
KEPT = {"name": "kept", "kind": "configmaps"}
REFUSED: dict[str, Asked] = {
    "config map that is not there": Asked(
        "GET",
        "configmaps/none",
        None,
        404,
        "NotFound",
        'configmaps "none" not found',
        {"name": "none", "kind": "configmaps"},
    ),
    "job that is not there": Asked(
        "DELETE",
        "jobs/none",
        None,
        404,
        "NotFound",
        'jobs.batch "none" not found',
        {"name": "none", "group": "batch", "kind": "jobs"},
    ),
    "name that is taken": Asked(
        "POST",
        "configmaps",
        config(),
        409,
        "AlreadyExists",
        'configmaps "kept" already exists',
        KEPT,
    ),
    "old version": Asked(
        "PUT", "configmaps/kept", with_meta(resourceVersion="1"), 409, "Conflict", STALE, KEPT
    ),
    "old version in a patch": Asked(
        "PATCH",
        "configmaps/kept",
        {"metadata": {"resourceVersion": "1"}, "data": {"b": "2"}},
        409,
        "Conflict",
        STALE,
        KEPT,
    ),
    "another name in the body": Asked(
        "PUT",
        "configmaps/kept",
        config("other"),
        400,
        "BadRequest",
        "the name of the object (other) does not match the name on the URL (kept)",
    ),
    "another name in a patch": Asked(
        "PATCH",
        "configmaps/kept",
        {"metadata": {"name": "other"}},
        400,
        "BadRequest",
        "the name of the object (other) does not match the name on the URL (kept)",
    ),
    "another uid in a patch": Asked(
        "PATCH",
        "configmaps/kept",
        {"metadata": {"uid": "other"}},
        422,
        "Invalid",
        'ConfigMap "kept" is invalid: metadata.uid: Invalid value: "other": field is immutable',
    ),
    "version of a new object": Asked(
        "POST",
        "configmaps",
        config(metadata={"name": "new", "resourceVersion": "5"}),
        500,
        None,
        "resourceVersion should not be set on objects to be created",
    ),
    "no body": Asked("POST", "configmaps", b"", 400, "BadRequest", UNRECOGNIZED),
    "no JSON": Asked("POST", "configmaps", b"{nope", 400, "BadRequest", UNRECOGNIZED),
    "no object": Asked("POST", "configmaps", [1], 400, "BadRequest", UNRECOGNIZED),
    "object of another kind": Asked(
        "POST",
        "configmaps",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}},
        400,
        "BadRequest",
        'Pod in version "v1" cannot be handled as a ConfigMap: ',
    ),
    "version that is not there": Asked(
        "POST",
        "jobs",
        {"apiVersion": "batch/v7", "kind": "Job", "metadata": {"name": "new"}},
        400,
        "BadRequest",
        'Job in version "v7" cannot be handled as a Job: no kind "Job" is registered for version "batch/v7"',
    ),
    "key that is there twice": Asked(
        "POST",
        "configmaps",
        config("new", data={"a": "1"}, binaryData={"a": "MQ=="}),
        422,
        "Invalid",
        'ConfigMap "new" is invalid: data[a]: Invalid value: "a": duplicate of key present in binaryData',
    ),
    "finalizer without a domain": Asked(
        "POST",
        "configmaps",
        config(metadata={"name": "new", "finalizers": ["plain"]}),
        422,
        "Invalid",
        'ConfigMap "new" is invalid: metadata.finalizers[0]: Invalid value: "plain": '
        "name is neither a standard finalizer name nor is it fully qualified",
    ),
    "half a dry run": Asked(
        "POST",
        "configmaps?dryRun=Some",
        config("new"),
        422,
        "Invalid",
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ',
    ),
    "uid of another object": Asked(
        "DELETE",
        "configmaps/kept",
        {"preconditions": {"uid": OTHER_UID}},
        409,
        "Conflict",
        'Operation cannot be fulfilled on ConfigMap "kept": '
        f"the UID in the precondition ({OTHER_UID}) does not match the UID in record (",
        {"name": "kept", "kind": "ConfigMap"},
    ),
    "version before": Asked(
        "DELETE",
        "configmaps/kept",
        {"preconditions": {"resourceVersion": "1"}},
        409,
        "Conflict",
        'Operation cannot be fulfilled on ConfigMap "kept": '
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (",
        {"name": "kept", "kind": "ConfigMap"},
    ),
    "unknown policy": Asked(
        "DELETE", "configmaps/kept", {"propagationPolicy": "Never"}, 422, "Invalid", NEVER
    ),
    "unknown policy of nothing": Asked(
        "DELETE", "jobs/none?propagationPolicy=Never", None, 422, "Invalid", NEVER
    ),
    "two policies": Asked(
        "DELETE",
        "configmaps/kept",
        {"propagationPolicy": "Foreground", "orphanDependents": True},
        422,
        "Invalid",
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Foreground": '
        "orphanDependents and deletionPropagation cannot be both set",
    ),
    "page of another version": Asked(
        "GET",
        "configmaps?limit=1&resourceVersion=1&continue=CONTINUE",
        None,
        400,
        "BadRequest",
        "specifying resource version is not allowed when using continue",
    ),
    "set without brackets": Asked(
        "GET",
        "configmaps?labelSelector=a+in+b",
        None,
        400,
        "BadRequest",
        "unable to parse requirement: found 'b' expected: '('",
    ),
    "two values of a label": Asked(
        "GET",
        "configmaps?labelSelector=a%3Db%3Dc",
        None,
        400,
        "BadRequest",
        "found '=', expected: ',' or 'end of string'",
    ),
    "field that selects nothing": Asked(
        "GET",
        "configmaps?fieldSelector=data.a%3D1",
        None,
        400,
        "BadRequest",
        '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    "rule without a version": Asked(
        "GET",
        "configmaps?resourceVersionMatch=Exact",
        None,
        422,
        "Invalid",
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        "resourceVersionMatch is forbidden unless resourceVersion is provided",
    ),
    "version to come": Asked(
        "GET",
        "configmaps/kept?resourceVersion=99999999",
        None,
        504,
        "Timeout",
        "Timeout: Too large resource version: 99999999, current: ",
    ),
    "resource that is not there": Asked(
        "GET",
        "nothings",
        None,
        404,
        "NotFound",
        "the server could not find the requested resource",
        {},
    ),
    "method of another path": Asked(
        "POST",
        "configmaps/kept",
        config(),
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    ),
    "log that is written to": Asked(
        "POST",
        "pods/none/log",
        {},
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    ),
    "command in no pod": Asked(
        "GET", "pods/none/exec?command=ls", None, 404, "NotFound", 'pods "none" not found'
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(api: Api, namespace: str, what: str) -> None:
    """A request is refused with the same status, reason and words."""
    question = REFUSED[what]
    api.must("POST", objects_of(namespace, "configmaps"), config(data={"a": "1"}))
    path = path_of(namespace, question.path)
    if "CONTINUE" in path:
        api.must("POST", objects_of(namespace, "configmaps"), config("more"))
        first = api.get(objects_of(namespace, "configmaps"), limit=1)
        path = path.replace("CONTINUE", first["metadata"]["continue"])
    kind = MERGE if question.verb == "PATCH" else "application/json"

    answer = api.call(question.verb, path, question.body, kind)

    assert (answer.status, answer.body.get("reason")) == (question.status, question.reason)
    assert answer.body["message"][: len(question.message)] == question.message
    if question.details is not None:
        assert answer.body["details"] == question.details


def path_of(namespace: str, path: str) -> str:
    resource, _, rest = path.partition("/")
    if resource.startswith("jobs"):
        return f"{jobs_of(namespace)}/{rest}" if rest else jobs_of(namespace)
    return objects_of(namespace, path)


def change(pod: Object, container: Object) -> Callable[[Object], None]:
    """Return what puts fields into the pod of a Job, and into its container."""

    def apply(job: Object) -> None:
        spec = job["spec"]["template"]["spec"]
        spec |= copy.deepcopy(pod)
        spec["containers"][0] |= copy.deepcopy(container)

    return apply


POD, CONTAINER = "spec.template.spec", "spec.template.spec.containers[0]"
TWO_SOURCES = {"name": "v", "emptyDir": {}, "configMap": {"name": "a"}}
MOUNTED = {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../x"}]}
ROOM = {"volumes": [{"name": "v", "emptyDir": {}}]}
GPU = "nvidia.com/gpu"
EXISTS = {"key": "a", "operator": "Exists", "value": "x"}
FOR_A_WHILE = {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}
# What is put into a pod and its container, the field at fault, and the end of what is said of it.
WRONG: dict[str, tuple[Object, Object, str, str]] = {
    "variable with an equals sign": (
        {},
        {"env": [{"name": "a=b", "value": "1"}]},
        f"{CONTAINER}.env[0].name",
        "",
    ),
    "variable without a name": (
        {},
        {"env": [{"name": "", "value": "1"}]},
        f"{CONTAINER}.env[0].name",
        "Required value",
    ),
    "volume of two kinds": (
        {"volumes": [TWO_SOURCES]},
        {},
        f"{POD}.volumes[0].configMap",
        "Forbidden: may not specify more than 1 volume type",
    ),
    "path out of a volume": (
        ROOM,
        MOUNTED,
        f"{CONTAINER}.volumeMounts.subPath",
        "must not contain '..'",
    ),
    "negative limit": (
        {},
        {"resources": {"limits": {"cpu": "-1"}}},
        f"{CONTAINER}.resources.limits[cpu]",
        "must be greater than or equal to 0",
    ),
    "value of a toleration": (
        {"tolerations": [EXISTS]},
        {},
        f"{POD}.tolerations[0].operator",
        "value must be empty when `operator` is 'Exists'",
    ),
    "seconds of a toleration": (
        {"tolerations": [FOR_A_WHILE]},
        {},
        f"{POD}.tolerations[0].effect",
        "effect must be 'NoExecute' when `tolerationSeconds` is set",
    ),
    "negative user": (
        {"securityContext": {"runAsUser": -1}},
        {},
        f"{POD}.securityContext.runAsUser",
        "must be between 0 and 2147483647, inclusive",
    ),
    "more GPUs than the limit": (
        {},
        {"resources": {"limits": {GPU: "1"}, "requests": {GPU: "2"}}},
        f"{CONTAINER}.resources.requests",
        "",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_pods(api: Api, namespace: str, what: str) -> None:
    """A Job whose pods would be wrong is refused, and the only cause names the field."""
    pod, container, field, message = WRONG[what]
    job = shell_job("wrong", "true")
    change(pod, container)(job)

    answer = api.call("POST", jobs_of(namespace), job)

    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    (cause,) = answer.body["details"]["causes"]
    assert cause["field"] == field
    assert cause["message"].endswith(message)


def test_wrong_names_of_resources(api: Api, namespace: str) -> None:
    """A limit of something that no container has is refused for two causes."""
    job = shell_job("wrong", "true", resources={"limits": {"cores": "1"}})

    causes = api.call("POST", jobs_of(namespace), job).body["details"]["causes"]

    assert [cause["message"].rpartition(": ")[2] for cause in causes] == [
        "must be a standard resource type or fully qualified",
        "must be a standard resource for containers",
    ]


def test_negative_deadline(api: Api, namespace: str) -> None:
    """The deadline of a Job may be 0, and is not negative."""
    job = shell_job("wrong", "true")
    job["spec"]["activeDeadlineSeconds"] = -1

    (cause,) = api.call("POST", jobs_of(namespace), job).body["details"]["causes"]

    assert cause["message"] == "Invalid value: -1: must be greater than or equal to 0"


def test_items_of_a_list_have_no_kind(api: Api, namespace: str) -> None:
    """A list names the kind of its items once."""
    maps = objects_of(namespace, "configmaps")
    api.must("POST", maps, config(data={"a": "1"}))

    listed = api.get(maps, fieldSelector="metadata.name=kept")

    assert [sorted(item) for item in listed["items"]] == [["data", "metadata"]]


def test_job_without_a_policy_leaves_its_pods(api: Api, namespace: str) -> None:
    """A Job that is deleted without a policy leaves its pods, as batch/v1 has done since it began."""
    api.must("POST", jobs_of(namespace), shell_job("leaves", "sleep 600"))
    await_phase(api, namespace, "leaves", "Running")

    deleted = api.must("DELETE", f"{jobs_of(namespace)}/leaves")

    assert deleted["kind"] == "Job"
    assert deleted["metadata"]["finalizers"] == ["orphan"]
    until(lambda: api.call("GET", f"{jobs_of(namespace)}/leaves").status == 404)
    (pod,) = pods_of(api, namespace, "leaves")
    assert "deletionTimestamp" not in pod["metadata"]
    assert not pod["metadata"].get("ownerReferences")


def test_name_that_goes(api: Api, namespace: str) -> None:
    """An object that is being deleted keeps its name, and takes no more finalizers."""
    maps = objects_of(namespace, "configmaps")
    api.must("POST", maps, with_meta(finalizers=["example.com/a"]))
    api.must("DELETE", f"{maps}/kept")

    again = api.call("POST", maps, config())
    more = {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}
    added = api.call("PATCH", f"{maps}/kept", more, MERGE)

    assert again.body["message"] == 'object is being deleted: configmaps "kept" already exists'
    assert added.body["message"].endswith(
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/b"}'
    )
    api.must("PATCH", f"{maps}/kept", {"metadata": {"finalizers": None}})
    assert api.call("GET", f"{maps}/kept").status == 404


def test_list_as_it_was(api: Api, namespace: str) -> None:
    """A list of an exact version has what was there then."""
    maps = objects_of(namespace, "configmaps")
    api.must("POST", maps, config())
    version = api.get(maps)["metadata"]["resourceVersion"]
    api.must("POST", maps, config("later"))

    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    names = {item["metadata"]["name"] for item in api.get(maps, **exact)["items"]}

    assert "kept" in names
    assert "later" not in names


def test_list_that_is_forgotten(
    api: Api, namespace: str, asked: tuple[Path, Callable[[], object] | None]
) -> None:
    """A page of a forgotten version is refused, with a token that goes on with what is there now."""
    if asked[1] is None:
        pytest.skip("the server of somebody else forgets when it does")
    maps = objects_of(namespace, "configmaps")
    for name in ("a", "b", "c"):
        api.must("POST", maps, {**config(name), "metadata": {"name": name, "labels": {"x": "y"}}})
    first = api.get(maps, limit=1, labelSelector="x=y")
    api.must("PATCH", f"{maps}/b", {"data": {"a": "2"}})
    asked[1]()

    page: dict[str, Any] = {"limit": 1, "labelSelector": "x=y"}
    late = api.call("GET", maps, **{**page, "continue": first["metadata"]["continue"]})
    exact: dict[str, Any] = {"resourceVersion": first["metadata"]["resourceVersion"]}
    as_it_was = api.call("GET", maps, resourceVersionMatch="Exact", **exact)
    rest = api.get(maps, **{**page, "continue": late.body["metadata"]["continue"]})

    assert (late.status, late.body["reason"]) == (410, "Expired")
    assert late.body["message"].startswith("The provided continue parameter is too old to display")
    assert (as_it_was.status, as_it_was.body["reason"]) == (410, "Expired")
    assert as_it_was.body["message"] == "The resourceVersion for the provided list is too old."
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b"]


def test_namespace_that_goes(api: Api, namespace: str) -> None:
    """Nothing is made in a namespace that is being deleted, and the cause says so."""
    held = f"{namespace}-goes"
    api.must("POST", "/api/v1/namespaces", {"metadata": {"name": held}})
    maps = objects_of(held, "configmaps")
    api.must("POST", maps, with_meta(finalizers=["example.com/a"]))
    api.must("DELETE", f"/api/v1/namespaces/{held}")

    answer = api.call("POST", maps, config("late"))

    api.must("PATCH", f"{maps}/kept", {"metadata": {"finalizers": None}})
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    (cause,) = answer.body["details"]["causes"]
    assert cause == {
        "reason": "NamespaceTerminating",
        "message": f"namespace {held} is being terminated",
        "field": "metadata.namespace",
    }


def test_log_of_a_pod_without_a_node(api: Api, namespace: str) -> None:
    """The log of a pod that has no node is empty; a command in it is refused."""
    job = shell_job("large", "true", resources={"limits": {"cpu": "100000"}})
    api.must("POST", jobs_of(namespace), job)
    until(lambda: pods_of(api, namespace, "large"))
    name = pods_of(api, namespace, "large")[0]["metadata"]["name"]
    path = f"{objects_of(namespace, 'pods')}/{name}"

    log = api.call("GET", f"{path}/log", parse=False)
    command = api.call("GET", f"{path}/exec?command=ls")

    assert (log.status, log.body) == (204, "")
    assert command.status == 400
    assert command.body["message"] == f"pod {name} does not have a host assigned"


def parts(answer: Answer) -> tuple[int, str, list[str]]:
    causes = answer.body.get("details", {}).get("causes", ())
    said = [f"{cause['field']}: {cause['message']}" for cause in causes]
    return answer.status, answer.body["message"], said


def test_wrong_options_of_a_log(api: Api, namespace: str) -> None:
    """Options of a log are refused with their causes."""
    api.must("POST", jobs_of(namespace), shell_job("talks", "sleep 600"))
    pod = await_phase(api, namespace, "talks", "Running")["metadata"]["name"]
    log = f"{objects_of(namespace, 'pods')}/{pod}/log"
    both = {"sinceTime": "2026-01-01T00:00:00Z", "sinceSeconds": "5"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"tailLines": "-1"}, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (both, "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"),
    ]

    answers = [parts(api.call("GET", log, **query)) for query, _ in wrong]

    about = f'PodLogOptions "{pod}" is invalid: '
    assert answers == [(422, f"{about}{said}", [said]) for _, said in wrong]


def test_questions_about_rights(api: Api) -> None:
    """A review without a question is refused."""
    nothing = api.call("POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {}})
    question = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    named = {"metadata": {"name": "x"}, "spec": question}
    with_name = api.call("POST", f"{REVIEWS}/selfsubjectaccessreviews", named)
    nowhere = api.call("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {}})

    assert (nothing.status, nothing.body["details"]["causes"][0]["field"]) == (
        422,
        "spec.resourceAttributes",
    )
    assert (with_name.status, with_name.body["details"]["causes"][0]["field"]) == (422, "metadata")
    assert (nowhere.status, nowhere.body["message"]) == (400, "no namespace on request")


def test_quantities_are_written_short(api: Api, namespace: str) -> None:
    """A quota says what is used in the shortest form of a quantity."""
    quotas = objects_of(namespace, "resourcequotas")
    room = {"limits": {"cpu": "100000"}}
    api.must("POST", jobs_of(namespace), shell_job("large", "true", resources=room))
    until(lambda: pods_of(api, namespace, "large"))
    api.must("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "2"}}})

    used = until(lambda: api.get(f"{quotas}/q").get("status", {}).get("used"))

    assert used == {"requests.cpu": "100k"}
