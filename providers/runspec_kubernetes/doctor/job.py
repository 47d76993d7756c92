"""Find problems that would stop one job: rights of the login, room in the namespace, and nodes for its pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from runspec_jobs.provider import Facts, Finding, Spec, Step
from runspec_kubernetes.decision import decide
from runspec_kubernetes.doctor.capacity import check_nodes, check_quotas, check_ranges
from runspec_kubernetes.doctor.cluster import Examiner, examine_cluster
from runspec_kubernetes.errors import RIGHTS
from runspec_kubernetes.naming import collection
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.policy import Rule, list_rules
from runspec_kubernetes.session import Session
from runspec_kubernetes.timing import CLOCK, DEFAULT

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def examine(
    spec: Spec, facts: Facts, steps: Sequence[Step], asker: Examiner | None = None
) -> Iterator[Finding]:
    """Yield what stops the job of *spec*, whose plan has *steps*, most important first."""
    options: KubernetesOptions = facts.options
    asker = asker or Examiner(Session(options, DEFAULT, CLOCK))
    decision = decide(spec, facts)
    if not (yield from examine_cluster(asker, options, decision.nodes)):
        return
    yield from _rights(asker, list_rules(steps, options))
    ranges = (yield from asker.list("limit ranges", _path(options, "limitranges"))) or []
    quotas = (yield from asker.list("quotas", _path(options, "resourcequotas"))) or []
    yield from check_ranges(decision, ranges)
    yield from check_quotas(decision, quotas, ranges)
    nodes = yield from asker.list("nodes", "/api/v1/nodes")
    if nodes is not None:
        yield check_nodes(decision, nodes)
    text = f"doctor does not pull {decision.image}: whether the nodes can is not known"
    yield Finding(text, True, unknown=True)


def _path(options: KubernetesOptions, kind: str) -> str:
    return collection(options.namespace, kind)


def _rights(asker: Examiner, rules: Iterable[Rule]) -> Iterator[Finding]:
    """https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access"""
    lacking: list[str] = []
    for rule in rules:
        for group, resource, verb in (
            (group, resource, verb)
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ):
            kind, _, part = resource.partition("/")
            asked = {"namespace": asker.options.namespace, "group": group, "resource": kind}
            body = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {**asked, "subresource": part, "verb": verb}},
            }
            review, unknown = asker.ask(
                "the rights of the login",
                lambda body=body: asker.session.send("POST", REVIEWS, body=body),  # type: ignore[misc]
            )
            if unknown is not None:
                yield unknown
                return
            if not review.get("status", {}).get("allowed"):
                lacking.append(f"{verb} {resource}")
    if lacking:
        yield Finding(f"the login has no right to {', '.join(lacking)}", False, RIGHTS)
    else:
        yield Finding("the login has the rights that the job needs", True)
