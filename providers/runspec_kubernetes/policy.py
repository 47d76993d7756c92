"""The least rights for a plan, as a Role of the namespace, and those for doctor.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runspec_jobs.provider import Step
from runspec_kubernetes.options import KubernetesOptions

Rule = Mapping[str, list[str]]
VERSION = {"apiVersion": "rbac.authorization.k8s.io/v1"}
# What a job does at its store, which the identity of its service account must permit.
S3 = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"]
BLOB = ["Storage Blob Data Contributor"]


def policy(steps: Iterable[Step], options: KubernetesOptions, *, of_job: bool) -> dict[str, Any]:
    """Return the Role of the login or, with *of_job*, what the job does at its store; pods send the API nothing."""
    if of_job:
        identity = not options.store_keys and options.store and not options.store.startswith("pvc:")
        actions = (S3 if str(options.store).startswith("s3:") else BLOB) if identity else []
        account = f"service account {options.service_account or 'default'}"
        return {"to": account, "on": options.store if identity else None, "actions": actions}
    return _role("Role", "runspec", list_rules(steps, options), options.namespace)


def list_rules(steps: Iterable[Step], options: KubernetesOptions) -> list[Rule]:
    """Return what the login does with the objects of *steps*, and to follow, enter, end and clean up their run."""
    paths = {step.do.params["path"] for step in steps if step.do.operation == "create"}
    made = sorted({path.rpartition("/")[2] for path in paths} - {"jobs"})
    rules = [
        _rule("batch", ["jobs"], "create", "get", "list", "patch", "delete"),
        _rule("", made, "create", "get", "list", "delete"),
        *([] if options.store else [_rule("", ["configmaps"], "patch")]),  # the state of a run
        _rule("", ["pods"], "list", "delete"),
        _rule("", ["pods/log"], "get"),
        # A websocket begins with a GET; servers from 1.35 on ask for `create`, too.
        _rule("", ["pods/exec"], "get", "create"),
        _rule("", ["events"], "list"),
    ]
    if options.queue:
        rules.append(_rule("kueue.x-k8s.io", ["workloads"], "list"))
    return rules


def doctor_policy(options: KubernetesOptions) -> dict[str, Any]:
    """Return the rights for all checks: those in the namespace, and those of the whole cluster."""
    reads = ["namespaces", "persistentvolumeclaims", "serviceaccounts"]
    reads += ["secrets"] if options.pull_secrets else []
    rules = [_rule("", ["resourcequotas", "limitranges"], "list"), _rule("", reads, "get")]
    if options.queue:
        rules.append(_rule("kueue.x-k8s.io", ["localqueues"], "get"))
    everywhere = [_rule("", ["nodes"], "list")]
    if options.priority_class:
        everywhere.append(_rule("scheduling.k8s.io", ["priorityclasses"], "get"))
    name = "runspec-doctor"
    roles = [
        _role("Role", name, rules, options.namespace),
        _role("ClusterRole", name, everywhere),
    ]
    return {"apiVersion": "v1", "kind": "List", "items": roles}


def _role(kind: str, name: str, rules: list[Rule], namespace: str | None = None) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {**VERSION, "kind": kind, "metadata": metadata, "rules": rules}


def _rule(group: str, resources: list[str], *verbs: str) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
