"""What jobs may be, and which of their fields can change.

https://kubernetes.io/docs/concepts/workloads/controllers/job/, the descriptions of JobSpec's fields in the OpenAPI, and
https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/batch/validation/validation.go
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import names, pod_rules
from runspec_emulators.kubernetes.errors import Cause

Object = dict[str, Any]
IMMUTABLE = "field is immutable"
MOST_PARALLEL = 100_000  # "`.spec.parallelism` must be less than or equal to 10^5"
MANY, MOST_OF_MANY = 100_000, 10_000  # with more completions, what parallelism may be
COUNTS = (
    "parallelism completions backoffLimit backoffLimitPerIndex maxFailedIndexes ttlSecondsAfterFinished "
    "activeDeadlineSeconds"
).split()
DIRECTIVES = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def check(value: Object) -> Iterator[Cause]:
    """Yield what is wrong with a job."""
    spec, name = value["spec"], value["metadata"].get("name", "")
    for field in COUNTS:
        if spec.get(field, 0) < 0:
            yield errors.wrong(f"spec.{field}", spec[field], "must be greater than or equal to 0")
    indexed = spec.get("completionMode") == "Indexed"
    if indexed:
        yield from _indexed(spec, name)
    # The name of the job becomes the value of a label of its pods.
    elif len(name) > 63:
        yield errors.wrong("spec.template.labels", name, names.too_long(63))
    yield from _per_index(spec, indexed)
    template = spec.get("template")
    if template is None:
        return
    pod, at = template["spec"], "spec.template.spec"
    meta = template["metadata"]
    yield from names.check_labels(meta.get("labels") or {}, "spec.template.metadata.labels")
    yield from names.check_annotations(
        meta.get("annotations") or {}, "spec.template.metadata.annotations"
    )
    yield from pod_rules.check_spec(pod, at, ("Never", "OnFailure"))
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    if pod.get("restartPolicy") != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield errors.wrong(f"{at}.restartPolicy", pod.get("restartPolicy"), why)
    if spec.get("podReplacementPolicy") != "Failed":
        yield errors.unsupported(
            "spec.podReplacementPolicy", spec["podReplacementPolicy"], ["Failed"]
        )
    containers = [
        c.get("name") for c in [*pod.get("containers", ()), *(pod.get("initContainers") or ())]
    ]
    if len(policy.get("rules") or ()) > 20:
        yield Cause(
            "FieldValueTooMany",
            "spec.podFailurePolicy.rules",
            f"Too many: {len(policy['rules'])}: must have at most 20 items",
        )
    for number, rule in enumerate(policy.get("rules") or ()):
        yield from _rule(rule, f"spec.podFailurePolicy.rules[{number}]", spec, containers)


def _indexed(spec: Object, name: str) -> Iterator[Cause]:
    completions = spec.get("completions")
    if completions is None:
        yield errors.required("spec.completions", "when completion mode is Indexed")
        return
    if spec.get("parallelism", 0) > MOST_PARALLEL:
        why = f"must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed"
        yield errors.wrong("spec.parallelism", spec["parallelism"], why)
    if "maxFailedIndexes" in spec and spec["maxFailedIndexes"] > completions:
        yield errors.wrong(
            "spec.maxFailedIndexes",
            spec["maxFailedIndexes"],
            "must be less than or equal to completions",
        )
    if completions > MANY and "backoffLimitPerIndex" in spec:
        if "maxFailedIndexes" not in spec:
            why = f"must be specified when completions is above {MANY}"
            yield errors.required("spec.maxFailedIndexes", why)
        for field in ("parallelism", "maxFailedIndexes"):
            if spec.get(field, 0) > MOST_OF_MANY:
                why = f"when completions are above {MANY} and used with backoff limit per index"
                why = f"must be less than or equal to {MOST_OF_MANY} {why}"
                yield errors.wrong(f"spec.{field}", spec[field], why)
    # "Pod hostnames take the form $(job-name)-$(index)"
    last = f"{name}-{completions - 1}"
    if name and completions > 0 and any(names.label_problems(last)):
        why = f"will not able to create pod with invalid DNS label: {last}"
        yield errors.wrong("metadata.name", name, why)


def _per_index(spec: Object, indexed: bool) -> Iterator[Cause]:
    if "backoffLimitPerIndex" in spec and not indexed:
        why = "requires indexed completion mode"
        yield errors.wrong("spec.backoffLimitPerIndex", spec["backoffLimitPerIndex"], why)
    pod = spec.get("template", {}).get("spec", {})
    if "backoffLimitPerIndex" in spec and pod.get("restartPolicy") == "OnFailure":
        why = 'only "Never" is supported when backoffLimitPerIndex is specified'
        yield errors.wrong("spec.template.spec.restartPolicy", "OnFailure", why)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield errors.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")


def _rule(rule: Object, at: str, spec: Object, containers: list[Any]) -> Iterator[Cause]:
    if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
        why = "requires the backoffLimitPerIndex to be set"
        yield errors.wrong(f"{at}.action", "FailIndex", why)
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if codes is not None and conditions:
        why = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield errors.wrong(at, "", why)
    if codes is None and not conditions:
        yield errors.wrong(at, "", "specifying one of OnExitCodes and OnPodConditions is required")
    if codes is None:
        return
    values, place = codes.get("values") or [], f"{at}.onExitCodes.values"
    if not values:
        yield errors.wrong(place, values, "at least one value is required")
    elif len(values) > 255:
        yield Cause(
            "FieldValueTooMany", place, f"Too many: {len(values)}: must have at most 255 items"
        )
    for number, value in enumerate(values):
        # Success is no failure that a rule could be about.
        if value == 0 and codes.get("operator") == "In":
            yield errors.wrong(f"{place}[{number}]", 0, "must not be 0 for the In operator")
        if value in values[:number]:
            yield Cause("FieldValueDuplicate", f"{place}[{number}]", f"Duplicate value: {value}")
    if values != sorted(values):
        yield errors.wrong(place, values, "must be ordered")
    name = codes.get("containerName")
    if name is not None and name not in containers:
        yield errors.wrong(
            f"{at}.onExitCodes.containerName",
            name,
            "must be one of the container or initContainer names in the pod template",
        )


def check_update(value: Object, before: Object) -> Iterator[Cause]:
    """Yield which changes of a job are not allowed."""
    spec, old = value["spec"], before["spec"]
    indexed = old.get("completionMode") == "Indexed"
    # "Elastic Indexed Jobs": an indexed job can change its size if both numbers change together:
    # https://kubernetes.io/docs/concepts/workloads/controllers/job/#elastic-indexed-jobs
    grows = indexed and spec.get("completions") == spec.get("parallelism")
    fields = [
        "selector",
        "completionMode",
        "backoffLimitPerIndex",
        "podFailurePolicy",
        "successPolicy",
        "managedBy",
    ]
    for field in fields if grows else ["completions", *fields]:
        if spec.get(field) != old.get(field):
            yield errors.wrong(f"spec.{field}", spec.get(field), IMMUTABLE)
    template, kept = copy.deepcopy(spec["template"]), copy.deepcopy(old["template"])
    if old.get("suspend") and "startTime" not in before.get("status", {}):
        # "mutable scheduling directives": only of a job that is suspended and never was started
        for field in DIRECTIVES:
            template["spec"].pop(field, None)
            kept["spec"].pop(field, None)
        for part in (template, kept):
            part["metadata"].pop("labels", None)
            part["metadata"].pop("annotations", None)
    if template != kept:
        yield errors.wrong("spec.template", spec["template"], IMMUTABLE)
