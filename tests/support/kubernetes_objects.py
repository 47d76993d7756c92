"""What an API server of Kubernetes has against an object, and limits that it leaves to others.

The forms are those of the emulator, made from the OpenAPI of kube-apiserver 1.36.2.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runspec_emulators.frame.errors import ServiceError
from runspec_emulators.kubernetes.api import admission, defaults, job_rules, names, schema
from runspec_jobs.provider import Step
from runspec_jobs.provider.payload import pack_agent

Object = Mapping[str, Any]
# https://kubernetes.io/docs/concepts/configuration/configmap/#motivation
MOST_DATA = 1 << 20
# --max-request-bytes of etcd: https://etcd.io/docs/v3.6/dev-guide/limit/
MOST_BYTES = 1_500_000
LARGEST = 2**31 - 1
VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def _fill(value: Any) -> Any:
    """Return *value* with some text for what is filled in when a request is sent."""
    if isinstance(value, dict):
        if value.keys() == {"$inside"}:
            return base64.b64encode(pack_agent()).decode()
        if len(value) == 1 and next(iter(value)).startswith("$"):
            return "secret"
        return {key: _fill(inner) for key, inner in value.items()}
    return [_fill(inner) for inner in value] if isinstance(value, list) else value


def list_objects(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Return the objects that *steps* make."""
    return [_fill(s.do.params["body"]) for s in steps if s.do.operation == "create"]


def list_faults(body: Object) -> list[str]:
    """Return what is wrong with the body of a request that makes an object."""
    decoder = schema.Decoder(body["kind"], "v1")
    try:
        value = decoder.decode(json.loads(json.dumps(body)))
    except ServiceError as exc:
        return [exc.message]
    faults = [*decoder.unknown, *(f"{c.field}: {c.message}" for c in decoder.causes)]
    faults += [
        f"{c.field}: {c.message}" for c in names.check_metadata(body["kind"], value["metadata"])
    ]
    if len(json.dumps(body)) > MOST_BYTES:
        faults.append("the object is larger than etcd takes")
    for field in ("data", "stringData", "binaryData"):
        faults += [f"{c.field}: {c.message}" for c in names.check_keys(body.get(field, {}), field)]
    if sum(map(_size, _contents(body))) > MOST_DATA:
        faults.append("the data is larger than 1 MiB")
    if body["kind"] == "Job":
        faults += _job_faults(value)
    return faults


def _contents(body: Object) -> Iterator[bytes]:
    for field in ("data", "stringData"):
        yield from (text.encode() for text in body.get(field, {}).values())
    yield from (base64.b64decode(text) for text in body.get("binaryData", {}).values())


def _size(content: bytes) -> int:
    return len(content)


def _job_faults(value: dict[str, Any]) -> Iterator[str]:
    defaults.set_defaults("Job", value)
    yield from (f"{c.field}: {c.message}" for c in job_rules.check(value))
    spec = value["spec"]
    pod = spec["template"]["spec"]
    yield from _limits(spec)
    yield from _pod_faults(pod)


def _limits(spec: Object) -> Iterator[str]:
    if spec["completions"] > 100_000:
        yield "completions: over 10^5"
    for rule in spec["podFailurePolicy"]["rules"]:
        codes = rule.get("onExitCodes", {}).get("values", [1])
        if codes != sorted(set(codes)) or 0 in codes:
            yield f"exit codes {codes} are not in order"


def _pod_faults(pod: Object) -> Iterator[str]:
    if pod.get("activeDeadlineSeconds", 1) > LARGEST:
        yield "activeDeadlineSeconds is too large"
    (container,) = pod["containers"]
    yield from _twice("variable", (entry["name"] for entry in container["env"]))
    yield from (f"{n} is no variable" for n in _names(container) if not VARIABLE.fullmatch(n))
    mounts = container["volumeMounts"]
    yield from _twice("mount path", (mount["mountPath"] for mount in mounts))
    for mount in mounts:
        path, below = mount["mountPath"], mount.get("subPath", "")
        if not path.startswith("/") or ":" in path:
            yield f"the mount path {path} is not absolute"
        if below.startswith("/") or ".." in below.split("/"):
            yield f"the sub-path {below} leads out of its volume"
    used = {mount["name"] for mount in mounts}
    yield from (f"nothing mounts {v['name']}" for v in pod["volumes"] if v["name"] not in used)
    for toleration in pod.get("tolerations", ()):
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            yield f"{toleration} has a value"
    for term in _terms(pod):
        for wanted in term["matchExpressions"]:
            yield from map(
                str, names.check_labels({wanted["key"]: wanted["values"][0]}, "affinity")
            )


def _names(container: Object) -> list[str]:
    return [entry["name"] for entry in container["env"]]


def _terms(pod: Object) -> Iterator[Object]:
    nodes = pod.get("affinity", {}).get("nodeAffinity", {})
    yield from (
        t["preference"] for t in nodes.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    )
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    yield from required.get("nodeSelectorTerms", ())


def _twice(what: str, values: Iterable[str]) -> Iterator[str]:
    yield from (
        f"the {what} {value} is there twice" for value, n in Counter(values).items() if n > 1
    )


def list_unrestricted(pod: dict[str, Any]) -> list[str]:
    """Return what keeps a pod from fulfilling the pod security standard `restricted`."""
    return list(admission.restricted(pod))
