"""Convert Jobs of Kubernetes to specs.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/
"""

from __future__ import annotations

from pathlib import PurePath

from runspec_imports.kube_cluster import KUBERNETES, PLAIN_LABELS, needs_store, take_labels
from runspec_imports.kube_pods import take_pod
from runspec_imports.kube_program import Beside, Program
from runspec_jobs.provider import OtherFormat, UsageError
from runspec_jobs.provider.importing.documents import Map, Seq, Text, read_documents
from runspec_jobs.provider.importing.draft import Draft, list_codes, write_duration, write_imported
from runspec_jobs.provider.importing.mapping import ForeignMap, Notes
from runspec_jobs.provider.types import ForeignFile, Imported

JOBS = ("Job", "CronJob")
DATA = ("ConfigMap", "Secret")
# Volumes become mounts of file systems that the profile names; the rest is of the cluster alone.
OF_VOLUMES = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")
NEEDLESS = ("Namespace", "Service")
DEFAULT_RETRIES = 6
MOST_ATTEMPTS = 10
OF_SERVER = "name generateName creationTimestamp uid resourceVersion generation".split()
# https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
ACTIONS = {"FailJob": "stop", "FailIndex": "stop", "Count": "retry", "Ignore": "retry"}
LAST_CODE = 255


def convert(file: ForeignFile, provider: str | None) -> Imported:
    """Return the Jobs in *file* as specs. Raise OtherFormat if it has no objects of Kubernetes."""
    if file.text.lstrip("\ufeff \t\r\n")[:2] == "#!":
        raise OtherFormat(f"{file.name} is a script")
    objects = _list_objects(read_documents(file))
    kinds = [str(one.get("kind")) for one in objects]
    if not objects or not all("kind" in one and "apiVersion" in one for one in objects):
        raise OtherFormat(f"{file.name} has no objects of Kubernetes")
    if not set(kinds) & set(JOBS):
        what = f"{file.name} has no Job of Kubernetes, but {', '.join(dict.fromkeys(kinds))}"
        raise UsageError(what, "runspec import reads kind: Job of apiVersion: batch/v1")
    notes = Notes(file.name)
    beside = Beside(notes)
    drafts: list[Draft] = []
    for kind, one in zip(kinds, objects, strict=True):
        if kind in DATA:
            beside.add(kind, one)
        elif kind in OF_VOLUMES or kind in NEEDLESS:
            notes.add(f"{kind}: it stays in the cluster", one)
        elif kind not in JOBS:
            notes.lose(kind, "only Jobs are imported", one)
    for kind, one in zip(kinds, objects, strict=True):
        if kind in JOBS:
            title = PurePath(file.name).name.split(".")[0]
            drafts.append(_take(ForeignMap(one, "", notes), kind, title, provider, beside))
    return write_imported(drafts, notes, beside.files)


def _list_objects(documents: list[Map]) -> list[Map]:
    found: list[Map] = []
    for document in documents:
        items = document.get("items") if document.get("kind") in ("List", "JobList") else None
        found += (
            [one for one in items if isinstance(one, Map)] if isinstance(items, Seq) else [document]
        )
    return found


def _take(source: ForeignMap, kind: str, title: str, provider: str | None, beside: Beside) -> Draft:
    source.skip("apiVersion", "kind", "status")
    metadata = source.map("metadata")
    name = metadata.text("name") or metadata.text("generateName") or title
    draft = Draft(name, provider or KUBERNETES, source.notes)
    take_metadata(metadata, draft)
    job = source.map("spec")
    if kind == "CronJob":
        for key in ("schedule", "timeZone"):
            if key in job:
                job.lose(key, "cron can run runspec apply")
        job.skip(
            "concurrencyPolicy", "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "suspend"
        )
        template = job.map("jobTemplate")
        take_metadata(template.map("metadata"), draft)
        job = template.map("spec")
    _take_job(job, name, draft, beside)
    return draft


def take_metadata(source: ForeignMap, draft: Draft) -> None:
    """Leave out names, and labels and annotations that only describe; list what the provider has no setting for."""
    in_cluster = draft.provider == KUBERNETES
    namespace = source.text("namespace")
    if in_cluster and namespace not in ("", "default"):
        draft.profile["namespace"] = namespace
    source.skip(*OF_SERVER)
    for key in ("labels", "annotations"):
        inner = source.map(key)
        inner.skip(*(label for label in inner.list_keys() if label.startswith(PLAIN_LABELS)))
        if in_cluster and key == "labels":
            take_labels(inner, draft)


def _take_job(source: ForeignMap, name: str, draft: Draft, beside: Beside) -> None:
    count, parallel = source.number("completions"), source.number("parallelism")
    indexed = source.text("completionMode") == "Indexed"
    template = source.map("template")
    of_pods = template.map("metadata")
    if draft.provider == KUBERNETES and (notes := of_pods.pairs("annotations")):
        draft.profile["annotations"] = notes
    take_metadata(of_pods, draft)
    pod = template.map("spec")
    tasks = count or parallel or 1
    is_gang = indexed and tasks > 1 and parallel == tasks and needs_peers(pod)
    if is_gang:
        draft.cluster["nodes"] = tasks
    elif tasks > 1:
        draft.spec["sweep"] = {"index": f"0..{tasks - 1}"}
        if parallel and parallel < tasks:
            draft.spec["max_parallel"] = parallel
        elif parallel is None:
            draft.spec["max_parallel"] = 1
        if count is None:
            draft.notes.add(
                f"each of {tasks} pods becomes a task: completions is not set", source.value
            )
    seconds = source.number("activeDeadlineSeconds") or pod.number("activeDeadlineSeconds")
    if seconds:
        draft.spec["timeout"] = write_duration(seconds)
    if (ttl := source.number("ttlSecondsAfterFinished")) is not None:
        if draft.provider == KUBERNETES:  # which deletes the Job then, and no outputs
            draft.settings["keep"] = write_duration(max(ttl, 1))
        else:
            draft.spec["ttl"] = write_duration(max(ttl, 1))
    if source.truth("suspend") and "queue" not in draft.settings:  # Kueue starts a job of its queue
        source.lose("suspend", "apply starts the job")
    source.skip("selector", "manualSelector")  # by which its controller knows its pods
    _take_retries(source, draft)
    subdomain = pod.text("subdomain")
    take_pod(pod, Program(draft, name, subdomain, indexed, is_gang), beside)
    if draft.provider == KUBERNETES and needs_store(draft):
        draft.notes.add(
            "the file does not say store: add it to the profile, see `runspec docs kubernetes`"
        )


def needs_peers(pod: ForeignMap) -> bool:
    """Return whether the pods of an indexed Job are nodes that work together: they have addresses, or ask for ranks."""
    texts = " ".join(walk_texts(pod.value))
    words = (
        "torchrun",
        "MASTER_ADDR",
        "--rdzv",
        "mpirun",
        "torch.distributed",
        "--node_rank",
        "--node-rank",
    )
    return "subdomain" in pod or any(word in texts for word in words)


def walk_texts(value: object) -> list[str]:
    if isinstance(value, Map | Seq):
        inner = value.values() if isinstance(value, Map) else value
        own = list(value) if isinstance(value, Map) else []
        return own + [text for one in inner for text in walk_texts(one)]
    return [str(value)] if isinstance(value, Text) else []


def _take_retries(source: ForeignMap, draft: Draft) -> None:
    per_index = source.number("backoffLimitPerIndex")
    limit = source.number("backoffLimit")
    failed = source.number("maxFailedIndexes")
    if failed is not None and "sweep" in draft.spec:
        draft.spec["max_failed"] = failed + 1  # the sweep ends with this one
    retries = next((n for n in (per_index, limit) if n is not None), DEFAULT_RETRIES)
    attempts = min(retries + 1, MOST_ATTEMPTS)
    if retries >= MOST_ATTEMPTS:
        draft.notes.lose(
            "backoffLimit",
            f"a task has at most {MOST_ATTEMPTS} attempts",
            source.find_key("backoffLimit"),
        )
    retry: dict[str, object] = {"attempts": attempts} if attempts > 1 else {}
    rules = [r for r in map(_read_rule, source.map("podFailurePolicy").maps("rules")) if r]
    if rules and attempts > 1:
        retry["on"] = rules
    if retry:
        draft.spec["retry"] = retry


def _read_rule(rule: ForeignMap) -> dict[str, object] | None:
    action = ACTIONS.get(rule.text("action"), "")
    codes = rule.map("onExitCodes")
    codes.skip("containerName")
    conditions = rule.maps("onPodConditions")
    kinds = [one.text("type") for one in conditions]
    for one in conditions:
        one.skip("status")
    values = {int(text) for text in codes.texts("values") if text.isdecimal()}
    if codes.text("operator") == "NotIn":
        values = set(range(1, LAST_CODE + 1)) - values
    if action and values:
        return {"exit_codes": list_codes(values), "action": action}
    if action == "retry" and kinds == ["DisruptionTarget"]:
        return None  # an attempt that lost its machine is no failure here
    rule.notes.lose(rule.path, "only exit codes decide about retries", rule.value)
    return None
