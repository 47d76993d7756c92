"""Discovery: which groups, versions and resources there are.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
"""

from __future__ import annotations

from typing import Any

from runspec_emulators.kubernetes.resources import (
    KUEUE,
    RESOURCES,
    SUBRESOURCES,
    Resource,
)
from runspec_emulators.kubernetes.settings import Settings

VERBS = "create delete deletecollection get list patch update watch".split()
OF_SUB = {"log": ["get"], "status": ["get", "patch", "update"]}


def answer(settings: Settings, path: str) -> dict[str, Any] | str | None:
    """Return what a path of discovery is answered with; None for any other path."""
    known = [r for r in RESOURCES if settings.kueue or r.names.group != KUEUE]
    groups = sorted({(r.names.group, r.version) for r in known if r.names.group})
    parts = path.strip("/").split("/")
    if parts == ["version"]:
        return _version(settings.version)
    if parts[0] in ("healthz", "livez", "readyz"):
        return "ok"
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if parts == ["apis"]:
        shown = [_group(*group) for group in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": shown}
    if parts[0] == "apis" and len(parts) == 2:
        for group in groups:
            if group[0] == parts[1]:
                return {"kind": "APIGroup", "apiVersion": "v1", **_group(*group)}
    place = ("", parts[1]) if parts[0] == "api" and len(parts) == 2 else (*parts[1:],)
    of_group = [r for r in known if (r.names.group, r.version) == place]
    if len(parts) not in (2, 3) or not of_group or parts[0] not in ("api", "apis"):
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": of_group[0].api_version,
        "resources": [entry for r in of_group for entry in _entries(r)],
    }


def _version(version: str) -> dict[str, Any]:
    major, minor = version.removeprefix("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.25",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def _group(name: str, version: str) -> dict[str, Any]:
    shown = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [shown], "preferredVersion": shown}


def _entries(resource: Resource) -> list[dict[str, Any]]:
    names = resource.names
    common = {"namespaced": resource.namespaced, "kind": names.kind}
    verbs = VERBS if resource.stored else ["create"]
    entry = {"name": names.plural, "singularName": names.kind.lower(), **common, "verbs": verbs}
    if resource.short:
        entry["shortNames"] = [*resource.short]
    subs = [
        {
            "name": f"{names.plural}/{s}",
            "singularName": "",
            **common,
            "verbs": OF_SUB.get(s, ["create", "get"]),
        }
        for s in SUBRESOURCES.get(names.plural, ())
    ]
    return [entry, *subs]
