"""Where the files of a run are, and the steps that write them: the agent, folders, and the record of the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache

from runspec_jobs.provider import Facts, Request, Scope, Spec, Step
from runspec_jobs.provider.commands import argv
from runspec_jobs.provider.job_manifest import blob_key, job_record, reach, uploads
from runspec_jobs.provider.payload import pack_agent
from runspec_kubernetes.decision import Decision
from runspec_kubernetes.naming import create, delete
from runspec_kubernetes.options import KubernetesOptions

AGENT = "inside.pyz"  # the key in the ConfigMap
RECORD = "record.json"
STOP_S = 5  # how often an agent checks whether its task was stopped
REACH = (
    "a NetworkPolicy of the namespace must let the pods of a run reach each other at all TCP ports"
)


@cache
def agent_sha256() -> str:
    """Return the digest of the agent, by which its ConfigMap is named."""
    return hashlib.sha256(pack_agent()).hexdigest()


def agent_name() -> str:
    """Return the name of the ConfigMap with the agent, which all runs of a namespace share."""
    return f"runspec-agent-{agent_sha256()[:12]}"


def steps(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps that upload what several runs share: the agent, and folders."""
    yield agent_step(facts.options)
    for name, what, source in uploads(spec, facts):
        title = f"upload {what} ({source.counted}, {source.bytes:,} bytes)"
        put = Request("store", "put", {"key": blob_key(source), "body": {"$file": name}})
        remove = Request("store", "remove", {"key": blob_key(source)})
        yield Step(f"upload-{name}", title, Scope.SITE, put, remove)


def agent_step(options: KubernetesOptions) -> Step:
    """Return the step that makes the ConfigMap with the agent."""
    content = {"binaryData": {AGENT: {"$inside": agent_sha256()}}, "immutable": True}
    do = create(options, "configmaps", agent_name(), None, **content)
    undo = delete(options, "configmaps", agent_name())
    title = f"make the ConfigMap {agent_name()} with the agent"
    return Step("agent", title, Scope.SITE, do, undo)


def record(decision: Decision, spec: Spec, run: str, facts: Facts) -> Step:
    """Return the step that writes the record of the run: to the store or, without one, to a ConfigMap."""
    options = decision.options
    body = describe(decision, spec, run, facts)
    title = "write the job's record"
    if options.store is None:
        do = create(options, "configmaps", run, run, data={RECORD: body})
        return Step("record", title, Scope.RUN, do, delete(options, "configmaps", run, run))
    put = Request("store", "put", {"key": f"runs/{run}/{RECORD}", "body": body})
    undo = Request("store", "remove", {"prefix": f"runs/{run}/"})
    return Step("record", title, Scope.RUN, put, undo)


def name_cluster(options: KubernetesOptions) -> str:
    """Return the context and the namespace of the profile: other clusters may use the same place of a store."""
    return f"{options.context or ''}/{options.namespace}"


def describe(decision: Decision, spec: Spec, run: str, facts: Facts) -> str:
    """Return the record of the run."""
    stops: dict[str, object] = (
        {"stop_s": STOP_S, "repeats_stopped": True} if spec.sweep and decision.options.store else {}
    )
    if decision.repeats_killed:
        stops |= {"repeats_killed": True}
    if decision.options.store:
        stops |= {"cluster": name_cluster(decision.options)}
    fields = job_record(
        spec,
        run,
        facts,
        shape=decision.shape,
        argv=list(argv(spec)),
        count=decision.tasks,
        tries=decision.attempts,
        ends=True,
        **stops,
        **reach(spec, REACH),
    )
    return json.dumps(fields, sort_keys=True)
