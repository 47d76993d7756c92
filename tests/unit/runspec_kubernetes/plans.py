"""Specs for Kubernetes, facts of a cluster that is nobody's, and what is planned for them."""

from __future__ import annotations

from typing import Any

from runspec_jobs.provider import Facts, Problem, Source, Spec, Step
from runspec_jobs.testing import documents
from runspec_kubernetes.decision import Decision, decide
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.provider import PROVIDER

RUN = "job-7k2m9q"
STORE = {"store": "s3://jobs/runspec", "region": "eu-central-1"}
WORDS = {"name": "words", "source": "./words.txt", "target": "/job/in/words.txt"}
CODE = {"name": "code", "source": "./code", "target": "/job/code"}
MODEL = {"name": "model", "path": "/job/model"}


def make_spec(**fields: Any) -> Spec:
    """Return a job for Kubernetes with *fields*."""
    job = {"apiVersion": "runspec/v1", "name": "job", "provider": "kubernetes"}
    runs = "run" in fields or "entrypoint" in fields.get("container", {})
    program = {} if runs else {"command": ["true"]}
    spec, problems = documents.parse_spec({**job, **program, **fields})
    assert spec is not None, problems
    return spec


def make_facts(spec: Spec, profile: dict[str, Any] = STORE, *, complete: bool = True) -> Facts:
    """Return the facts for *spec* with the options of *profile*; sources that end in .txt are files."""
    secrets = {name: f"env:{name.upper()}" for name in spec.secrets.values()}
    options = KubernetesOptions.model_validate({"secrets": secrets, **profile})
    sources = {
        mount.name: Source("sha256:" + "5" * 64, 1, 10, mount.target.endswith(".txt"))
        for mount in spec.mounts
        if mount.scheme == "file"
    }
    return Facts(options, sources, complete=complete)


def list_problems(spec: Spec, profile: dict[str, Any] = STORE, **how: Any) -> list[Problem]:
    return list(PROVIDER.check(spec, make_facts(spec, profile, **how)))


def errors(spec: Spec, profile: dict[str, Any] = STORE, **how: Any) -> list[str]:
    """Return what the errors of *spec* say."""
    return [p.what for p in list_problems(spec, profile, **how) if p.severity == "error"]


def decision_of(profile: dict[str, Any] = STORE, **fields: Any) -> Decision:
    spec = make_spec(**fields)
    return decide(spec, make_facts(spec, profile))


def steps_of(spec: Spec, profile: dict[str, Any] = STORE) -> dict[str, Step]:
    """Return the steps for *spec*, which must have no error, by id."""
    assert errors(spec, profile) == []
    return {step.id: step for step in PROVIDER.plan(spec, RUN, make_facts(spec, profile))}


def job_of(profile: dict[str, Any] = STORE, **fields: Any) -> dict[str, Any]:
    """Return the specification of the Job for a spec with *fields*."""
    body: dict[str, Any] = steps_of(make_spec(**fields), profile)["job"].do.params["body"]
    return dict(body["spec"])


def pod_of(profile: dict[str, Any] = STORE, **fields: Any) -> dict[str, Any]:
    return dict(job_of(profile, **fields)["template"]["spec"])


def container_of(profile: dict[str, Any] = STORE, **fields: Any) -> dict[str, Any]:
    return dict(pod_of(profile, **fields)["containers"][0])


def env_of(profile: dict[str, Any] = STORE, **fields: Any) -> dict[str, Any]:
    """Return the variables of the container by name, each with its value or where that comes from."""
    listed = container_of(profile, **fields)["env"]
    named = {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in listed}
    assert len(named) == len(listed), "a variable is there twice"
    return named


def paths_of(profile: dict[str, Any] = STORE, **fields: Any) -> list[str]:
    """Return where the container has volumes."""
    return [mount["mountPath"] for mount in container_of(profile, **fields)["volumeMounts"]]
