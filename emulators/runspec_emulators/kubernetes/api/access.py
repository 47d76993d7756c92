"""Who asks, and what he may do: bearer tokens, rules of RBAC, and reviews of the asker's own access.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/,
https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api.requests import Request
from runspec_emulators.kubernetes.errors import Names
from runspec_emulators.kubernetes.resources import ACCESS_REVIEWS, RULES_REVIEWS
from runspec_emulators.kubernetes.settings import Settings

ALL: Sequence[Mapping[str, Any]] = ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},)
ADMIN = "rehearsal"


class User(NamedTuple):
    """A user and the rules that say what it may do."""

    name: str
    rules: Sequence[Mapping[str, Any]]


def identify(settings: Settings, headers: Mapping[str, str]) -> User:
    """Return who bears the token of a request; raise ServiceError for nobody."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        if hmac.compare_digest(token.encode(), settings.token.encode()):
            return User(ADMIN, ALL)
        for name, given in settings.users.items():
            if hmac.compare_digest(token.encode(), str(given["token"]).encode()):
                return User(name, given.get("rules", ()))
    # As with --anonymous-auth=false; where anonymous requests are allowed, they are refused with 403
    # by RBAC: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#anonymous-requests
    raise errors.refuse(401, "Unauthorized", "Unauthorized")


class Action(NamedTuple):
    """What somebody wants to do."""

    verb: str
    group: str
    resource: str
    """With the subresource, as rules have it: `pods/log`."""
    namespace: str
    name: str


def allows(user: User, action: Action) -> bool:
    return any(_fits(rule, action) for rule in user.rules)


def _fits(rule: Mapping[str, Any], action: Action) -> bool:
    plural, slash, sub = action.resource.partition("/")
    # A rule for `pods` does not cover `pods/log`; `*/log` covers the log of anything:
    # ResourceMatches in pkg/apis/rbac/v1/evaluation_helpers.go.
    known = {"*", action.resource, *({f"*/{sub}"} if slash else {plural})}
    return (
        bool({"*", action.verb} & {*rule.get("verbs", ())})
        and bool({"*", action.group} & {*rule.get("apiGroups", ())})
        and bool(known & {*rule.get("resources", ())})
        # A request that names no object, such as a create, is never allowed by a rule with names:
        # https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
        and (not rule.get("resourceNames") or action.name in rule["resourceNames"])
        and rule.get("namespace") in (None, action.namespace)
    )


def authorize(user: User, request: Request, verb: str = "") -> None:
    """Raise ServiceError if the user may not do what the request asks for."""
    names = request.resource.names
    if not request.resource.stored:
        return  # "system:basic-user" lets everybody review what he himself may do
    resource = f"{names.plural}/{request.sub}" if request.sub else names.plural
    action = Action(verb or request.verb, names.group, resource, request.namespace, request.name)
    if allows(user, action):
        return
    place = (
        f' in the namespace "{action.namespace}"' if action.namespace else " at the cluster scope"
    )
    why = f'User "{user.name}" cannot {action.verb} resource "{resource}" in API group "{names.group}"{place}'
    raise errors.forbidden(names, action.name, why)


def _check_review(request: Request, value: dict[str, Any]) -> None:
    spec, names = value.get("spec", {}), request.resource.names
    if request.resource is RULES_REVIEWS:
        if not spec.get("namespace"):
            raise errors.bad_request("no namespace on request")
        return
    unnamed = Names(names.group, names.plural, "")
    if value.get("metadata"):
        cause = errors.wrong("metadata", value["metadata"], "must be empty")
        raise errors.invalid(unnamed, "", [cause])
    if ("resourceAttributes" in spec) == ("nonResourceAttributes" in spec):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise errors.invalid(unnamed, "", [errors.wrong("spec.resourceAttributes", None, why)])


def review(user: User, request: Request, value: dict[str, Any]) -> dict[str, Any]:
    """Return a review with its answer; raise ServiceError if it asks for nothing."""
    _check_review(request, value)
    if request.resource is RULES_REVIEWS:
        namespace = value.get("spec", {}).get("namespace", "")
        rules = [
            {k: v for k, v in rule.items() if k != "namespace"}
            for rule in user.rules
            if rule.get("namespace") in (None, namespace)
        ]
        status: dict[str, Any] = {
            "resourceRules": rules,
            "nonResourceRules": [],
            "incomplete": False,
        }
    else:
        assert request.resource is ACCESS_REVIEWS, "BUG: there are two kinds of reviews"
        asked = value.get("spec", {}).get("resourceAttributes") or {}
        sub = asked.get("subresource")
        resource = asked.get("resource", "") + (f"/{sub}" if sub else "")
        words = (asked.get("verb", ""), asked.get("group", ""), resource)
        action = Action(*words, asked.get("namespace", ""), asked.get("name", ""))
        status = {"allowed": allows(user, action)}
    return {**value, "status": status}
