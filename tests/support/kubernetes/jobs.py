"""Plain Jobs of a shell command, and what becomes of them."""

from __future__ import annotations

from typing import Any

from tests.support.kubernetes.api import Api
from tests.support.wait import until

Object = dict[str, Any]
IMAGE = "busybox"  # what a real node runs; the node program has no images


def jobs_of(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def objects_of(namespace: str, resource: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{resource}"


def shell_job(
    name: str, script: str, *, attempts: int = 1, pod: Object | None = None, **container: Any
) -> Object:
    """Return a Job of one pod that runs *script*; *pod* and *container* are more of their fields."""
    running = {"name": "job", "image": IMAGE, "command": ["/bin/sh", "-c", script], **container}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "containers": [running],
        **(pod or {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": attempts - 1, "template": {"spec": spec}},
    }


def run_job(api: Api, namespace: str, job: Object) -> Object:
    """Make a Job, wait for its end, and return it."""
    made: Object = api.must("POST", jobs_of(namespace), job)
    return await_job(api, namespace, made["metadata"]["name"])


def await_job(api: Api, namespace: str, name: str) -> Object:
    """Wait for the end of a Job, and return it."""

    def ended() -> Object | None:
        job: Object = api.get(f"{jobs_of(namespace)}/{name}")
        conditions = job["status"].get("conditions", ())
        kinds = {each["type"] for each in conditions if each["status"] == "True"}
        return job if kinds & {"Complete", "Failed"} else None

    job: Object = until(ended)
    return job


def pods_of(api: Api, namespace: str, job: str) -> list[Object]:
    """Return the pods of a Job, the oldest first."""
    listed = api.get(objects_of(namespace, "pods"), labelSelector=f"job-name={job}")
    pods: list[Object] = listed["items"]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def await_phase(api: Api, namespace: str, job: str, phase: str) -> Object:
    """Wait until the only pod of a Job is in *phase*, and return it."""

    def there() -> Object | None:
        pods = pods_of(api, namespace, job)
        return pods[0] if pods and pods[0]["status"]["phase"] == phase else None

    pod: Object = until(there)
    return pod


def end_of(pod: Object) -> Object:
    """Return how the container of a pod has ended."""
    ended: Object = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return ended
