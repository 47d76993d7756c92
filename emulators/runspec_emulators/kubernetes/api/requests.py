"""Requests: what their method and path ask for.

https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris,
https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from runspec_emulators.frame.errors import ServiceError
from runspec_emulators.kubernetes import errors, resources
from runspec_emulators.kubernetes.api import schema
from runspec_emulators.kubernetes.resources import Resource

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
OPTIONS = {
    "create": "CreateOptions",
    "update": "UpdateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
}
# MaxRequestBodyBytes in pkg/server/config.go of k8s.io/apiserver
BODY = 3 * 1024 * 1024  # bytes of a request


@dataclass
class Request:
    """A request to a resource."""

    method: str
    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    sub: str = ""
    """The subresource, such as `log`."""
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)

    def option(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def is_set(self, name: str) -> bool:
        return self.option(name).lower() in ("true", "1")

    def number(self, name: str) -> int | None:
        """Return a number of the query; raise ServiceError if it is none."""
        text = self.option(name)
        if not text:
            return None
        try:
            return int(text)
        except ValueError as exc:
            said = f'strconv.ParseInt: parsing "{text}": invalid syntax'
            raise errors.bad_request(said) from exc

    @property
    def operation(self) -> str:
        """Return how the request is recorded, and named by faults: `create jobs`, `get pods/log`."""
        sub = f"/{self.sub}" if self.sub else ""
        return f"{self.verb} {self.resource.names.plural}{sub}"

    @property
    def is_dry(self) -> bool:
        return "All" in self.query.get("dryRun", [])

    def check_dry(self) -> None:
        """Raise ServiceError unless a dry run is all of one, or none."""
        given = self.query.get("dryRun", [])
        if self.verb in OPTIONS and given not in ([], ["All"]):
            raise errors.wrong_options(
                OPTIONS[self.verb], errors.unsupported("dryRun", given, ["All"])
            )

    def document(self) -> dict[str, Any]:
        """Return the object in the body; raise ServiceError where there is none."""
        why = "" if self.body.strip() else "unexpected end of JSON input (<empty>)"
        given: Any = None
        try:
            given = None if why else self.json()
        except ServiceError as exc:
            if exc.status != 400:
                raise
            why = exc.message
        if isinstance(given, dict):
            return given
        why = why or f"json: cannot unmarshal {type(given).__name__}"
        kind = self.resource.names.kind
        said = f"the object provided is unrecognized (must be of type {kind})"
        raise errors.bad_request(f"{said}: couldn't get version/kind; json parse error: {why}")

    def json(self) -> Any:
        if len(self.body) > BODY:
            said = f"Request entity too large: limit is {BODY}"
            raise errors.refuse(413, "RequestEntityTooLarge", said)
        return schema.read_json(self.body) if self.body.strip() else {}


def read(
    method: str, target: str, headers: Mapping[str, str], body: bytes, kueue: bool = False
) -> Request:
    """Return what a request asks for; raise ServiceError where there is no such resource."""
    split = urlsplit(target)
    parts = [unquote(p) for p in split.path.strip("/").split("/")]
    group, version, rest = _place(parts)
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource = resources.find(group, version, rest[0]) if rest else None
    known = resource is not None and (kueue or resource.names.group != resources.KUEUE)
    if resource is None or not known or len(rest) > 3:
        raise errors.no_path()
    if bool(namespace) and not resource.namespaced:
        raise errors.no_path()
    name, sub = [*rest[1:], "", ""][:2]
    if sub and sub not in resources.SUBRESOURCES.get(resource.names.plural, ()):
        raise errors.no_path()
    query = parse_qs(split.query, keep_blank_values=True)
    request = Request(method, "", resource, namespace, name, sub, query, headers, body)
    request.verb = _verb(request)
    return request


def _place(parts: list[str]) -> tuple[str, str, list[str]]:
    if parts[0] == "api" and len(parts) > 2:
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) > 3:
        return parts[1], parts[2], parts[3:]
    raise errors.no_path()


def _verb(request: Request) -> str:
    method, name = request.method, request.name
    if method in ("GET", "HEAD"):
        # A watch is a verb of its own: who may list may not thereby watch.
        if request.is_set("watch"):
            return "watch"
        return "get" if name else "list"
    if method == "DELETE" and not name:
        return "deletecollection"
    if (method == "POST") == bool(name and not request.sub) or (method != "POST" and not name):
        raise errors.no_method()
    return VERBS[method]
