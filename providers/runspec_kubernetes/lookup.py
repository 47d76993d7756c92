"""Find objects by their names, and compare them with what a plan wants."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from runspec_jobs.provider import Conflict, Request, Response
from runspec_kubernetes.naming import MANAGED, RUN_LABEL
from runspec_kubernetes.session import Session

Object = Mapping[str, Any]


def path_of(request: Request) -> str:
    """Return the path of the object that *request* makes or deletes."""
    path: str = request.params["path"]
    body = request.params["body"]
    return f"{path}/{body['metadata']['name']}" if request.operation == "create" else path


def find(session: Session, request: Request) -> Response | None:
    """Return the answer that *request*, which makes an object, would have got, or None.

    Raises Conflict if an object of somebody else has its name.
    """
    existing = session.read(path_of(request))
    if existing is None or is_leaving(existing):
        return None
    refuse_foreign(existing, request.params["body"]["metadata"]["labels"].get(RUN_LABEL))
    _refuse_other_agent(existing, request.params["body"])
    return answer_of(existing)


def _refuse_other_agent(existing: Object, wanted: Object) -> None:
    """Raise Conflict if *existing* has the name of an agent, and not its content: all runs execute it."""
    for name, content in (wanted.get("binaryData") or {}).items():
        if not isinstance(content, Mapping) or "$inside" not in content:
            continue
        text = (existing.get("binaryData") or {}).get(name, "")
        if hashlib.sha256(base64.b64decode(text)).hexdigest() != content["$inside"]:
            what = f"ConfigMap {existing['metadata']['name']}"
            raise Conflict(f"{what} has another content than its name says", "delete it")


def refuse_foreign(existing: Object, run: str | None) -> None:
    """Raise Conflict if *existing* was not made by runspec for *run*, or for all runs if that is None."""
    metadata = existing.get("metadata", {})
    given = metadata.get("labels") or {}
    if (
        all(given.get(key) == value for key, value in MANAGED.items())
        and given.get(RUN_LABEL) == run
    ):
        return
    what = f"{existing.get('kind', 'an object')} {metadata.get('namespace')}/{metadata.get('name')}"
    raise Conflict(
        f"{what} exists, and runspec has not made it for this run", "use another namespace"
    )


def is_leaving(existing: Object) -> bool:
    """Return whether an object is being deleted."""
    return bool(existing.get("metadata", {}).get("deletionTimestamp"))


def answer_of(existing: Object) -> Response:
    """Return what a plan may refer to of an object."""
    return {"name": existing["metadata"]["name"], "uid": existing["metadata"]["uid"]}
